"""The figures of schedules: many that are due in the same minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.core.management.base import CommandError

from apps.common import clock
from apps.common.db import execute, fetch, table
from apps.common.rows import insert_rows
from apps.jobs.models import Job
from apps.jobs.services.submit import Submission, submit_many
from apps.schedules.models import Schedule, ScheduleRun
from apps.schedules.services.make import BATCH, make_due
from tests.benchmark.backlog import seconds_of
from tests.benchmark.figures import Figure, RunOptions, figure

CONTEXT = {"to": "somebody@example.org", "order": 7}


def due_together(run: RunOptions) -> Iterator[Figure]:
    """Schedules that are due in one minute, by the sweep, beside their jobs alone."""
    count = 2_000 if run.quick else 10_000
    _plan(count)
    until = clock.now() + timedelta(minutes=10)
    seconds = seconds_of(lambda: make_due(until=until))
    found = fetch(f"SELECT COUNT(*), COUNT(DISTINCT job) FROM {table(ScheduleRun)}")
    if found != [(count, count)] or make_due(until=until):
        raise CommandError(f"{count} schedules made {found}")
    jobs = [Submission(type="noop", context=CONTEXT, key=f"k{n}") for n in range(BATCH)]
    bare = seconds_of(lambda: [submit_many(jobs) for _ in range(count // BATCH)])
    yield figure(f"jobs of {count:,} schedules due together", seconds, "s", at_most=60)
    yield figure(
        "schedules, by the sweep", count / seconds, "jobs/s", baseline=count / bare, at_least=0.15
    )
    for model in (ScheduleRun, Schedule, Job):
        execute(f"DELETE FROM {table(model)}")


def _plan(count: int) -> None:
    now = clock.now().replace(second=0, microsecond=0)
    row = {
        **{"title": "Every hour", "job_type": "noop", "context": CONTEXT},
        **{"rule": {"every_minutes": 60}, "time_zone": "UTC", "start_at": now},
        **{"next_at": now, "created_at": now, "updated_at": now},
    }
    for _ in range(count // BATCH):
        insert_rows(Schedule, [row] * BATCH)
