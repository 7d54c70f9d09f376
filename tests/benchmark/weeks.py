"""A platform that has been at work for thirteen weeks, with a million jobs still to do.

The newest week is made row by row, with its jobs and dispatches. The weeks before
are copies of it by `INSERT … SELECT`, with workers and once tasks of their own.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.db import connection

from apps.common import clock, ids
from apps.common.db import execute, fetch, table, written
from apps.common.rows import insert_rows, insert_values
from apps.dispatch.models import Dispatch, Executor, Membership, OnceTask, RotateTask, Stock
from apps.jobs.models import Job, JobType, Worker
from apps.journal.models import JournalEntry
from tests.benchmark import backlog, past, people
from tests.benchmark.past import (
    FIRST_ONCE,
    HOSTS,
    KINDS,
    MINUTE,
    WORKERS_PER_HOST,
    Crowd,
    Past,
)

WEEKS = 13
WEEK = timedelta(days=7)
FIRST_USER = 1000
BLOCK = 2000
COPIED_AT_ONCE = timedelta(hours=12)
# Live jobs are copied from this number of rows.
SEED = 20_000
GROUPS = 20
STOPPED = "score"
_CITIES = ("北京", "上海", "广州", "Guilin")


class Size(NamedTuple):
    """How many entries the journal has, and how many jobs are still to be done."""

    entries: int
    live: int
    users: int
    rotations: int
    once_a_week: int


FULL = Size(10_000_000, 1_000_000, 300, 200, 1_000)
QUICK = Size(26_000, 5_000, 20, 10, 20)


def make(size: Size, say: Callable[[str], None]) -> None:
    """Fill the empty tables; the journal ends in the present minute."""
    until = clock.now().replace(second=0, microsecond=0)
    crowd = _crowd(size)
    say("people, plans and types")
    _people(crowd)
    _plans(crowd)
    _types()
    _workers()
    say("the newest week")
    _newest_week(size, crowd, until)
    for week in range(1, WEEKS):
        say(f"week {week + 1} of {WEEKS}")
        _copy_week(week, until)
    say(f"{size.live:,} live jobs")
    _live(size.live, until)
    _analyze()


def load(size: Size, start: datetime, minutes: int, a_second: int) -> int:
    """Write `a_second` entries for each second of the minutes from `start`; returns the number."""
    made = Past(_crowd(size), until=start + WEEK, seed=2)
    entries = made.minute(start, a_second * 60)
    _insert(JournalEntry, past.ENTRY_COLUMNS, entries)
    for minute in range(1, minutes):
        _copy(minute * MINUTE, start, start + MINUTE)
    return len(entries) * minutes


def _crowd(size: Size) -> Crowd:
    return Crowd(size.users, size.rotations, size.once_a_week, FIRST_USER, 1)


def beat_hearts() -> None:
    """Make all workers alive now."""
    Worker.objects.filter(state=Worker.State.ACTIVE).update(last_heartbeat_at=clock.now())


# --- who and what ---------------------------------------------------------------------------------
def _people(crowd: Crowd) -> None:
    now = clock.now()
    numbers = range(crowd.first_user, crowd.first_user + crowd.users)
    people.insert(Executor, (people.executor(n, f"uid_{n}") for n in numbers))
    people.insert(Executor, (people.executor(n, f"gid_team_{n}") for n in range(1, GROUPS + 1)))
    people.insert(
        Membership,
        ({"user_id": n, "group_id": 1 + n % GROUPS, "created_at": now} for n in numbers),
    )


def _plans(crowd: Crowd) -> None:
    now = clock.now()
    begun = now - WEEKS * WEEK
    rule = {"rule": {"every_minutes": 60}, "time_zone": "UTC", "effective_from": begun}
    shared = {"mode": "multi", "dispatch_times": 50}
    people.insert(
        RotateTask,
        (
            people.task(crowd.first_rotation + n, 1 + n % GROUPS, begun, **rule, **shared)
            for n in range(crowd.rotations)
        ),
    )
    people.insert(
        OnceTask,
        (
            people.task(
                once_number(FIRST_ONCE + n, week),
                1 + n % GROUPS,
                now - week * WEEK - WEEK * (crowd.once - n) / crowd.once,
                **shared,
                end_at=now + WEEK,
            )
            for week in range(WEEKS)
            for n in range(crowd.once)
        ),
    )


def once_number(number: int, week: int) -> int:
    """The once task that stands for one of the newest week (0), this number of weeks before."""
    return int(f"{week}{number}") if week else number


def _types() -> None:
    for kind in KINDS:
        lane = "slow" if kind.run_ms > 5000 else "fast"
        backlog.job_type(kind.name, lane=lane, breaker_enabled=kind.name == "webhook")
    JobType.objects.filter(name=STOPPED).update(paused=True, pause_reason="The model is rebuilt")


def _workers() -> None:
    now = clock.now()
    insert_rows(
        Worker,
        [
            {
                **{"name": past.worker_of(n), "host": past.host_of(n), "pid": 4000 + n},
                **{"lanes": ["fast"], "types": [kind.name for kind in KINDS], "capacity": 8},
                **{"drains": {"fast": n % 8}, "running": n % 8},
                **{"started_at": now - WEEK, "last_heartbeat_at": now},
            }
            for n in range(HOSTS * WORKERS_PER_HOST)
        ],
    )


# --- the past -------------------------------------------------------------------------------------
def _newest_week(size: Size, crowd: Crowd, until: datetime) -> None:
    made = Past(crowd, until=until)
    waiting: list[tuple[Any, ...]] = []
    for entries in made.week(until - WEEK, size.entries // WEEKS):
        waiting += entries
        if len(waiting) >= BLOCK:
            _store(made, waiting)
    _store(made, waiting)
    stocks = ((*identity, count) for identity, count in sorted(made.stocks.items()))
    _insert(Stock, past.STOCK_COLUMNS, stocks)


def _store(made: Past, entries: list[tuple[Any, ...]]) -> None:
    _insert(JournalEntry, past.ENTRY_COLUMNS, entries)
    _insert(Job, past.JOB_COLUMNS, made.jobs)
    _insert(Dispatch, past.DISPATCH_COLUMNS, made.dispatches)
    for rows in (entries, made.jobs, made.dispatches):
        rows.clear()


def _insert(model: Any, names: tuple[str, ...], rows: Iterable[Sequence[Any]]) -> None:
    waiting = iter(rows)
    while block := list(islice(waiting, BLOCK if connection.vendor == "mysql" else 500)):
        insert_values(model, names, block)


def _copy_week(week: int, until: datetime) -> None:
    at = until - WEEK
    while at < until:
        _copy(-week * WEEK, at, at + COPIED_AT_ONCE, week)
        at += COPIED_AT_ONCE


def _copy(shift: timedelta, start: datetime, end: datetime, week: int = 0) -> None:
    """The entries of [start, end) again, as much later as `shift`."""
    by = (shift // timedelta(milliseconds=1)) << (ids.NODE_BITS + ids.SEQUENCE_BITS)
    seconds = int(shift.total_seconds())
    moved: dict[str, tuple[str, list[Any]]] = {
        "id": ("id + %s", [by]),
        "subject_id": ("subject_id + %s", [by]),
        "at": ("at + INTERVAL %s SECOND", [seconds]),
    }
    if connection.vendor != "mysql":
        moved["at"] = ("strftime('%%Y-%%m-%%d %%H:%%M:%%f', at, %s)", [f"{seconds} seconds"])
    if week:
        moved["type_or_task"] = ("REPLACE(type_or_task, 'once:', %s)", [f"once:{week}"])
        moved["worker"] = ("REPLACE(worker, ':4', %s)", [f":{week}"])
    names = [str(field.column) for field in JournalEntry._meta.concrete_fields]
    columns = ", ".join(connection.ops.quote_name(name) for name in names)
    made = [moved.get(name, (connection.ops.quote_name(name), [])) for name in names]
    entries = table(JournalEntry)
    execute(
        f"INSERT INTO {entries} ({columns}) SELECT {', '.join(sql for sql, _ in made)} "
        f"FROM {entries} WHERE id >= %s AND id < %s ORDER BY id",
        [
            *(value for _, values in made for value in values),
            *(ids.lowest_id_at(start), ids.lowest_id_at(end)),
        ],
    )


# --- the present ----------------------------------------------------------------------------------
def _context(number: int) -> str:
    """About 1 KB of JSON, as Python writes it."""
    order = {"number": number, "city": _CITIES[number % len(_CITIES)], "note": "Ring twice. " * 18}
    items = [
        {
            "sku": f"S{number * 5 + line}",
            "count": line,
            "title": "Shelf board, oak, 80 by 30 cm. " * 3,
        }
        for line in range(5)
    ]
    return json.dumps({"order": order, "items": items})


def _live(count: int, until: datetime) -> None:
    """Jobs that wait, are planned or run, of the last hours and all types."""
    draw = random.Random(3)
    shares = [kind.share for kind in KINDS]
    names = [kind.name for kind in KINDS]
    seed = min(count // 5, SEED)
    step = timedelta(hours=6) / seed
    rows = []
    for n in range(seed):
        made = until - timedelta(hours=6) + n * step
        status = "running" if n % 1000 == 0 else "scheduled" if n % 5 < 2 else "ready"
        run_at = made
        if status == "scheduled":
            run_at = until + timedelta(minutes=20 + draw.randrange(10_000))
        held = status == "running"
        where = draw.randrange(HOSTS * WORKERS_PER_HOST)
        worker = (past.worker_of(where), past.host_of(where)) if held else ("", "")
        since = written(made)
        rows.append(
            (
                *(ids.lowest_id_at(made), draw.choices(names, shares)[0], f"order-{n}"),
                *(f"uid_{n % 4000}", _context(n), status),
                *(int(run_at.timestamp() * 1000), written(run_at), since),
                *(
                    int(held),
                    past.MAX_ATTEMPTS,
                    int(held),
                    "",
                    since if held else None,
                    *worker,
                ),
                *("", "", since, since if held else None, None, n % 1024),
            )
        )
    _insert(Job, past.JOB_COLUMNS, rows)
    names = [str(field.column) for field in Job._meta.concrete_fields if field.name != "id"]
    columns = ", ".join(map(connection.ops.quote_name, names))
    jobs = table(Job)
    first = ids.lowest_id_at(until - timedelta(hours=6))
    for copy in range(1, -(-count // seed)):
        # Numbers of the same millisecond, from another process.
        execute(
            f"INSERT INTO {jobs} (id, {columns}) SELECT id + %s, {columns} FROM {jobs} "
            f"WHERE id >= %s AND id %% {1 << ids.NODE_BITS + ids.SEQUENCE_BITS} = 0",
            [(copy + 1) << ids.SEQUENCE_BITS, first],
        )
    soon = clock.now() + timedelta(hours=1)
    Job.objects.filter(status=Job.Status.RUNNING).update(lease_until=soon, hard_end_at=soon)


def _analyze() -> None:
    models = (JournalEntry, Job, Dispatch, Stock, OnceTask, RotateTask, Executor, Membership)
    if connection.vendor == "mysql":
        fetch(f"ANALYZE TABLE {', '.join(map(table, models))}")
    else:
        fetch("ANALYZE")
