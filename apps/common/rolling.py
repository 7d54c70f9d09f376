"""Archives that roll on MariaDB and MySQL: partitions are cut ahead, and dropped when all in them
is over. On SQLite there are none, and rows are forgotten one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import models

from apps.common import clock, ids, partitions
from apps.common.db import fetch, instant, table
from apps.common.leases import load_position, save_position, sweep_lease
from apps.common.partitions import CannotRoll, Partition
from apps.common.parts import Span

# Until a partition is over that takes the rows of a month, and until its last row has ended.
LAG = partitions.LONGEST + timedelta(days=1)
# When a partition is looked at again of which rows are still needed.
NEEDED_AGAIN = timedelta(days=1)
# The mover rests while a partition is looked through.
MAX_LOOK = timedelta(minutes=10)


class Rolled(NamedTuple):
    """How many partitions a round has cut and dropped."""

    cut: int = 0
    dropped: int = 0


def cut_ahead(
    model: type[models.Model],
    found: Sequence[Partition],
    now: datetime,
    *,
    retention: timedelta,
    rows: str,
    waiting: str,
    moves_rows: bool,
) -> int:
    """Cut so many partitions ahead as are wanted; returns how many.

    CannotRoll when many `rows` have come since the last boundary, for whose copy `waiting` wait,
    unless `moves_rows`.
    """
    wanted = partitions.missing(model, found, now, retention)
    if not wanted:
        return 0
    ends = [each.end for each in found if each.end is not None]
    if not moves_rows and _has_many_behind(model, max(ends, default=None)):
        raise CannotRoll(
            f"More than {partitions.MOVED_AT_ONCE:,} {rows} lie behind the last boundary; to move "
            f"them takes about 5 s for each million, for which {waiting} wait. Run "
            "`manage.py roll_tables --move` when it suits."
        )
    partitions.cut(model, wanted)
    return len(wanted)


def _has_many_behind(model: type[models.Model], end: datetime | None) -> bool:
    low, limit = 0 if end is None else ids.lowest_id_at(end), partitions.MOVED_AT_ONCE
    rows = fetch(
        f"SELECT COUNT(*) FROM (SELECT 1 FROM {table(model)} WHERE id >= %s LIMIT %s) some",
        [low, limit + 1],
    )
    return bool(rows[0][0] > limit)


class RollingArchive:
    """An archive whose rows have a `finished_at`, from which on `retention` counts (0 = for ever).

    `rows` names them for people, `sweep` is the name of the sweep that rolls, `mover` that of the
    one that fills the archive. `record` writes to the journal how many rows go with which
    partition; it is called before the drop, which is no part of any transaction. While
    `is_needed` says so of the rows between its first and its last one, a partition stays.
    """

    def __init__(
        self,
        model: type[models.Model],
        *,
        rows: str,
        sweep: str,
        mover: str,
        retention: Callable[[], timedelta],
        record: Callable[[int, str, datetime], None],
        is_needed: Callable[[Span], bool] = lambda _span: False,
    ) -> None:
        self.sweep = sweep
        self._model, self._rows, self._mover = model, rows, mover
        self._retention, self._record, self._is_needed = retention, record, is_needed

    def lag(self) -> timedelta:
        """The time after which its rows are forgotten one by one, because partitions go first."""
        return LAG if partitions.partitions_of(self._model) else timedelta()

    def roll(self, *, moves_rows: bool = False) -> Rolled:
        """Cut partitions ahead and drop what is over; raises CannotRoll.

        `moves_rows`: also when many rows have come since the last boundary, for whose copy the
        mover waits.
        """
        now = clock.now()
        found = partitions.partitions_of(self._model)
        if not found:
            return Rolled()
        retention = self._retention()
        cut = cut_ahead(
            self._model,
            found,
            now,
            retention=retention,
            rows=self._rows,
            waiting="all who write the archive",
            moves_rows=moves_rows,
        )
        if not retention:
            return Rolled(cut)
        before = now - retention
        return Rolled(cut, self._drop(partitions.ended_before(found, before), before, now))

    def _drop(self, over: list[Partition], before: datetime, now: datetime) -> int:
        known = load_position(self.sweep)
        waits = {each.name: known[each.name] for each in over if each.name in known}
        dropped = 0
        for each in over:
            if waits.get(each.name, "") > now.isoformat():
                continue
            # Rows that were made early may come late: nothing is moved between the look and the
            # drop.
            with sweep_lease(self._mover, at_most=MAX_LOOK) as is_alone:
                if not is_alone:
                    break
                ends_at = self._looked_through(each, before, now)
                if ends_at is None:
                    partitions.drop(self._model, [each])
                    waits.pop(each.name, None)
                    dropped += 1
                else:
                    waits[each.name] = (ends_at + self._retention()).isoformat()
        save_position(self.sweep, waits)
        return dropped

    def _looked_through(
        self, partition: Partition, before: datetime, now: datetime
    ) -> datetime | None:
        """Look through the partition: None when all its rows are over, which is then recorded; else
        the end of its last row, or what makes the next look a day later where rows are needed."""
        [(rows, latest, first, last)] = fetch(
            f"SELECT COUNT(*), MAX(finished_at), MIN(id), MAX(id) FROM {table(self._model)} "
            f"PARTITION ({partition.name})"
        )
        if not rows:
            return None
        ends_at: datetime = instant(latest)
        if ends_at >= before:
            return ends_at
        if self._is_needed(Span(first, last)):
            return before + NEEDED_AGAIN
        self._record(rows, partition.name, now)
        return None
