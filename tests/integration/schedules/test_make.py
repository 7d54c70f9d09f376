"""One job for each occurrence: on time, after a pause of the sweep, and when it is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import translation

from apps.jobs.models import Job, JobType
from apps.jobs.services import control, submit_rows
from apps.jobs.services.type_snapshots import forget_type_snapshots
from apps.journal.admin.words import reason_of
from apps.journal.models import JournalEntry
from apps.schedules.models import Schedule, ScheduleRun
from apps.schedules.services import ends, make, schedules
from apps.schedules.services.invariants import CHECKS
from apps.schedules.services.retention import purge
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.schedules.conftest import sweep

pytestmark = [pytest.mark.django_db, pytest.mark.both]
OLGA = factories.OPERATOR


def at(minute: int, second: int = 0) -> datetime:
    return datetime(2026, 3, 2, 9, minute, second, tzinfo=UTC)


def runs_of(schedule: Schedule) -> list[tuple[datetime, bool]]:
    """When each run was planned for, and whether it has a job."""
    found = ScheduleRun.objects.filter(schedule=schedule).order_by("pk")
    return [(run.at, run.job is not None) for run in found]


def breaches() -> list[str]:
    return [str(breach) for check in CHECKS for breach in check.run(1000).breaches]


def test_job_is_made_ahead_for_the_second_of_its_occurrence(nine: FrozenClock) -> None:
    made = factories.schedule(
        context={"to": "all"}, priority=7, max_attempts=2, start_at=at(1), title="Every minute"
    )
    nine.move_to(at(0, 54))
    assert sweep() == 0
    nine.move_to(at(0, 56))
    assert sweep() == 1
    job = Job.objects.get()
    assert (job.type, job.context, job.priority, job.max_attempts) == ("mail", {"to": "all"}, 7, 2)
    assert (job.key, job.run_at, job.status) == (
        f"schedule:{made.pk}@{int(at(1).timestamp())}",
        at(1),
        "scheduled",
    )
    made.refresh_from_db()
    assert (made.next_at, made.last_job) == (at(2), job.pk)
    run = ScheduleRun.objects.get()
    assert (run.occurrence, run.at, run.job, run.why) == (int(at(1).timestamp()), at(1), job.pk, "")
    assert sweep() == 0
    assert breaches() == []


@pytest.mark.parametrize(("misfire", "count"), [("skip", 1), ("once", 2), ("all", 3)])
def test_after_three_minutes_without_a_sweep(nine: FrozenClock, misfire: str, count: int) -> None:
    made = factories.schedule(start_at=at(1), misfire=misfire, misfire_limit=2)
    nine.move_to(at(4, 20))
    assert sweep() == count
    assert [minute for minute, _job in runs_of(made)] == [at(5 - count + k) for k in range(count)]
    assert {job.status for job in Job.objects.all()} == {"ready"}
    nine.move_to(at(4, 56))
    assert sweep() == 1


def test_without_a_rule_there_is_one_job(nine: FrozenClock) -> None:
    made = factories.schedule(rule=None, start_at=at(1))
    nine.move_to(at(3))
    assert (sweep(), sweep()) == (1, 0)
    made.refresh_from_db()
    assert made.next_at is None
    assert ScheduleRun.objects.get().occurrence == 0
    assert breaches() == []


def test_paused_makes_none_and_resumed_none_of_the_past(nine: FrozenClock) -> None:
    made = factories.schedule(start_at=at(1), misfire="all")
    assert schedules.pause(schedule=made, actor=OLGA)
    assert not schedules.pause(schedule=made, actor=OLGA)
    nine.move_to(at(10, 30))
    assert sweep() == 0
    assert schedules.resume(schedule=made, actor=OLGA)
    assert sweep() == 0
    nine.move_to(at(11))
    assert sweep() == 1
    assert runs_of(made) == [(at(11), True)]


def test_refused_job_stops_no_other_and_not_the_series(nine: FrozenClock) -> None:
    gone = factories.schedule("gone", start_at=at(1))
    strict = factories.schedule("strict", start_at=at(1))
    good = [factories.schedule(start_at=at(1)) for _ in range(5)]
    JobType.objects.filter(name="gone").delete()
    schema = {"type": "object", "required": ["to"]}
    JobType.objects.filter(name="strict").update(params_schema=schema, version=2)
    forget_type_snapshots()
    nine.move_to(at(1))
    assert sweep() == 5
    assert all(runs_of(each) == [(at(1), True)] for each in good)
    assert ScheduleRun.objects.get(schedule=gone).why.startswith("There is no job type 'gone'")
    assert "to" in ScheduleRun.objects.get(schedule=strict).why
    [entry] = JournalEntry.objects.timeline("schedule", gone.pk).filter(event="run_refused")
    assert (entry.type_or_task, entry.error) == (
        f"schedule:{gone.pk}",
        ScheduleRun.objects.get(schedule=gone).why,
    )
    gone.refresh_from_db()
    assert gone.next_at == at(2)
    factories.job_type("gone")
    nine.move_to(at(2))
    assert sweep() == 6
    assert runs_of(gone) == [(at(1), False), (at(2), True)]
    assert breaches() == []


def test_unreadable_rule_stops_no_other(nine: FrozenClock) -> None:
    bad, good = factories.schedule(start_at=at(1)), factories.schedule(start_at=at(1))
    Schedule.objects.filter(pk=bad.pk).update(time_zone="Gone/City")
    nine.move_to(at(1))
    assert sweep() == 1
    assert runs_of(good) == [(at(1), True)]
    [entry] = JournalEntry.objects.timeline("schedule", bad.pk).filter(event="run_refused")
    assert "Gone/City" in entry.error
    assert [each.schedule for each in ends.in_trouble(10)] == [bad.pk]
    assert sweep() == 0


@pytest.mark.parametrize("where", ["due", "submission"])
def test_one_that_breaks_stops_no_other_and_is_in_trouble(
    nine: FrozenClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    bad, good = factories.schedule(start_at=at(1)), factories.schedule(start_at=at(1))
    real_due, real_rows = Schedule.due, submit_rows._rows

    def due(self: Schedule, *args: Any) -> Any:
        if self.pk == bad.pk:
            raise OverflowError("date value out of range")
        return real_due(self, *args)

    def rows(jobs: Any, *args: Any) -> Any:
        made = real_rows(jobs, *args)
        if any(job.key.startswith(f"{bad.subject}@") for job in jobs):
            # What the database itself refuses must not spoil the transaction.
            Job.objects.create(pk=None)
        return made

    nine.move_to(at(1))
    with monkeypatch.context() as broken:
        if where == "due":
            broken.setattr(Schedule, "due", due)
        else:
            broken.setattr(submit_rows, "_rows", rows)

        assert (sweep(), sweep()) == (1, 0)

    assert runs_of(good) == [(at(1), True)]
    [entry] = JournalEntry.objects.timeline("schedule", bad.pk).filter(event="run_refused")
    with translation.override("zh-hans"):
        assert reason_of(entry.error) == "创建作业时发生意外错误；原因见日志"
    assert bad.subject in caplog.text
    assert [each.schedule for each in ends.in_trouble(10)] == [bad.pk]
    nine.move_to(at(2))
    assert sweep() == 2
    assert ends.in_trouble(10) == []
    assert breaches() == []


def test_overlap_skips_while_the_last_job_is_open(nine: FrozenClock) -> None:
    made = factories.schedule(start_at=at(1), overlap="skip")
    nine.move_to(at(1))
    assert sweep() == 1
    # Ahead it waits, because the last job may end before the second.
    nine.move_to(at(1, 57))
    assert sweep() == 0
    assert runs_of(made) == [(at(1), True)]
    nine.move_to(at(2))
    assert sweep() == 0
    assert runs_of(made) == [(at(1), True), (at(2), False)]
    assert ScheduleRun.objects.latest("pk").why == make.LAST_IS_OPEN
    nine.move_to(at(2, 57))
    assert sweep() == 0
    control.cancel(job=Job.objects.get(), actor=OLGA, reason="over")
    nine.move_to(at(2, 59))
    assert sweep() == 1
    assert runs_of(made)[-1] == (at(3), True)
    assert breaches() == []


def test_overlap_skip_catches_up_one_run_only(nine: FrozenClock) -> None:
    made = factories.schedule(start_at=at(1), overlap="skip", misfire="all", misfire_limit=5)
    nine.move_to(at(4, 10))
    assert sweep() == 1
    assert runs_of(made) == [(at(1), True), (at(2), False), (at(3), False), (at(4), False)]


def test_overlap_skips_while_any_job_of_the_schedule_is_open(nine: FrozenClock) -> None:
    made = factories.schedule(start_at=at(1), overlap="skip")
    nine.move_to(at(1))
    assert sweep() == 1
    by_rule = Job.objects.get()
    by_hand = Job.objects.get(pk=schedules.run_now(schedule=made, actor=OLGA).job)
    control.cancel(job=by_hand, actor=OLGA, reason="over")
    nine.move_to(at(2))
    assert sweep() == 0

    control.cancel(job=by_rule, actor=OLGA, reason="over")
    ends.note_ends()
    nine.move_to(at(3))
    assert sweep() == 1
    control.cancel(job=Job.objects.latest("pk"), actor=OLGA, reason="over")
    ends.note_ends()
    control.retry(job=by_rule, actor=OLGA)
    ends.note_ends()
    nine.move_to(at(4))
    assert sweep() == 0

    nine.advance(days=91)
    purge(until=nine.instant + timedelta(minutes=1))
    assert sweep() == 0
    control.cancel(job=by_rule, actor=OLGA, reason="over")
    nine.advance(minutes=1)
    assert sweep() == 1


def test_occurrence_that_an_edit_brings_back_is_not_made_again(nine: FrozenClock) -> None:
    made = factories.schedule(start_at=at(1))
    nine.move_to(at(0, 57))
    assert sweep() == 1
    changed = schedules.update_schedule(
        schedule=made, changes={"rule": {"cron": "* * * * *"}}, actor=OLGA
    )
    assert changed.next_at == at(1)
    assert sweep() == 0
    nine.move_to(at(1, 57))
    assert sweep() == 1
    assert runs_of(made) == [(at(1), True), (at(2), True)]


def test_one_transaction_makes_so_many_jobs(
    nine: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are left as they were, and found again."""
    monkeypatch.setattr(make, "MAX_JOBS", 2)
    for _ in range(5):
        factories.schedule(start_at=at(1))
    nine.move_to(at(1))
    assert [sweep(), sweep(), sweep(), sweep()] == [2, 2, 1, 0]


