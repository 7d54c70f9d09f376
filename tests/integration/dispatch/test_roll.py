"""The archives roll on MariaDB: cut ahead, dropped when over, and nothing is lost by either."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.test import override_settings

from apps.common import clock, partitions
from apps.common.leases import load_position, sweep_lease
from apps.dispatch import sweeps as dispatch_sweeps
from apps.dispatch.models import ArchivedDispatch, Executor
from apps.flows.services import control
from apps.jobs import sweeps as job_sweeps
from apps.jobs.models import ArchivedJob, JobLog
from apps.jobs.services import job_log
from apps.jobs.services.find import with_key
from apps.journal.models import JournalEntry
from taskplatform.beat import schedule
from tests.archives import ARCHIVES, Archive
from tests.flows import OLGA, jobs, run_of, started, step_of
from tests.frozen import FrozenClock
from tests.history import logged
from tests.jobs import end, job_type, take
from tests.kills import kills
from tests.statements import analyze, index_reads

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]

DAY = timedelta(days=1)
JOBS, DISPATCHES = ARCHIVES["jobs"], ARCHIVES["dispatches"]


@pytest.fixture(params=ARCHIVES, autouse=True)
def kept(
    request: pytest.FixtureRequest, transactional_db: None, frozen_clock: FrozenClock
) -> Iterator[Archive]:
    """It has one partition before and after each test, as `migrate` leaves it."""
    archive = ARCHIVES[request.param]
    archive.unite()
    archive.begin()
    yield archive
    archive.unite()


of_jobs = pytest.mark.parametrize("kept", ["jobs"], indirect=True)
of_dispatches = pytest.mark.parametrize("kept", ["dispatches"], indirect=True)


def names(kept: Archive) -> list[str]:
    return [each.name for each in partitions.partitions_of(kept.there)]


def test_three_are_cut_ahead_and_more_as_time_goes_on(
    kept: Archive, frozen_clock: FrozenClock
) -> None:
    """S2.8: by months at first, as nothing is known of how many rows come."""
    assert kept.rolling.roll() == (3, 0)
    ends = [each.end for each in partitions.partitions_of(kept.there) if each.end is not None]
    assert ends[0] == datetime(2026, 4, 2, tzinfo=UTC)
    assert kept.rolling.roll() == (0, 0)
    frozen_clock.advance(days=31)
    assert kept.rolling.roll() == (1, 0)
    assert partitions.partitions_of(kept.there)[-2].end == ends[-1] + 31 * DAY


def test_what_came_before_the_first_cut_is_kept_and_too_much_of_it_left_to_a_person(
    kept: Archive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """S2.8: a late sweep loses nothing."""
    numbers = kept.archived(20, ago=50 * DAY)
    with monkeypatch.context() as few:
        few.setattr(partitions, "MOVED_AT_ONCE", 19)
        assert kept.roll() == 0
        assert f"older {kept.rows} lie behind" in caplog.text
        assert "roll_tables --move" in caplog.text
        call_command("roll_tables", "--move", stdout=(out := StringIO()))
    assert f"archive of {kept.rows}: 3 partitions cut, 0 dropped" in out.getvalue()
    assert [kept.where(number) for number in numbers] == [["archive"]] * 20


def test_dropped_when_all_its_rows_are_over(kept: Archive, frozen_clock: FrozenClock) -> None:
    """S0.8, S1.19, S4.16: at once, with one entry; what is younger stays."""
    kept.rolling.roll()
    old = kept.archived(30)
    frozen_clock.advance(days=90)
    young = kept.archived(5)
    # The last day of the month of the old ones is 2026-04-02.
    frozen_clock.advance(days=340)
    assert kept.rolling.roll().dropped == 0
    frozen_clock.advance(days=1)
    assert kept.rolling.roll().dropped == 1
    assert not any(kept.where(number) for number in old)
    assert all(kept.where(number) == ["archive"] for number in young)
    [entry] = JournalEntry.objects.filter(event="purged")
    assert entry.data == {f"archived_{kept.rows}": 30, "partition": "p2026040200"}


@of_jobs
def test_logs_go_with_the_partition_of_their_jobs(
    kept: Archive, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I61: some at a time; that of a live job that was made with them stays."""
    monkeypatch.setattr(job_log, "CHUNK", 2)
    kept.rolling.roll()
    old = kept.archived(5)
    [live] = kept.ended()
    logged(*old, live)
    frozen_clock.advance(days=431)
    assert kept.rolling.roll().dropped == 1
    assert [each.job for each in JobLog.objects.all()] == [live]


