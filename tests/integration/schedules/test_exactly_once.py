"""Each occurrence has one job, whatever dies and however many sweeps run at once."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.common import clock
from apps.jobs.models import Job
from apps.schedules.models import Schedule, ScheduleRun
from apps.schedules.services import make, schedules
from apps.schedules.services.invariants import CHECKS
from tests import factories
from tests.integration.schedules.conftest import sweep
from tests.kills import kills

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def overdue(**fields: Any) -> Schedule:
    """A schedule with an occurrence a minute ago, and none for long after it."""
    start = clock.now() - timedelta(minutes=1)
    return factories.schedule(rule={"every_minutes": 500_000}, start_at=start, **fields)


def require_one_job_each(count: int) -> None:
    """I64."""
    jobs = Counter(Job.objects.values_list("key", flat=True))
    runs = [str(run) for run in ScheduleRun.objects.all()]
    assert jobs == dict.fromkeys(runs, 1)
    assert len(runs) == count
    assert [breach for check in CHECKS for breach in check.run(10_000).breaches] == []


def test_sweep_killed_at_any_statement() -> None:
    for _ in range(3):
        overdue()
    for _ in kills(sweep, more_than=6):
        assert (Job.objects.count(), ScheduleRun.objects.count()) == (0, 0)
    require_one_job_each(3)
    assert sweep() == 0


@pytest.mark.mariadb
def test_racing_sweeps_make_each_job_once(racers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lease of the sweep, as after a worker that lost it without noticing."""
    monkeypatch.setattr(make, "BATCH", 7)
    for _ in range(60):
        overdue(misfire="all")
    race = racers([sweep] * 8)
    assert sum(race.results) == 60
    require_one_job_each(60)


@pytest.mark.mariadb
def test_edits_and_runs_by_hand_race_the_sweep(racers: Any) -> None:
    made = [overdue() for _ in range(20)]
    calls = [sweep, sweep]
    for each in made[:10]:
        calls.append(lambda each=each: schedules.pause(schedule=each, actor="admin:olga"))  # type: ignore[misc]
    for each in made[10:]:
        calls.append(lambda each=each: schedules.run_now(schedule=each, actor="admin:olga"))  # type: ignore[misc]
    race = racers(calls)
    assert race.errors == []
    by_hand = ScheduleRun.objects.filter(occurrence__lt=0)
    assert by_hand.count() == 10
    by_rule = ScheduleRun.objects.filter(occurrence__gt=0)
    assert by_rule.filter(schedule__in=made[10:]).count() == 10
    # A paused one was made before the pause, or not at all.
    assert by_rule.count() + by_hand.count() == Job.objects.count()
    assert [breach for check in CHECKS for breach in check.run(1000).breaches] == []
    assert sweep() == 0


def test_sweep_finds_what_is_due_by_index() -> None:
    overdue()
    due = Schedule.objects.filter(status="active", next_at__lte=clock.now())
    plan = due.order_by("next_at", "pk").values_list("pk", flat=True)[:10].explain()
    assert "schedule_due" in plan
    assert "TEMP B-TREE" not in plan and "filesort" not in plan
    assert connection.vendor in ("sqlite", "mysql")
