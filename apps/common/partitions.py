"""Tables that roll: partitions by ranges of ids, cut ahead of time and dropped when they are over.

An id holds the time of its making, so each partition is a span of time. Only MariaDB and MySQL
have partitions; SQLite keeps a plain table.

Measured: an INSERT is as fast among 36 partitions as in a plain table, and a fifth slower among
400. To drop a partition takes 25 ms, whatever it has; to cut an empty one up 150 ms, but 4.5 s for
each million rows in it, for which writers wait.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import OperationalError, connection, models
from django.db.migrations.operations import RunPython

from apps.common import ids
from apps.common.db import execute, fetch, table

# Rows of one partition, as far as the last weeks foretell, and how many partitions are kept.
ROWS = 5_000_000
MOST = 32
LONGEST = timedelta(days=31)
# Rows that are kept for ever fill MOST partitions in this time.
FOR_EVER = timedelta(days=3650)
# So much is cut ahead: this many partitions, and this long unless that takes too many.
AHEAD_COUNT = (3, 8)
AHEAD = timedelta(hours=48)
# The partition behind the last boundary. More rows than these are only moved when asked for.
REST = "pmax"
MOVED_AT_ONCE = 200_000
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# How long a change of partitions waits for transactions that use the table, in seconds: others
# queue behind it meanwhile.
_LOCK_SECONDS = 2
_LOCK_WAIT_TIMEOUT = 1205
_DENIED = {1044, 1142, 1227}
_NAME = re.compile(r"p\d{10}")


class Partition(NamedTuple):
    """A span of time that ends at `end` (UTC), None for the rest; `rows` are an estimate."""

    name: str
    end: datetime | None
    rows: int


class CannotRoll(Exception):
    """The partitions stay as they are; the text says why, and what to do."""


# --- plans ------------------------------------------------------------------------------------
def width(rows_a_day: float, retention: timedelta) -> timedelta:
    """How much time a partition covers: whole days, or less than one in whole hours.

    It holds ROWS, unless rows are kept so long (0 is for ever) that there were too many of them.
    """
    holds = min(LONGEST, _DAY * (ROWS / max(rows_a_day, 1.0)))
    least = (retention or FOR_EVER) / MOST
    unit = _unit(max(holds, least))
    return max(1, holds // unit, -(-least // unit)) * unit


def cuts(now: datetime, ends: Collection[datetime], span: timedelta) -> list[datetime]:
    """The boundaries to add behind the present ones, ascending, so that enough is cut ahead.

    What has come since the last boundary stays in one partition, however long that was.
    """
    unit = _unit(span)
    at = max([*ends, _floor(now, unit)])
    ahead = sum(end > now for end in ends)
    least, most = AHEAD_COUNT
    found = []
    while ahead < least or (at < now + AHEAD and ahead < most):
        at = _floor(at + span, unit)
        found.append(at)
        ahead += 1
    return found


def ended_before(partitions: Sequence[Partition], before: datetime) -> list[Partition]:
    """The partitions whose whole time has ended before the instant."""
    return [each for each in partitions if each.end is not None and each.end <= before]


def _unit(span: timedelta) -> timedelta:
    return _DAY if span >= _DAY else _HOUR


def _floor(at: datetime, unit: timedelta) -> datetime:
    return _EPOCH + (at - _EPOCH) // unit * unit


# --- tables -----------------------------------------------------------------------------------
def missing(
    model: type[models.Model], found: Sequence[Partition], now: datetime, retention: timedelta
) -> list[datetime]:
    """The boundaries to add to the partitions that were found, by what came in the last weeks."""
    first = fetch(f"SELECT MIN(id) FROM {table(model)}")[0][0]
    rate = rows_a_day(found, now, None if first is None else ids.made_at(first))
    ends = [each.end for each in found if each.end is not None]
    return cuts(now, ends, width(rate, retention))


def partitions_of(model: type[models.Model]) -> list[Partition]:
    """The partitions by time, the rest last; none of a plain table."""
    if connection.vendor != "mysql":
        return []
    rows = fetch(
        "SELECT partition_name, partition_description, table_rows "
        "FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = %s "
        "AND partition_name IS NOT NULL ORDER BY partition_ordinal_position",
        [model._meta.db_table],
    )
    return [
        Partition(name, None if bound == "MAXVALUE" else ids.made_at(int(bound)), int(count or 0))
        for name, bound, count in rows
    ]


def rows_a_day(partitions: Sequence[Partition], now: datetime, first: datetime | None) -> float:
    """About how many rows came a day, by the partitions of the last weeks; the `first` row is as
    old as that."""
    begun = [first] if first is not None else []
    rows, since = 0, now
    for each, before in reversed(list(zip(partitions, [None, *partitions], strict=False))):
        start = before.end if before is not None and before.end is not None else None
        if start is not None and start >= now:
            continue
        rows += each.rows
        since = max([*begun, *([start] if start is not None else [])], default=now)
        if now - since >= 7 * _DAY:
            break
    days = max((now - since) / _DAY, 1.0)
    return rows / days


def cut(model: type[models.Model], ends: Sequence[datetime]) -> None:
    """Cut the rest at these instants; its rows go where they belong. CannotRoll says why not."""
    parts = [
        f"PARTITION p{end:%Y%m%d%H} VALUES LESS THAN ({ids.lowest_id_at(end)})" for end in ends
    ]
    parts.append(f"PARTITION {REST} VALUES LESS THAN MAXVALUE")
    _alter(model, f"REORGANIZE PARTITION {REST} INTO ({', '.join(parts)})")


def drop(model: type[models.Model], partitions: Sequence[Partition]) -> None:
    """Remove the partitions with all their rows."""
    for each in partitions:
        if not _NAME.fullmatch(each.name):
            raise CannotRoll(f"Partition {each.name} of {model._meta.db_table} is none of ours.")
    _alter(model, f"DROP PARTITION {', '.join(each.name for each in partitions)}")


def _alter(model: type[models.Model], change: str) -> None:
    try:
        with _impatient():
            execute(f"ALTER TABLE {table(model)} {change}")
    except OperationalError as error:
        code = error.args[0] if error.args else None
        if code == _LOCK_WAIT_TIMEOUT:
            raise CannotRoll(
                "A long transaction uses the table; it is tried again later."
            ) from error
        if code in _DENIED:
            raise CannotRoll(
                "The database user of the platform may not change the table; run "
                "`manage.py roll_tables` each night as the user who owns it."
            ) from error
        raise


@contextmanager
def _impatient() -> Iterator[None]:
    [(before,)] = fetch("SELECT @@lock_wait_timeout")
    execute("SET SESSION lock_wait_timeout = %s", [_LOCK_SECONDS])
    try:
        yield
    finally:
        execute("SET SESSION lock_wait_timeout = %s", [before])


def rolling(app: str, model: str) -> RunPython:
    """The migration that makes a table roll. It copies the table, for which writers wait: about
    45 s for 10,000,000 rows."""

    def change(statement: str) -> Any:
        def run(apps: Any, editor: Any) -> None:
            if editor.connection.vendor == "mysql":
                name = editor.quote_name(apps.get_model(app, model)._meta.db_table)
                editor.execute(f"ALTER TABLE {name} {statement}")

        return run

    return RunPython(
        change(f"PARTITION BY RANGE (id) (PARTITION {REST} VALUES LESS THAN MAXVALUE)"),
        change("REMOVE PARTITIONING"),
    )