@of_jobs
def test_job_that_ended_late_keeps_its_partition(kept: Archive, frozen_clock: FrozenClock) -> None:
    """I61: the end counts, not the making."""
    kept.rolling.roll()
    frozen_clock.advance(days=100)
    [late] = kept.ended(ago=90 * DAY, finished_at=clock.now() - 8 * DAY)
    kept.archived(3, ago=90 * DAY)
    frozen_clock.advance(days=391)
    # Only the empty one of the month after it.
    assert kept.rolling.roll().dropped == 1
    assert kept.where(late) == ["archive"]
    assert len(load_position(kept.rolling.sweep)) == 1
    frozen_clock.advance(days=1)
    assert kept.rolling.roll().dropped == 0
    frozen_clock.advance(minutes=1)
    assert kept.rolling.roll().dropped == 1
    assert kept.where(late) == []
    assert load_position(kept.rolling.sweep) == {}


@of_jobs
def test_jobs_of_a_step_that_goes_on_keep_their_partition(
    kept: Archive, frozen_clock: FrozenClock
) -> None:
    """I71: one of two has ended, and the other one not for more than a year."""
    kept.rolling.roll()
    job_type("mail")
    run = started(jobs("many", [1, 2]))
    step = step_of(run, "many")
    assert step.first is not None
    end(take(1)[0])
    frozen_clock.advance(days=8)
    assert kept.move() == 1
    frozen_clock.advance(days=423)
    assert kept.rolling.roll().dropped == 0
    assert kept.where(step.first) == ["archive"]
    control.cancel(run=run_of(run), **OLGA)
    frozen_clock.advance(hours=23)
    assert kept.rolling.roll().dropped == 0
    frozen_clock.advance(hours=1, minutes=1)
    assert kept.rolling.roll().dropped == 1
    assert kept.where(step.first) == []


@of_jobs
def test_jobs_that_no_partition_took_go_one_by_one(
    kept: Archive, frozen_clock: FrozenClock
) -> None:
    """S1.19: a month later at most; those of a type with a shorter time are not late."""
    job_type("short", retention_days=30)
    kept.rolling.roll()
    [own] = kept.archived(type="short", ago=31 * DAY)
    [usual] = kept.archived(ago=401 * DAY)
    assert kept.rolling.lag() == 32 * DAY
    assert job_sweeps.forget() == 1
    assert (kept.where(own), kept.where(usual)) == ([], ["archive"])
    frozen_clock.advance(days=32)
    assert job_sweeps.forget() == 1
    assert kept.where(usual) == []


@of_dispatches
def test_dispatches_that_no_partition_took_go_one_by_one(
    kept: Archive, frozen_clock: FrozenClock
) -> None:
    """S0.8: a month later."""
    kept.rolling.roll()
    [number] = kept.ended(ago=401 * DAY)
    # The dispatch and its stock.
    assert dispatch_sweeps.purge() == 2
    assert kept.where(number) == ["archive"]
    frozen_clock.advance(days=33)
    assert dispatch_sweeps.purge() == 1
    assert kept.where(number) == []


