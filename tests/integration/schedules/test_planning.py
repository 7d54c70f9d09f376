"""What operators do with schedules, and what the journal says of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import Conflict, NotFound, PlatformError
from apps.jobs.models import Bounds, Job
from apps.journal.models import JournalEntry
from apps.schedules.models import Schedule, ScheduleRun
from apps.schedules.services import retention, schedules
from apps.schedules.services.ends import note_ends
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.schedules.conftest import sweep

pytestmark = pytest.mark.django_db
OLGA = factories.OPERATOR
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def events(schedule: Schedule) -> list[str]:
    return [entry.event for entry in JournalEntry.objects.timeline("schedule", schedule.pk)]


def refused(**fields: Any) -> dict[str, str]:
    """The errors of a schedule that cannot be made, by field."""
    with pytest.raises(PlatformError) as caught:
        factories.schedule(**fields)
    return {error.field: error.message for error in caught.value.errors}


def test_all_mistakes_are_told_at_once(nine: FrozenClock) -> None:
    factories.job_type("mail", params_schema={"type": "object", "required": ["to"]})
    errors = refused(
        title=" ",
        priority=200,
        max_attempts=0,
        rule={"every_minutes": 0},
        time_zone="Berlin",
        end_at=NINE,
        misfire_limit=0,
        overlap="maybe",
    )
    assert errors.keys() == {
        *("title", "priority", "max_attempts", "rule.every_minutes", "time_zone", "end_at"),
        *("misfire_limit", "overlap", "context.to"),
    }


def test_unknown_type_and_type_out_of_bounds_are_the_same(nine: FrozenClock) -> None:
    factories.job_type("mail")
    with pytest.raises(PlatformError) as caught:
        schedules.create_schedule(actor=OLGA, title="x", job_type="mial", rule=None)
    assert "did you mean mail?" in caught.value.errors[0].message
    with pytest.raises(PlatformError) as caught:
        schedules.create_schedule(
            actor=OLGA, title="x", job_type="mail", rule=None, bounds=Bounds(types={"other"})
        )
    [error] = caught.value.errors
    assert error.field == "job_type"
    assert not Schedule.objects.exists()


def test_empty_start_is_a_whole_second(nine: FrozenClock) -> None:
    """So the form of what is saved has the same next runs."""
    nine.move_to(NINE + timedelta(microseconds=700_000))
    made = factories.schedule(rule={"every_minutes": 1})
    assert (made.start_at, made.next_at) == (NINE, NINE)
    fields = {"rule": made.rule, "start_at": made.start_at}
    assert schedules.next_runs(fields, 5, is_new=False) == made.next_due(5)


def test_next_runs_of_a_new_schedule_begin_with_what_it_makes_at_once(nine: FrozenClock) -> None:
    """As a rotation that is created with a past start: the current occurrence is due."""
    nine.move_to(NINE + 3.5 * MINUTE)
    fields = {"rule": {"every_minutes": 1}, "start_at": NINE}
    expected = [NINE + k * MINUTE for k in (3, 4, 5)]
    assert schedules.next_runs(fields, 3, is_new=True) == expected
    made = factories.schedule(**fields)
    assert made.next_at == expected[0]
    assert sweep() == 1
    # An occurrence of the future is not there before its time.
    later = {**fields, "start_at": NINE + 9 * MINUTE}
    assert schedules.next_runs(later, 1, is_new=True) == [NINE + 9 * MINUTE]


def test_edit_of_the_rule_makes_no_new_past(nine: FrozenClock) -> None:
    made = factories.schedule(rule={"every_days": 1, "at": "23:00"}, time_zone="UTC", misfire="all")
    nine.move_to(NINE + 10.5 * MINUTE)
    changed = schedules.update_schedule(
        schedule=made, changes={"rule": {"every_minutes": 1}}, actor=OLGA
    )
    assert changed.next_at == NINE + 11 * MINUTE
    assert sweep() == 0
    assert events(made) == ["schedule_created", "schedule_changed"]


def test_other_edits_keep_what_is_next(nine: FrozenClock) -> None:
    made = factories.schedule(misfire="all")
    nine.move_to(NINE + 2 * MINUTE)
    changed = schedules.update_schedule(
        schedule=made, changes={"title": "Another"}, actor=OLGA, version=1
    )
    assert (changed.title, changed.next_at, changed.version) == ("Another", NINE, 2)
    assert sweep() == 3
    same = schedules.update_schedule(schedule=made, changes={"title": "Another"}, actor=OLGA)
    assert same.version == 2


def test_end_ends_it_and_a_later_end_goes_on_without_a_past(nine: FrozenClock) -> None:
    made = factories.schedule(end_at=NINE + 1.5 * MINUTE, misfire="all")
    nine.move_to(NINE + 1 * MINUTE)
    assert sweep() == 2
    made.refresh_from_db()
    assert made.next_at is None
    nine.move_to(NINE + 5.5 * MINUTE)
    longer = schedules.update_schedule(
        schedule=made, changes={"end_at": NINE + 60 * MINUTE}, actor=OLGA
    )
    assert longer.next_at == NINE + 6 * MINUTE
    shorter = schedules.update_schedule(
        schedule=made, changes={"end_at": NINE + 5.8 * MINUTE}, actor=OLGA
    )
    assert shorter.next_at is None


def test_what_has_run_once_does_not_run_again(nine: FrozenClock) -> None:
    made = factories.schedule(rule=None)
    assert sweep() == 1
    with pytest.raises(PlatformError, match="copy it"):
        schedules.update_schedule(schedule=made, changes={"start_at": NINE + MINUTE}, actor=OLGA)


def test_run_now_is_a_job_of_its_own_each_time(nine: FrozenClock) -> None:
    made = factories.schedule(start_at=NINE + 9 * MINUTE, context={"to": "all"})
    schedules.pause(schedule=made, actor=OLGA)
    runs = [schedules.run_now(schedule=made, actor=OLGA, reason="asked for") for _ in range(2)]
    jobs = Job.objects.order_by("pk")
    assert [run.job for run in runs] == [job.pk for job in jobs]
    assert [run.occurrence for run in runs] == [-job.pk for job in jobs]
    assert {(job.status, job.submitted_by) for job in jobs} == {("ready", OLGA)}
    assert [job.context for job in jobs] == [{"to": "all"}] * 2
    assert ScheduleRun.objects.count() == 2
    made.refresh_from_db()
    assert made.last_job == jobs[1].pk
    assert events(made)[-2:] == ["schedule_run", "schedule_run"]


@pytest.mark.both
def test_copy_is_paused_and_has_no_runs(nine: FrozenClock) -> None:
    made = factories.schedule(title="x" * 200, context={"to": "all"}, overlap="skip")
    sweep()
    twin = schedules.copy(schedule=made, actor=OLGA)
    assert (twin.status, twin.next_at, twin.last_job) == ("paused", None, None)
    assert (twin.context, twin.rule, twin.overlap) == (made.context, made.rule, made.overlap)
    assert len(twin.title) == 200
    assert not twin.runs.exists()


def test_deleted_schedule_is_kept_and_does_nothing(nine: FrozenClock) -> None:
    made = factories.schedule()
    assert schedules.delete_schedule(schedule=made, actor=OLGA)
    assert not schedules.delete_schedule(schedule=made, actor=OLGA)
    assert sweep() == 0
    with pytest.raises(NotFound):
        schedules.find_schedule(made.pk)
    for act in (schedules.run_now, schedules.pause, schedules.resume):
        with pytest.raises(Conflict, match="deleted"):
            act(schedule=made, actor=OLGA)
    assert events(made) == ["schedule_created", "schedule_deleted"]


@pytest.mark.both
def test_old_runs_go_and_then_what_has_ended(
    nine: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    ended = factories.schedule(end_at=NINE + 3 * MINUTE, misfire="all")
    gone, paused = factories.schedule(), factories.schedule()
    nine.move_to(NINE + 4 * MINUTE)
    schedules.delete_schedule(schedule=gone, actor=OLGA)
    schedules.pause(schedule=paused, actor=OLGA)
    assert sweep() == 3
    Job.objects.update(status="succeeded", finished_at=nine.instant)
    note_ends()
    nine.advance(days=89)
    alive = factories.schedule()
    sweep()
    until = timedelta(minutes=1)
    # The one that is deleted has no run.
    assert retention.purge(until=clock.now() + until) == 0
    nine.advance(days=1, minutes=1)
    assert retention.purge(until=clock.now() + until) == 3 + 2
    assert set(Schedule.objects.all()) == {alive, paused}
    assert set(ScheduleRun.objects.values_list("schedule", flat=True)) == {alive.pk}
    purged = JournalEntry.objects.filter(event="purged", source="schedule").order_by("id")
    assert [entry.data for entry in purged] == [{"runs": 2}, {"runs": 1}, {"schedules": 2}]
    assert ended not in Schedule.objects.all()
