"""How long a pull takes while a million old dispatches are removed beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db import connections

from apps.common import clock, ids
from apps.common.rows import insert_rows
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask, Stock
from apps.dispatch.services import executors, retention, tasks
from apps.dispatch.services.pull import Nothing
from tests import callback
from tests.callback import take_next

ACTOR = "benchmark"
ROWS_PER_INSERT = 1000
# Once tasks that are gone, and a rotation that stands; each row an occurrence of its own.
TASKS_FROM = 1 << 40


@dataclass(frozen=True)
class Latencies:
    """Pulls in milliseconds, in the order of their making, and what the purge removed meanwhile."""

    quiet: list[float]
    during: list[float]
    removed: int
    purge_seconds: float


def measure(*, rows: int = 1_000_000, quiet_seconds: float = 20.0) -> Latencies:
    """Fill in `rows` old dispatches and their stocks, then pull without and beside their purge.

    The purge runs in a process of its own, as in production, until all of them are gone.
    """
    puller = _plan()
    fill(rows)
    _pulls(puller, lambda elapsed: elapsed < 2)
    quiet = _pulls(puller, lambda elapsed: elapsed < quiet_seconds)
    begun, child = time.monotonic(), _purge_beside()
    during = _pulls(puller, lambda elapsed: os.waitpid(child, os.WNOHANG) == (0, 0))
    return Latencies(quiet, during, rows - _left(rows), time.monotonic() - begun)


def _plan() -> Executor:
    """A user who always has something to pull, and 99 others."""
    group = _executor("gid_purge")
    names = [f"uid_purge_{number:02}" for number in range(100)]
    executors.change_members(group=group, add=names, actor=ACTOR)
    tasks.create_task(
        OnceTask,
        actor=ACTOR,
        title="Always there",
        executor=group,
        mode="blocking",
        dispatch_times=2_000_000_000,
    )
    return Executor.objects.get(name=names[0])


def _executor(name: str) -> Executor:
    found = Executor.objects.filter(name=name).first()
    return found or executors.create_executor(name=name, actor=ACTOR)


def fill(rows: int) -> None:
    """Insert old ended dispatches of 100 users: half of once tasks, half of one rotation."""
    people = list(
        Executor.objects.filter(name__startswith="uid_purge_").values_list("pk", flat=True)
    )
    rotation = tasks.create_task(
        RotateTask,
        actor=ACTOR,
        title="Every minute",
        executor=_executor("gid_purge"),
        rule={"every_minutes": 1},
        status="paused",
    )
    oldest = clock.now() - conf.DISPATCH_RETENTION - timedelta(minutes=rows + 1)
    # The number of what happened at the epoch itself would be 0, which is none.
    first = ids.EPOCH + timedelta(milliseconds=1)
    made = _rows(rows, people, rotation.pk, max(oldest, first))
    while block := list(islice(made, ROWS_PER_INSERT)):
        insert_rows(Dispatch, block)
        stocks = [
            {"source": row["source"], "task": row["task"], "occurrence": row["occurrence"]}
            for row in block
        ]
        insert_rows(Stock, [{**stock, "handed": 1} for stock in stocks])


def _rows(
    count: int, people: list[int], rotation: int, oldest: datetime
) -> Iterator[dict[str, Any]]:
    params = {"shop": "S-1042", "photos": 3, "note": "Check the shelf and the till. " * 5}
    for number in range(count):
        at = oldest + timedelta(milliseconds=number)
        once = number % 2 == 0
        yield {
            "id": ids.lowest_id_at(at),
            "executor_id": people[number % len(people)],
            "source": "once" if once else "rotate",
            "task": TASKS_FROM + number if once else rotation,
            "occurrence": 0 if once else number,
            "occurrence_at": at,
            "title": "Check the shelf",
            "params": params,
            "state": Dispatch.State.SUCCEEDED,
            "holds_stock": True,
            "dispatched_at": at,
            "deadline_at": at + timedelta(hours=1),
            "finished_at": at + timedelta(seconds=1),
            "result": {"photos": 3},
        }


def _pulls(puller: Executor, goes_on: Callable[[float], bool]) -> list[float]:
    """Pull and call back as long as it goes on; how long each pull took, in milliseconds."""
    took = []
    begun = time.monotonic()
    while goes_on(time.monotonic() - begun):
        at = time.perf_counter()
        dispatch = take_next(puller)
        took.append((time.perf_counter() - at) * 1000)
        if isinstance(dispatch, Nothing):
            raise RuntimeError("there was nothing to pull, so nothing was measured")
        callback.call_back(executor=puller, number=dispatch.pk, outcome="succeeded")
    return took


def _purge_beside() -> int:
    """A process that purges until nothing is left; its id."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            while retention.purge(until=clock.now() + timedelta(seconds=30)):
                pass
            status = 0
        finally:
            os._exit(status)
    return child


def _left(most: int) -> int:
    """How many of the old dispatches are still there, at most so many."""
    old = Dispatch.objects.filter(
        pk__lt=ids.lowest_id_at(clock.now() - conf.DISPATCH_RETENTION)
    ).values_list("pk", flat=True)
    return len(old[:most])
