"""The figures of bulk runs: how fast one is at the usual rate, and what workers notice of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import connection

from apps.bulk.models import BulkRow, BulkRun
from apps.bulk.rules.settings import RATE
from apps.bulk.services import runs
from apps.bulk.services.selection import stored
from apps.bulk.services.targets import target_of
from apps.common import clock
from apps.common.db import execute, table
from apps.jobs.models import Bounds, Job, Worker
from apps.jobs.services.hold import hold
from taskplatform.demo.terminal import percentile
from tests.benchmark import backlog
from tests.benchmark.backlog import WORKER
from tests.benchmark.figures import Figure, RunOptions, figure
from tests.benchmark.people import settle as let_settle
from tests.benchmark.processes import PLATFORM, START_SECONDS, await_true, prefork, worker

# Of types that no worker in-house serves: rows to change, and jobs that this process holds.
CHANGED, HELD = "changed", "held"
SWEEPS = ["--pool", "threads", "-c", "2", "--queues", "sweeps", "--beat"]
THREADS = ["--pool", "threads", "-c", "4", "--queues", "fast,slow"]
# Jobs of a hold, and the time between two.
SOME = 10
EVERY_SECONDS = 0.02
# 100,000 rows in ten minutes.
LEAST_RATE = 100_000 / 600


def beside_holds(run: RunOptions) -> Iterator[Figure]:
    """A run that cancels jobs at the usual rate, while jobs of another type are held and settled,
    beside the same holds without it."""
    count, alone_seconds = (4_000, 20) if run.quick else (100_000, 120)
    for name in (CHANGED, HELD):
        backlog.job_type(name, handler="", batch_limit=1000)
    backlog.fill(count, CHANGED)
    if connection.vendor == "mysql":
        let_settle()
    person, _made = User.objects.get_or_create(
        username="benchmark", is_staff=True, is_superuser=True
    )
    lanes = THREADS if connection.vendor == "sqlite" else prefork("fast", "slow")
    with worker(PLATFORM, run.folder, *SWEEPS), worker(PLATFORM, run.folder, *lanes):
        await_true(Worker.objects.filter(state="active").exists, START_SECONDS, "a worker")
        _holds(lambda seconds: seconds < 2)
        alone = _holds(lambda seconds: seconds < alone_seconds)
        started = _start(person)
        beside = _holds(partial(_is_under_way, started, 3 * count / RATE))
    started.refresh_from_db()
    if (started.state, started.done) != (BulkRun.State.DONE, count):
        raise CommandError(f"The bulk run is {started.state}: {started.done} of {count} rows done.")
    took = ((started.ended_at or clock.now()) - started.created_at).total_seconds()
    yield figure(f"bulk run of {count:,} at {RATE}/s", count / took, "rows/s", at_least=LEAST_RATE)
    yield figure(
        "hold p99 beside a bulk run",
        percentile(beside, 99) * 1000,
        "ms",
        baseline=percentile(alone, 99) * 1000,
        at_most=1.5,
    )
    for model in (BulkRow, BulkRun, Job):
        execute(f"DELETE FROM {table(model)}")


def _start(person: User) -> BulkRun:
    return runs.start(
        selection=stored(target_of("jobs"), {"type": CHANGED, "status": "ready"}),
        verb="cancel",
        params={},
        at_most=None,
        actor=f"admin:{person.username}",
        reason="benchmark",
        bounds=Bounds(),
    )


def _is_under_way(started: BulkRun, at_most: float, seconds: float) -> bool:
    if seconds > at_most:
        raise CommandError(f"The bulk run was not done after {at_most:.0f} s.")
    under_way = BulkRun.objects.filter(pk=started.pk, state__in=("collecting", "acting"))
    return under_way.exists()


def _holds(goes_on: Callable[[float], bool]) -> list[float]:
    """Hold and settle some jobs at a time; how long each hold took."""
    begun, took = time.perf_counter(), list[float]()
    while goes_on(time.perf_counter() - begun):
        backlog.waiting(SOME, HELD)
        before = time.perf_counter()
        held = hold(holder=WORKER, types=[HELD], limit=SOME)
        took.append(time.perf_counter() - before)
        backlog.finish(held)
        time.sleep(EVERY_SECONDS)
    return took
