"""The figures of dispatch in this process: rebuilds, flatness, purges and pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection

from apps.common import clock
from apps.dispatch.models import Dispatch, Executor, OnceTask, Stock
from apps.dispatch.services import queue
from apps.dispatch.services.state import state_by_name
from taskplatform.demo.terminal import percentile
from tests.benchmark import at_work, people, purge
from tests.benchmark.dispatch_http import over_http
from tests.benchmark.figures import Figure, Part, figure, median
from tests.benchmark.people import User, settle
from tests.benchmark.processes import renew_cache
from tests.benchmark.statements import Copy, in_place


def rebuild() -> Figure:
    """The queue of an executor with 100 rotations and 1,000 once tasks, from the tables."""
    [user] = at_work.users(1, tasks_each=1000)
    people.rotations(at_work.number(), user.pk, 100)
    times = []
    for _ in range(30):
        Executor.objects.filter(pk=user.pk).raise_plan_version()
        state = state_by_name(user.name)
        begun = time.perf_counter()
        entry = queue.entry_of(state, now=clock.now())
        times.append((time.perf_counter() - begun) * 1000)
        if len(entry.queue) < 1000:
            raise CommandError(f"The queue has {len(entry.queue)} candidates, not 1,000.")
    return figure(
        "queue rebuild, 100 rotations + 1,000 once tasks", median(times), "ms", at_most=30
    )


def embedded_pairs(*, quick: bool) -> Figure:
    """Pull and callback in one process, one after the other."""
    each = 5 if quick else 20
    crew = at_work.users(20, tasks_each=each + 1)
    for user in crew:
        at_work.finish(user)
    begun = time.perf_counter()
    for _ in range(each):
        for user in crew:
            at_work.finish(user)
    rate = len(crew) * each / (time.perf_counter() - begun)
    return figure(f"pull + callback in process, {connection.vendor}", rate, "pairs/s", at_least=300)


def redis_away(*, quick: bool) -> Figure:
    """A pull with its callback while nothing listens where Redis was, against one with Redis."""
    # Until queues are saved, the cache is not asked at all.
    each = queue.SAVE_EVERY * (2 if quick else 4)
    crew = at_work.users(20, tasks_each=each * 2 + 4)
    place = settings.CACHES["default"]["LOCATION"]
    with_redis = _pairs(crew, each)
    settings.CACHES["default"]["LOCATION"] = "redis://127.0.0.1:1/0"
    renew_cache()
    try:
        without = _pairs(crew, each)
    finally:
        settings.CACHES["default"]["LOCATION"] = place
        renew_cache()
    return figure(
        "pull + callback without Redis",
        median(without) * 1000,
        "ms",
        baseline=median(with_redis) * 1000,
        at_most=2,
    )


def _pairs(crew: list[User], each: int) -> list[float]:
    for user in crew:
        at_work.finish(user)
    times = []
    for _ in range(each):
        for user in crew:
            begun = time.perf_counter()
            at_work.finish(user)
            times.append(time.perf_counter() - begun)
    return times


def flatness(*, quick: bool) -> Iterator[Figure]:
    """The slowest of a hundred pulls, beside more and more rows of others and of the past, and in
    turn with tables that have none of them."""
    rows, tasks = (100_000, 2_000) if quick else (2_000_000, 10_000)
    alone = at_work.users(50, tasks_each=200)
    crew = at_work.users(50, tasks_each=200)
    strangers = at_work.users(100, tasks_each=0)
    few = [Copy(model, "few") for model in (OnceTask, Dispatch, Stock)]
    number = at_work.number()
    now = clock.now()
    people.insert(
        OnceTask,
        (people.task(number + n, strangers[n % 100].pk, now) for n in range(tasks)),
    )
    settle()
    yield _p99_beside(f"pull p99 beside {tasks:,} tasks of others", crew, alone, few)
    people.history(crew, rows, task_pk=at_work.number())
    settle()
    yield _p99_beside(f"pull p99 after {rows:,} dispatches", crew, alone, few)


def beside_a_purge(*, quick: bool) -> Figure:
    """The slowest of a hundred pulls while old rows are removed, against those without."""
    rows = 50_000 if quick else 1_000_000
    told = purge.measure(rows=rows)
    if told.removed < rows:
        raise CommandError(f"Of {rows} old dispatches only {told.removed} were removed.")
    return figure(
        f"pull p99 during a purge of {rows:,} dispatches",
        percentile(told.during, 99),
        "ms",
        baseline=percentile(told.quiet, 99),
        at_most=3,
    )


def _p99_beside(name: str, crew: list[User], alone: list[User], few: Sequence[Copy]) -> Figure:
    """The pulls of the crew, and those of the others in the tables of few rows, in turn."""
    times, among_few = [], []
    for _ in range(15):
        times.append(_p99(crew))
        with in_place(*few):
            among_few.append(_p99(alone))
    ratio = median([many / few for many, few in zip(times, among_few, strict=True)])
    slowest = median(times)
    return figure(name, slowest, "ms", baseline=slowest / ratio, at_most=1.2)


def _p99(crew: list[User]) -> float:
    """In milliseconds, of 200 pulls."""
    # The first one opens the tables.
    at_work.finish(crew[0])
    times = []
    for _ in range(4):
        for user in crew:
            begun = time.perf_counter()
            taken = at_work.pull(user)
            times.append((time.perf_counter() - begun) * 1000)
            at_work.end(user, taken)
    return percentile(times, 99)


PARTS = [
    Part("rebuild", lambda run: iter([rebuild()])),
    Part("http", lambda run: over_http(run.folder, quick=run.quick)),
    Part("redis", lambda run: iter([redis_away(quick=run.quick)])),
    Part("flatness", lambda run: flatness(quick=run.quick)),
    Part("purge", lambda run: iter([beside_a_purge(quick=run.quick)])),
    Part("pairs", lambda run: iter([embedded_pairs(quick=run.quick)]), on="sqlite"),
]
