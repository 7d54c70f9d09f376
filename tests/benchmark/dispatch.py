"""The figures of dispatch in this process: rebuilds, flatness, purges and pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta

from django.core.management.base import CommandError
from django.db import connection

from apps.common import clock, ids
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, Executor, OnceTask, Stock
from apps.dispatch.services import queue, retention
from apps.dispatch.services.executor_state import state_by_name
from taskplatform.demo.terminal import percentile
from tests.benchmark import people
from tests.benchmark.dispatch_http import over_http, scenarios
from tests.benchmark.figures import Figure, Part, RunOptions, figure, median
from tests.benchmark.people import User
from tests.benchmark.processes import while_it_works
from tests.benchmark.statements import Copy, in_place


def rebuild(run: RunOptions) -> Iterator[Figure]:
    """The queue of an executor with 100 rotations and 1,000 once tasks, from the tables."""
    [user] = people.users(1, tasks_each=1000, group=people.group())
    people.rotations(user.pk, 100)
    times = []
    for _ in range(30):
        Executor.objects.filter(pk=user.pk).raise_plan_version()
        state = state_by_name(user.name)
        begun = time.perf_counter()
        entry = queue.entry_of(state, now=clock.now())
        times.append((time.perf_counter() - begun) * 1000)
        if len(entry.queue) < 1000:
            raise CommandError(f"The queue has {len(entry.queue)} candidates, not 1,000.")
    name = "queue rebuild, 100 rotations + 1,000 once tasks"
    yield figure(name, median(times), "ms", at_most=40)


def embedded_pairs(run: RunOptions) -> Iterator[Figure]:
    """Pull and callback in one process, one after the other."""
    each = 5 if run.quick else 20
    users = people.users(20, tasks_each=each + 1, group=people.group())
    name = f"pull + callback in process, {connection.vendor}"
    yield figure(name, 1 / median(_pairs(users, each)), "pairs/s", at_least=300)


def _pairs(users: list[User], each: int) -> list[float]:
    """Seconds of each pair, after one of each user."""
    times = []
    for turn in range(each + 1):
        for user in users:
            begun = time.perf_counter()
            people.finish(user)
            if turn:
                times.append(time.perf_counter() - begun)
    return times


def flatness(run: RunOptions) -> Iterator[Figure]:
    """The slowest of a hundred pulls, beside rows of others and of the past, and without them."""
    rows, tasks = (100_000, 2_000) if run.quick else (2_000_000, 10_000)
    alone = people.users(50, tasks_each=200, group=people.group())
    users = people.users(50, tasks_each=200, group=people.group())
    strangers = people.users(100, tasks_each=0, group=people.group())
    few = [Copy(model, "few") for model in (OnceTask, Dispatch, Stock)]
    number = people.number()
    now = clock.now()
    people.insert(
        OnceTask,
        (people.task(number + n, strangers[n % 100].pk, now) for n in range(tasks)),
    )
    people.settle()
    yield _p99_beside(f"pull p99 beside {tasks:,} tasks of others", 1.3, users, alone, few)
    people.history(users, rows, task_pk=people.number())
    people.settle()
    yield _p99_beside(f"pull p99 after {rows:,} dispatches", 1.2, users, alone, few)


def _p99_beside(
    name: str, most: float, users: list[User], alone: list[User], few: Sequence[Copy]
) -> Figure:
    """The pulls of the users, and in turn those of others in the tables of few rows."""
    times, among_few = [], []
    for _ in range(15):
        times.append(_p99(users))
        with in_place(*few):
            among_few.append(_p99(alone))
    ratio = median([many / few for many, few in zip(times, among_few, strict=True)])
    slowest = median(times)
    return figure(name, slowest, "ms", baseline=slowest / ratio, at_most=most)


def _p99(users: list[User]) -> float:
    """In milliseconds, of 200 pulls."""
    # The first one opens the tables.
    people.finish(users[0])
    return percentile([_pull_ms(user) for _ in range(4) for user in users], 99)


def _pull_ms(user: User) -> float:
    begun = time.perf_counter()
    taken = people.pull(user)
    took = (time.perf_counter() - begun) * 1000
    people.end(user, taken)
    return took


def beside_a_purge(run: RunOptions) -> Iterator[Figure]:
    """The slowest of a hundred pulls while old rows are removed, against those before.

    The purge runs in a process of its own, as in production, until all of them are gone.
    """
    rows, seconds = (50_000, 5) if run.quick else (1_000_000, 20)
    group = people.group()
    users = people.users(100, tasks_each=0, group=group)
    shared = {"mode": "blocking", "dispatch_times": 2_000_000_000}
    people.insert(OnceTask, [people.task(people.number(), group, clock.now(), **shared)])
    keep = conf.DISPATCH_RETENTION
    people.history(users, rows, task_pk=people.number(), days_ago=keep.days + 81)
    people.settle()
    until = time.monotonic() + seconds
    before = []
    while time.monotonic() < until:
        before.append(_pull_ms(users[0]))
    during = []
    for _still_purging in while_it_works(_purge):
        during.append(_pull_ms(users[0]))
    oldest_kept = ids.lowest_id_at(clock.now() - keep - timedelta(minutes=1))
    if left := Dispatch.objects.filter(pk__lt=oldest_kept).count():
        raise CommandError(f"Of {rows} old dispatches {left} are left.")
    yield figure(
        f"pull p99 during a purge of {rows:,} dispatches",
        percentile(during, 99),
        "ms",
        baseline=percentile(before, 99),
        at_most=3,
    )


def _purge() -> None:
    while retention.purge(until=clock.now() + timedelta(seconds=30)):
        pass


PARTS = [
    Part("rebuild", rebuild),
    Part("http", over_http),
    Part("scenarios", scenarios),
    Part("flatness", flatness),
    Part("purge", beside_a_purge),
    Part("pairs", embedded_pairs, on="sqlite"),
]
