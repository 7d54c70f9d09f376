"""The table of jobs filled with history, backlog and future, by statements that copy rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from apps.common import clock, ids
from apps.common.db import execute, fetch, table
from apps.common.rows import insert_rows
from apps.jobs.models import Job, JobType
from apps.jobs.rules.order import WEIGHT_MS, order_key
from apps.jobs.rules.outcome import Outcome
from apps.jobs.rules.transitions import READY, SCHEDULED
from apps.jobs.services.hold import HeldJob, Holder, hold
from apps.jobs.services.settle import settle

WORKER = Holder("benchmark:1", "benchmark")
BATCH = 100
SEED = 1000


def job_type(name: str, **settings: Any) -> None:
    """A type of the benchmark."""
    now = clock.now()
    settings = {"handler": "noop", **settings}
    JobType.objects.create(name=name, created_at=now, updated_at=now, **settings)


def ensure_types() -> None:
    """The types of the benchmark of jobs, but those that `migrate` or another part has made."""
    by_key = {"handler": "noop", "limit_by": "context.customer", "limit_running": 2}
    wanted: dict[str, dict[str, Any]] = {"noop": {}, "other": {}, "limited": by_key}
    wanted |= {name: {"handler": name} for name in ("stamp", "ten-lines", "leading")}
    there = set(JobType.objects.values_list("name", flat=True))
    for name, settings in wanted.items():
        if name not in there:
            job_type(name, batch_limit=1000, **settings)


def waiting(count: int, name: str, **columns: Any) -> list[int]:
    """Create due jobs; their ids, ascending."""
    now = clock.now()
    numbers = ids.next_ids(count)
    for start in range(0, count, SEED):
        insert_rows(Job, [_row(pk, name, now, **columns) for pk in numbers[start : start + SEED]])
    return numbers


def _row(pk: int, name: str, now: datetime, **columns: Any) -> dict[str, Any]:
    run_at: datetime = columns.pop("run_at", now)
    return {
        "id": pk,
        "type": name,
        "context": {"order": pk % 1000, "to": "somebody"},
        "status": SCHEDULED if run_at > now else READY,
        "run_at": run_at,
        "expected_at": run_at,
        "created_at": now,
        "max_attempts": 3,
        "order_key": order_key(run_at, priority=0, attempts=0, weight_ms=WEIGHT_MS),
        **columns,
    }


def fill(count: int, name: str, **columns: Any) -> None:
    """Create rows that differ only in ids and keys: a thousand are written, the rest are copied.

    Their ids lie below all that are made later.
    """
    highest = f"SELECT COALESCE(MAX(id), 0) FROM {table(Job)} WHERE id < 1000000000"
    first = 1 + int(fetch(highest)[0][0])
    made = min(count, SEED)
    now = clock.now()
    insert_rows(Job, [_row(first + n, name, now, **columns) for n in range(made)])
    names = [str(field.column) for field in Job._meta.concrete_fields if field.name != "id"]
    columns_sql = ", ".join(map(connection.ops.quote_name, names))
    while made < count:
        step = min(made, count - made, 100_000)
        execute(
            f"INSERT INTO {table(Job)} (id, {columns_sql}) SELECT id + %s, {columns_sql} "
            f"FROM {table(Job)} WHERE id >= %s AND id < %s",
            [made, first, first + step],
        )
        made += step
    fetch("ANALYZE TABLE jobs_job" if connection.vendor == "mysql" else "ANALYZE")


def cycle(types: Sequence[str], *, limit: int | None = None) -> int:
    """Hold and settle in batches of a hundred until nothing is left; the number of jobs."""
    done = 0
    while limit is None or done < limit:
        held = hold(holder=WORKER, types=types, limit=BATCH)
        if not held:
            break
        finish(held)
        done += len(held)
    return done


def hold_rate() -> float:
    """Jobs a second of a cycle over fresh ones of a type of its own."""
    waiting(20 * BATCH, "other")
    return 20 * BATCH / seconds_of(lambda: cycle(["other"]))


def finish(held: Sequence[HeldJob]) -> None:
    """Settle the jobs as succeeded."""
    settle(outcomes=[Outcome(id=job.id, token=job.token, end="succeeded") for job in held])


def later() -> datetime:
    """Far enough not to fall due while it is measured."""
    return clock.now() + timedelta(days=1)


def seconds_of(work: Callable[[], object]) -> float:
    """How long the work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