def test_sweep_that_has_no_time_left_stops(nine: FrozenClock) -> None:
    factories.schedule(start_at=at(1))
    nine.move_to(at(1))
    assert make.make_due(until=at(1)) == 0
    assert sweep() == 1


def test_audit_finds_what_is_wrong_with_runs(nine: FrozenClock) -> None:
    """I64."""
    made = factories.schedule(start_at=at(1))
    nine.move_to(at(1))
    sweep()
    run = ScheduleRun.objects.get()
    twin = factories.job(key=made.key_of(run.occurrence))
    assert breaches() == [
        f"I64 {made.subject}@{run.occurrence}: job {twin.pk} is not that of the run"
    ]
    twin.delete()
    ScheduleRun.objects.create(schedule=made, occurrence=1, at=at(1), job=run.job)
    ScheduleRun.objects.create(schedule=made, occurrence=2, at=at(1))
    found = breaches()
    assert len(found) == 2
    assert found[0].endswith("needs either a job or a reason why there is none")
    assert found[1].endswith(f"2 runs have its job {run.job}")


def test_times_of_the_sweep_are_in_the_zone_of_the_schedule(nine: FrozenClock) -> None:
    made = factories.schedule(rule={"every_days": 1, "at": "02:30"}, time_zone="Europe/Berlin")
    # The clocks go from 02:00 to 03:00 on 2026-03-29.
    nine.move_to(datetime(2026, 3, 29, 0, 59, 58, tzinfo=UTC))
    Schedule.objects.filter(pk=made.pk).update(next_at=nine.instant - timedelta(minutes=1))
    sweep()
    assert runs_of(made)[-1][0] == datetime(2026, 3, 29, 1, tzinfo=UTC)
