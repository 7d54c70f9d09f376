"""How the jobs of runs ended, and which schedules are in trouble by that."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.bulk.services.targets import TARGETS
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.rules import transitions as t
from apps.jobs.services import archive, control
from apps.schedules.models import Schedule, ScheduleRun
from apps.schedules.services import ends, schedules
from apps.schedules.services.ends import in_trouble, note_ends
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.schedules.conftest import sweep
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]
OLGA = factories.OPERATOR


def run(clock: FrozenClock, status: str = t.FAILED, minutes: int = 1) -> Job:
    """The next run of the schedule of every minute, and its job in that state."""
    clock.advance(minutes=minutes)
    assert sweep() == 1
    newest = Job.objects.latest("pk")
    Job.objects.filter(pk=newest.pk).update(status=status, finished_at=clock.instant)
    note_ends()
    return newest


def trouble() -> list[str]:
    return [each.trouble for each in in_trouble(10)]


def retried_in_bulk(job: Job, _clock: FrozenClock) -> None:
    target = TARGETS["jobs"]
    row = Job.objects.get(pk=job.pk)
    assert not target.act_on([row], "retry", {}, actor=OLGA, reason="fixed")


def retried_from_the_archive(job: Job, clock: FrozenClock) -> None:
    before = clock.instant
    clock.advance(days=8)
    archive.archive_ended(until=clock.instant + timedelta(minutes=1))
    control.retry(job=ArchivedJob.objects.get(pk=job.pk), actor=OLGA)
    clock.move_to(before)


# How a job goes on that had ended.
WAYS_ON: dict[str, Callable[[Job, FrozenClock], Any]] = {
    "retried": lambda job, _: control.retry(job=job, actor=OLGA),
    "retried in bulk": retried_in_bulk,
    "retried from the archive": retried_from_the_archive,
    "marked as done": lambda job, _: control.mark_done(job=job, actor=OLGA, reason="by hand"),
}


def outcomes() -> list[str]:
    return list(ScheduleRun.objects.order_by("pk").values_list("outcome", flat=True))


@pytest.fixture(autouse=True)
def minutely(nine: FrozenClock) -> Schedule:
    made = factories.schedule(start_at=nine.instant)
    nine.advance(seconds=-30)
    return made


def test_third_failure_in_a_row_is_trouble_and_a_success_ends_it(
    nine: FrozenClock, minutely: Schedule
) -> None:
    run(nine, t.SUCCEEDED)
    for expected in ([], [], ["failing"], ["failing"]):
        run(nine)
        assert trouble() == expected
    assert in_trouble(10) == [(minutely.pk, "mail", "failing")]

    run(nine, t.SUCCEEDED)

    assert trouble() == []
    assert outcomes() == ["succeeded", *["failed"] * 4, "succeeded"]


def test_jobs_that_are_open_for_long_do_not_hide_failures(nine: FrozenClock) -> None:
    """Each is retried for minutes, so the newest ones are always open."""
    made = [run(nine, t.RUNNING) for _ in range(6)]
    for job in made[:3]:
        Job.objects.filter(pk=job.pk).update(status=t.FAILED)

    note_ends()

    assert trouble() == ["failing"]


def test_job_that_goes_on_after_its_end_takes_the_trouble_away(
    nine: FrozenClock, subtests: pytest.Subtests
) -> None:
    for way, goes_on in WAYS_ON.items():
        with subtests.test(way=way):
            last = [run(nine) for _ in range(3)][-1]
            assert trouble() == ["failing"]

            goes_on(last, nine)

            assert (trouble(), outcomes()[-3:]) == ([], ["failed", "failed", ""])
            note_ends()
            assert outcomes()[-1] == ("succeeded" if way == "marked as done" else "")
            run(nine, t.SUCCEEDED)


def test_retry_between_two_looks_is_no_failure(
    nine: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nine.advance(minutes=1)
    sweep()
    Job.objects.update(status=t.FAILED, finished_at=nine.instant)
    look = ends._ends

    def looked(jobs: Any) -> dict[int, str]:
        found = look(jobs)
        monkeypatch.setattr(ends, "_ends", look)
        control.retry(job=Job.objects.get(), actor=OLGA)
        return found

    monkeypatch.setattr(ends, "_ends", looked)
    assert (note_ends(), outcomes()) == (0, [""])


def test_ends_of_many_schedules_take_as_many_statements_as_of_one(nine: FrozenClock) -> None:
    counts = []
    for number in (1, 30):
        for _ in range(number):
            factories.schedule(start_at=nine.instant)
        for _ in range(3):
            sweep()
            Job.objects.update(status=t.FAILED, finished_at=nine.instant)
            statements = len(sent_by(note_ends))
            nine.advance(minutes=1)
        counts.append(statements)
    assert len(trouble()) == 10
    assert counts[0] == counts[1]


@pytest.mark.parametrize("by_hand", [True, False])
def test_refused_run_is_trouble_until_a_run_makes_a_job(
    nine: FrozenClock, minutely: Schedule, by_hand: bool
) -> None:
    Schedule.objects.update(job_type="gone")
    nine.advance(minutes=1)
    assert sweep() == 0
    assert (trouble(), outcomes()) == (["unmade"], ["refused"])
    note_ends()
    assert trouble() == ["unmade"]

    Schedule.objects.update(job_type="mail")
    minutely.refresh_from_db()
    if by_hand:
        schedules.run_now(schedule=minutely, actor=OLGA)
    else:
        run(nine, t.RUNNING)

    assert trouble() == []


def test_pass_goes_round_over_runs_that_stay_open(
    nine: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [run(nine, t.RUNNING) for _ in range(5)]
    Job.objects.filter(pk=made[-1].pk).update(status=t.SUCCEEDED)
    monkeypatch.setattr(ends, "LOOKED", 2)

    assert [note_ends() for _ in range(3)] == [0, 0, 1]

    Job.objects.filter(pk=made[0].pk).update(status=t.CANCELLED)
    assert note_ends() == 1
    assert outcomes() == ["cancelled", "", "", "", "succeeded"]


@pytest.mark.parametrize("is_archived", [True, False])
def test_job_that_left_the_table_is_noted(nine: FrozenClock, is_archived: bool) -> None:
    nine.advance(minutes=1)
    sweep()
    Job.objects.update(status=t.FAILED, finished_at=nine.instant)
    if is_archived:
        nine.advance(days=8)
        assert archive.archive_ended(until=nine.instant + timedelta(minutes=1)) == 1
    Job.objects.all().delete()

    note_ends()

    assert outcomes() == ["failed" if is_archived else "gone"]
