"""Ended jobs go to the archive, are found there, and come back when somebody retries them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import Conflict
from apps.common.models import SweepLease
from apps.jobs.errors import Archived
from apps.jobs.models import ArchivedJob, Job, JobType
from apps.jobs.rules.order import order_key
from apps.jobs.services import archive, control, find, types
from apps.jobs.services.settle import settle
from apps.jobs.services.submit import submit
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.history import archived, ended, move, where
from tests.integration.jobs.acted_on import WHO, archived_row, columns_of
from tests.jobs import answer_of, events_of, job_type, jobs, row, take
from tests.kills import killed_at
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail"), pytest.mark.both]

LIVE, ARCHIVE = ["jobs_job"], ["jobs_archived"]


class TestMove:
    def test_ended_job_goes_after_the_grace_and_not_before(self, mail: FrozenClock) -> None:
        """S4.16: people look a job up right after its end."""
        [number] = ended(ago=timedelta(days=7))
        assert move() == 0
        assert where(number) == LIVE
        mail.advance(seconds=1)
        assert move() == 1
        assert where(number) == ARCHIVE

    def test_open_job_never_goes(self) -> None:
        """I61: however old it is."""
        old = {"finished_at": None, "ago": timedelta(days=900)}
        numbers = [ended(status=each, **old)[0] for each in ("scheduled", "ready", "running")]
        assert move() == 0
        assert [where(number) for number in numbers] == [LIVE] * 3

    def test_jobs_planned_for_next_year_hold_up_nobody(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S2.8: neither the move of younger ones, though there are more of them than one read
        takes, nor holds."""
        monkeypatch.setattr(archive, "CHUNK", 2)
        far = clock.now() + timedelta(days=365)
        planned = ended(5, ago=timedelta(days=30), status="scheduled", run_at=far, finished_at=None)
        [old] = ended(ago=timedelta(days=20))
        due = jobs(1)

        assert move() == 1
        assert where(old) == ARCHIVE
        assert [where(number) for number in planned] == [LIVE] * 5
        assert [job.id for job in take(limit=10)] == due

    def test_what_waited_at_its_turn_goes_within_the_hour_after_its_time(
        self, mail: FrozenClock
    ) -> None:
        """S4.16: a row that the walk has passed is looked at again."""
        [late] = ended(ago=timedelta(days=30), status="ready", finished_at=None)
        [old] = ended(ago=timedelta(days=20))
        assert move() == 1
        Job.objects.filter(pk=late).update(
            status="failed", finished_at=clock.now() - timedelta(days=7, seconds=1)
        )
        assert move() == 0
        mail.advance(hours=1)
        assert move() == 1
        assert (where(late), where(old)) == (ARCHIVE, ARCHIVE)

    def test_stops_at_its_time_and_goes_on_there(
        self, mail: FrozenClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archive, "CHUNK", 2)
        numbers = ended(5)
        until = clock.now() + timedelta(seconds=1)
        carry = archive.carry

        def slow(*arguments: Any) -> None:
            mail.advance(seconds=1)
            carry(*arguments)

        monkeypatch.setattr(archive, "carry", slow)
        assert archive.archive_ended(until=until) == 2
        assert SweepLease.objects.get().position["after"] == numbers[1]
        assert archive.archive_ended(until=until) == 0
        assert archive.archive_ended(until=clock.now() + timedelta(minutes=1)) == 3


