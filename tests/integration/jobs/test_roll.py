"""The archive rolls on MariaDB: cut ahead, dropped when over, and nothing lost by either."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction

from apps.common import clock, partitions
from apps.common.leases import load_position, sweep_lease
from apps.jobs import sweeps
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.services import archive
from apps.jobs.services.find import with_key
from apps.jobs.services.roll import ROLLING
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.history import archived, ended, forget, move, unite_archive, where
from tests.jobs import job_type
from tests.kills import killed_at

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock) -> Iterator[FrozenClock]:
    """The archive has one partition before and after each test, as `migrate` leaves it."""
    unite_archive()
    job_type("mail")
    yield frozen_clock
    unite_archive()


def names() -> list[str]:
    return [each.name for each in partitions.partitions_of(ArchivedJob)]


def ends() -> list[datetime]:
    found = partitions.partitions_of(ArchivedJob)
    return [each.end for each in found if each.end is not None]


def rows_of(name: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM jobs_archived PARTITION ({name})")
        return int(cursor.fetchone()[0])


def test_three_are_cut_ahead_and_more_as_time_goes_on(mail: FrozenClock) -> None:
    """S2.8: by months at first, as nothing is known of how many jobs come."""
    assert ROLLING.roll() == (3, 0)
    found = ends()
    assert found[0] == datetime(2026, 4, 2, tzinfo=UTC)
    assert ROLLING.roll() == (0, 0)
    mail.advance(days=31)
    assert ROLLING.roll() == (1, 0)
    assert ends() == [*found, found[-1] + 31 * DAY]


def test_what_came_before_the_first_cut_is_kept() -> None:
    """S2.8: a late sweep loses nothing."""
    numbers = archived(20, ago=50 * DAY)
    assert rows_of("pmax") == 20
    assert ROLLING.roll().cut > 0
    assert rows_of("pmax") == 0
    assert [where(number) for number in numbers] == [["jobs_archived"]] * 20


def test_dropped_when_all_its_jobs_are_over(mail: FrozenClock) -> None:
    """S1.19, S4.16: at once, with one entry; what is younger stays."""
    ROLLING.roll()
    old = archived(30)
    mail.advance(days=60)
    young = archived(5)
    # The last day of the month of the old ones is 2026-04-02.
    mail.advance(days=370)
    assert ROLLING.roll().dropped == 0
    mail.advance(days=1)
    assert ROLLING.roll().dropped == 1
    assert not any(where(number) for number in old)
    assert all(where(number) == ["jobs_archived"] for number in young)
    entries = [e.data for e in JournalEntry.objects.filter(event="purged")]
    assert entries == [{"archived_jobs": 30, "partition": "p2026040200"}]


def test_job_that_ended_late_keeps_its_partition(mail: FrozenClock) -> None:
    """I61: the end counts, not the making."""
    ROLLING.roll()
    mail.advance(days=100)
    [late] = ended(ago=90 * DAY, finished_at=clock.now() - 8 * DAY)
    archived(3, ago=90 * DAY)
    mail.advance(days=391)
    # Only the empty one of the month after it.
    assert ROLLING.roll().dropped == 1
    assert where(late) == ["jobs_archived"]
    assert len(load_position(ROLLING.sweep)) == 1
    mail.advance(days=1)
    assert ROLLING.roll().dropped == 0
    mail.advance(minutes=1)
    assert ROLLING.roll().dropped == 1
    assert where(late) == []
    assert load_position(ROLLING.sweep) == {}


def test_jobs_that_no_partition_took_go_one_by_one(mail: FrozenClock) -> None:
    """S1.19: a month later at most; those of a type with a shorter time are not late."""
    job_type("short", retention_days=30)
    ROLLING.roll()
    [own] = archived(type="short", ago=31 * DAY)
    [usual] = archived(ago=401 * DAY)
    assert ROLLING.lag() == 32 * DAY
    assert sweeps.forget() == 1
    assert (where(own), where(usual)) == ([], ["jobs_archived"])
    mail.advance(days=32)
    assert sweeps.forget() == 1
    assert where(usual) == []


def test_nothing_is_dropped_while_the_mover_works(mail: FrozenClock) -> None:
    """I61: it may bring a job that was made early and ended late."""
    archived(3)
    ROLLING.roll()
    mail.advance(days=500)
    with sweep_lease(archive.SWEEP, at_most=timedelta(minutes=1)):
        assert ROLLING.roll().dropped == 0
    assert ArchivedJob.objects.count() == 3
    assert ROLLING.roll().dropped > 0
    assert ArchivedJob.objects.count() == 0


def test_long_transaction_delays_it_and_is_not_disturbed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would wait behind a statement that waits."""
    monkeypatch.setattr(partitions, "_LOCK_SECONDS", 1)
    archived(1)
    made: list[int] = []

    def elsewhere() -> None:
        made.append(sweeps.roll())
        connections.close_all()

    with transaction.atomic():
        assert ArchivedJob.objects.count() == 1
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join(60)
    assert made == [0]
    assert "A long transaction uses the table" in caplog.text
    assert names() == ["pmax"]
    assert sweeps.roll() > 0


def test_killed_at_any_statement_cuts_and_drops_whole(mail: FrozenClock) -> None:
    """S4.16, I61: and what is gone is told."""
    archived(30)
    statement = 1
    while killed_at(statement, ROLLING.roll):
        assert ArchivedJob.objects.count() == 30
        assert len(names()) in (1, 4)
        statement += 1
    assert statement > 4
    mail.advance(days=460)
    statement = 1
    while killed_at(statement, ROLLING.roll):
        left = ArchivedJob.objects.count()
        assert left in (0, 30)
        assert left or JournalEntry.objects.filter(event="purged").exists()
        # The lease of the one that died ends.
        mail.advance(minutes=11)
        statement += 1
    assert statement > 8
    assert ArchivedJob.objects.count() == 0


def test_moves_go_on_while_it_rolls(racers: Any, mail: FrozenClock) -> None:
    """S4.16: mover, cutter, dropper and forgetting at once."""
    ROLLING.roll()
    archived(20)
    mail.advance(days=440)
    numbers = ended(200)
    race = racers([move, sweeps.roll, move, sweeps.roll, forget])
    assert race.errors == []
    assert all(len(where(number)) == 1 for number in numbers)
    # What one mover skipped while the other had it locked, it looks at again.
    mail.advance(seconds=archive.AGAIN_AFTER.total_seconds())
    move()
    sweeps.roll()
    assert not Job.objects.exists()
    assert ArchivedJob.objects.count() == 200


def test_keys_and_types_are_read_from_the_index() -> None:
    """S4.16: as many entries as there are, in all partitions, and no sort."""
    ROLLING.roll()
    job_type("sms")
    archived(300, key="order-1")
    archived(300, type="sms", key="order-1")
    with connection.cursor() as cursor:
        # As the database does by itself when a tenth of the rows is new.
        cursor.execute("ANALYZE TABLE jobs_archived")
        cursor.fetchall()

        def entries_read() -> int:
            cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
            return sum(int(count) for _name, count in cursor.fetchall())

        before = entries_read()
        assert len(with_key("order-1", limit=10, model=ArchivedJob)) == 10
        # Two types; four partitions; and what the status itself reads.
        assert entries_read() - before < 200