def test_nothing_is_dropped_while_the_mover_works_nor_if_all_is_kept(
    kept: Archive, frozen_clock: FrozenClock
) -> None:
    """I61, I63: it may bring what was made early and ended late."""
    kept.archived(3)
    kept.rolling.roll()
    frozen_clock.advance(days=500)
    with sweep_lease(kept.mover, at_most=timedelta(minutes=1)):
        assert kept.rolling.roll().dropped == 0
    with override_settings(JOB_RETENTION=timedelta(0), DISPATCH_RETENTION=timedelta(0)):
        assert kept.rolling.roll().dropped == 0
    assert kept.count() == 3
    assert kept.rolling.roll().dropped > 0
    assert kept.count() == 0


@of_jobs
def test_long_transaction_delays_it_and_is_not_disturbed(
    kept: Archive, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would wait behind a statement that waits."""
    kept.archived(1)
    made: list[int] = []

    def elsewhere() -> None:
        made.append(kept.roll())
        connections.close_all()

    with monkeypatch.context() as impatient, transaction.atomic():
        impatient.setattr(partitions, "_LOCK_SECONDS", 1)
        assert kept.count() == 1
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join(60)
    assert made == [0]
    assert "A long transaction uses the table" in caplog.text
    assert names(kept) == ["pmax"]
    assert kept.roll() > 0


def test_killed_at_any_statement_cuts_and_drops_whole(
    kept: Archive, frozen_clock: FrozenClock
) -> None:
    """S0.8, S4.16, I61, I63: and what is gone is in the journal."""
    kept.archived(30)
    for _ in kills(kept.rolling.roll, more_than=4):
        assert kept.count() == 30
        assert len(names(kept)) in (1, 4)
    frozen_clock.advance(days=460)
    for _ in kills(kept.rolling.roll, more_than=8):
        assert kept.count() in (0, 30)
        assert kept.count() or JournalEntry.objects.filter(event="purged").exists()
        # The lease of the one that died ends.
        frozen_clock.advance(minutes=11)
    assert kept.count() == 0


def test_moves_go_on_while_it_rolls(kept: Archive, racers: Any, frozen_clock: FrozenClock) -> None:
    """S0.8, S4.16, I1: mover, cutter, dropper and forgetting at once."""
    kept.rolling.roll()
    kept.archived(20)
    frozen_clock.advance(days=440)
    numbers = kept.ended(200)
    race = racers([kept.move, kept.roll, kept.move, kept.roll, kept.forget])
    assert race.errors == []
    assert all(len(kept.where(number)) == 1 for number in numbers)
    # What one mover skipped while the other had it locked, it looks at again.
    frozen_clock.advance(days=1)
    kept.move()
    assert all(kept.where(number) == ["archive"] for number in numbers)
    kept.audit()


def _ask_for_jobs() -> None:
    assert len(with_key("order-1", limit=10, model=ArchivedJob)) == 10


def _ask_for_dispatches() -> None:
    newest, alice = ArchivedDispatch.objects.order_by("-pk"), Executor.objects.get()
    for rows in (newest.filter(executor=alice), newest.filter(source="rotate", task=999)):
        assert len(rows[:10]) == 10


def test_lookups_read_an_index(kept: Archive) -> None:
    """S0.8, S4.16: by key, by executor and by task, in all partitions, and without a sort."""
    kept.rolling.roll()
    if kept is JOBS:
        job_type("sms")
        for name in ("mail", "sms"):
            kept.archived(300, type=name, key="order-1")
    else:
        kept.archived(300)
    # As the database does by itself when a tenth of the rows is new.
    analyze(kept.there)
    before = index_reads()
    _ask_for_jobs() if kept is JOBS else _ask_for_dispatches()
    # Two types or two questions; four partitions; and what the status itself reads.
    assert index_reads() - before < 300


def test_sweep_has_a_lease_and_a_period(kept: Archive) -> None:
    assert schedule()[kept.rolling.sweep]["task"] == kept.roll.name
    with sweep_lease(kept.rolling.sweep, at_most=timedelta(minutes=1)):
        assert kept.roll() == 0
    assert kept.roll() == 3
