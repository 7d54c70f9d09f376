"""Jobs that have ended and entries of the journal, of many days, by statements that copy rows.

Ids hold the time of their making, so each copy lies later than the rows before it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from apps.common import ids, partitions
from apps.common.db import execute, table
from apps.common.rows import insert_rows
from apps.jobs.models import ArchivedJob, Job
from apps.journal.models import JournalEntry, Source
from tests.benchmark.backlog import SEED

COPIED_AT_ONCE = 100_000
DAY = timedelta(days=1)
RUN = timedelta(seconds=2)
_MS = timedelta(milliseconds=1)
_TIMES = {
    Job: ("run_at", "expected_at", "held_at", "created_at", "started_at", "finished_at"),
    JournalEntry: ("at",),
}
_TIMES[ArchivedJob] = (*_TIMES[Job], "archived_at")


def jobs(count: int, *, start: datetime, end: datetime) -> None:
    """Jobs of the live table that were made and ended within this time."""
    _fill(Job, count, start, end, {"order_key": 0})


def archived(count: int, *, start: datetime, end: datetime) -> None:
    """The same in the archive."""
    _fill(ArchivedJob, count, start, end, {"archived_at": end + 8 * DAY})


def entries(count: int, *, start: datetime, end: datetime) -> None:
    """Entries of the journal."""
    step = _step(count, start, end)
    numbers = _numbers(start, step)
    insert_rows(
        JournalEntry,
        [
            {
                **{"id": number, "at": ids.made_at(number), "source": Source.JOB.value},
                **{"subject_id": number - 1, "event": "succeeded", "from_state": "running"},
                **{"to_state": "succeeded", "type_or_task": "noop", "worker": "host-1:7"},
                **{"host": "host-1", "attempt": 1, "wait_ms": 40, "run_ms": 2000},
            }
            for number in numbers
        ],
    )
    _copy(JournalEntry, count, numbers[0], step)


def cut(model: Any, count: int, *, start: datetime, end: datetime) -> list[datetime]:
    """So many partitions of equal length from `start` to `end`, and the ends of three ahead."""
    span = (end - start) // count
    ends = [
        (start + n * span).replace(minute=0, second=0, microsecond=0) for n in range(1, count + 4)
    ]
    partitions.cut(model, ends)
    return ends


def _fill(model: Any, count: int, start: datetime, end: datetime, columns: dict[str, Any]) -> None:
    step = _step(count, start, end)
    numbers = _numbers(start, step)
    insert_rows(model, [_ended(number) | columns for number in numbers])
    _copy(model, count, numbers[0], step)


def _ended(number: int) -> dict[str, Any]:
    at = ids.made_at(number)
    return {
        **{"id": number, "type": "noop", "context": {"order": number % 1000, "to": "somebody"}},
        **{"status": "succeeded", "attempts": 1, "max_attempts": 3, "holds": 1, "version": 3},
        **{"last_end": "succeeded", "worker": "host-1:7", "host": "host-1"},
        **{"run_at": at, "expected_at": at, "created_at": at, "held_at": at, "started_at": at},
        **{"finished_at": at + RUN},
    }


def _step(count: int, start: datetime, end: datetime) -> timedelta:
    """The time between two rows, in whole milliseconds, as ids hold it."""
    return (end - start) // count // _MS * _MS


def _numbers(start: datetime, step: timedelta) -> list[int]:
    return [ids.lowest_id_at(start + n * step) + 1 for n in range(SEED)]


def _copy(model: Any, count: int, first: int, step: timedelta) -> None:
    """Copy the SEED rows from the id `first` until there are `count`, each `step` later."""
    quote = connection.ops.quote_name
    names = [str(field.column) for field in model._meta.concrete_fields]
    made = SEED
    while made < count:
        rows = min(made, count - made, COPIED_AT_ONCE)
        shift = made * (step // _MS)
        by = shift << (ids.NODE_BITS + ids.SEQUENCE_BITS)
        moved = {"id": f"id + {by}", "subject_id": f"subject_id + {by}"} | {
            name: f"{name} + INTERVAL {shift * 1000} MICROSECOND" for name in _TIMES[model]
        }
        end = first + ((rows * (step // _MS)) << (ids.NODE_BITS + ids.SEQUENCE_BITS))
        execute(
            f"INSERT INTO {table(model)} ({', '.join(map(quote, names))}) "
            f"SELECT {', '.join(moved.get(name, quote(name)) for name in names)} "
            f"FROM {table(model)} WHERE id >= {first} AND id < {end} ORDER BY id"
        )
        made += rows