class TestFind:
    def test_one_that_comes_back_between_two_looks_is_found(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S4.16: the live table is asked again."""
        [number] = archived()
        there = ArchivedJob.objects.filter

        def back(*conditions: Any, **named: Any) -> Any:
            monkeypatch.undo()
            control.retry(job=archived_row(number), **WHO)
            return there(*conditions, **named)

        monkeypatch.setattr(ArchivedJob._default_manager, "filter", back)
        found = find.find(number)
        assert isinstance(found, Job)

    def test_one_that_is_moved_between_two_looks_is_found(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S4.16: for old jobs the archive is asked first, and again."""
        [number] = ended()
        there = Job.objects.filter

        def gone(*conditions: Any, **named: Any) -> Any:
            monkeypatch.undo()
            assert move() == 1
            return there(*conditions, **named)

        monkeypatch.setattr(Job._default_manager, "filter", gone)
        assert isinstance(find.find(number), ArchivedJob)

    def test_old_one_takes_one_look(self, mail: FrozenClock) -> None:
        """S4.16: where nearly all jobs of its age are."""
        [old] = archived()
        [new] = ended(ago=timedelta(days=1))
        for number in (old, new):
            found: list[Any] = []
            looks = sent_by(lambda n=number, found=found: found.append(find.find(n)))  # type: ignore[misc]
            assert (len(looks), found != [None]) == (1, True)


def test_report_repeated_after_archiving_is_lease_lost(mail: FrozenClock) -> None:
    """S4.16: until then it gets its first answer."""
    jobs(1)
    [held] = take()
    report = held.ended("succeeded")
    assert settle(outcomes=[report]) == ["succeeded"]
    mail.advance(days=7)
    assert settle(outcomes=[report]) == ["succeeded"]
    mail.advance(seconds=1)
    move()
    entries = JournalEntry.objects.count()
    assert [answer_of(each) for each in settle(outcomes=[report])] == ["lease_lost"]
    assert JournalEntry.objects.count() == entries


def test_type_with_archived_jobs_only_can_be_deleted() -> None:
    job_type("old")
    [number] = ended(type="old")
    old = JobType.objects.get(name="old")
    with pytest.raises(Conflict):
        types.delete_type(job_type=old, actor="admin:olga")
    move()
    types.delete_type(job_type=old, actor="admin:olga")
    assert where(number) == ARCHIVE


class TestRetry:
    def test_brings_it_back_ready_to_run(self) -> None:
        """S4.16: with all attempts, from its checkpoint, in a new place of the order."""
        [number] = archived(
            status="failed", attempts=3, holds=5, checkpoint={"second": 4}, sequence=2, priority=7
        )
        before = columns_of(archived_row(number))
        job = control.retry(job=archived_row(number), **WHO)
        assert where(number) == LIVE
        after = row(number)
        changed = ("status", "attempts", "run_at", "expected_at", "finished_at", "version")
        assert columns_of(after, *changed) == {
            name: value for name, value in before.items() if name not in changed
        }
        assert (after.status, after.attempts, after.finished_at) == ("ready", 0, None)
        # It came back, and took an arrow.
        assert after.version == before["version"] + 2 == job.version
        assert after.order_key == order_key(clock.now(), priority=7, attempts=0, weight_ms=60_000)
        assert (after.lease_token, after.lease_until, after.cancel_requested) == ("", None, False)
        [held] = take(types=("mail",))
        assert (held.id, held.attempt) == (number, 1)

    def test_open_twin_keeps_it_in_the_archive(self) -> None:
        """I35: a refused retry leaves no trace."""
        [number] = archived(key="order-1", is_unique=True)
        twin = submit("mail", key="order-1", unique=True)
        moved = JournalEntry.objects.count()
        with pytest.raises(Conflict, match=str(twin.id)):
            control.retry(job=archived_row(number), **WHO)
        assert where(number) == ARCHIVE
        assert JournalEntry.objects.count() == moved

    def test_needs_a_type(self) -> None:
        job_type("gone")
        [number] = archived(type="gone")
        types.delete_type(job_type=JobType.objects.get(name="gone"), actor="admin:olga")
        with pytest.raises(Conflict, match="there is no job type gone"):
            control.retry(job=archived_row(number), **WHO)
        assert where(number) == ARCHIVE

    def test_every_other_verb_is_refused_and_says_why(self) -> None:
        """S4.16: 409 `archived`."""
        [number] = archived(status="failed")
        job = archived_row(number)
        edit: Callable[..., Any] = lambda **who: control.edit(  # noqa: E731
            version=job.version, changes={"priority": 5}, **who
        )
        for act in (control.cancel, control.run_now, control.mark_done, edit):
            with pytest.raises(Archived, match="among the older ones") as refused:
                act(job=job, **WHO)
            assert (refused.value.status, refused.value.code) == (409, "archived")
        assert where(number) == ARCHIVE
        assert events_of(number) == []


@pytest.mark.django_db(transaction=True)
class TestKilled:
    def test_retry_leaves_it_here_or_there(self) -> None:
        """S4.16, I61."""
        [number] = archived(status="failed", key="order-1", is_unique=True)

        def work() -> None:
            control.retry(job=archived_row(number), **WHO)

        statement = 1
        while killed_at(statement, work):
            if where(number) == LIVE:
                # The commit was the last statement; what comes after it is only the wake-up.
                break
            assert where(number) == ARCHIVE
            assert events_of(number) == []
            statement += 1
        assert statement > 8
        assert where(number) == LIVE
        assert (row(number).status, events_of(number)) == ("ready", ["restored", "retried"])


def test_retries_and_the_mover_at_once(racers: Any) -> None:
    """S4.16, I61, I56: each job is retried once, wherever it was, and no look misses it."""
    everything = [*archived(12, status="failed"), *ended(12, status="failed")]

    def retry(number: int) -> str:
        job = find.find(number)
        assert job is not None
        try:
            return control.retry(job=job, **WHO).status
        except Conflict as refused:
            return refused.code

    def look() -> int:
        return sum(find.find(number) is not None for number in everything * 5)

    calls = [lambda number=number: retry(number) for number in everything for _ in (1, 2)]
    race = racers([move, move, look, look, *calls])
    moved, again, seen, seen_too, *answers = race.results
    assert seen == seen_too == 5 * len(everything)
    assert sorted(answers) == ["conflict"] * 24 + ["ready"] * 24
    assert moved + again <= 12
    for number in everything:
        assert where(number) == LIVE
        assert row(number).status == "ready"
