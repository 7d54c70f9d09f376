"""Writing rollups: buckets and those that are summed from them, in one transaction.

A bucket is always computed anew, from the journal or from its parts, and never added to. So writing
it twice is harmless, and a process that is killed on the way has changed nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from apps.common.chunks import chunks
from apps.common.db import (
    exclusive_lock,
    execute,
    fetch,
    fetch_each,
    placeholders,
    repeatable,
    table,
    transactional,
)
from apps.common.models import SweepLease
from apps.common.rows import insert_values
from apps.reports.models import Rollup, RollupBucket
from apps.reports.rules import sketch
from apps.reports.rules.coverage import PART, WHOLE, floor, joined
from apps.reports.rules.outcomes import COUNTS, DISPATCH, FLOW, JOB, SOURCES, STEP
from apps.reports.rules.tally import ALL, DIMENSIONS, TYPE, Cells, Key, Tally, summed
from apps.reports.services.coverage import Stored, stored_between
from apps.reports.services.error_groups import note
from apps.reports.services.rows import Selection, sums_in

SWEEP = "reports.rollup"
_COLUMNS = ("level", "source", "dimension", "start", "value", *COUNTS, "wait", "run")
_DIMENSIONS = sorted({name for names in DIMENSIONS.values() for name in names})
_ROWS_AT_ONCE = 500

Tallies = Mapping[Key, Tally]


class Size(NamedTuple):
    """The number of journal entries counted in a bucket, and of hand-outs among them."""

    entries: int
    handed_out: int


NOTHING = Size(0, 0)


# --- writing --------------------------------------------------------------------------------------
@transactional
def write(buckets: Sequence[tuple[int, int]], cells: Mapping[int, Cells]) -> None:
    """Store the buckets, given as (level, start), and the longer ones that they complete.

    `cells` has what was counted, by start.
    """
    _lock_writers()
    by_level: dict[int, list[int]] = defaultdict(list)
    for level, start in buckets:
        by_level[level].append(start)
    for level in sorted(set(by_level) | set(WHOLE.values())):
        own = by_level[level]
        if own:
            counted = {start: cells[start].tallies(level) for start in own if start in cells}
            sizes = {
                start: Size(cells[start].entries, cells[start].handed_out)
                for start in own
                if start in cells
            }
            _replace(level, own, counted, sizes)
            note([cells[start] for start in own if start in cells])
        if level in PART:
            own = own + _sum_up(level, by_level[PART[level]])
        by_level[level] = own


def _lock_writers() -> None:
    """Two writers that each complete half of an hour would otherwise both leave the hour out."""
    fetch(f"SELECT name FROM {table(SweepLease)} WHERE name = %s" + exclusive_lock(), [SWEEP])


def _sum_up(level: int, parts: Iterable[int]) -> list[int]:
    """Store the buckets that the parts complete; returns their starts."""
    part = PART[level]
    touched = sorted({floor(start, level) for start in parts})
    whole: list[int] = []
    for start, end in joined((each, each + level) for each in touched):
        stored = stored_between(part, start, end)
        whole += [
            each
            for each in range(start, end, level)
            if all(inner in stored for inner in range(each, each + level, part))
        ]
    counted: dict[int, Tallies] = {}
    sizes: dict[int, Size] = {}
    for start, end in joined((each, each + level) for each in whole):
        of_parts: dict[int, list[Tallies]] = defaultdict(list)
        for inner, tallies in _tallies(part, start, end):
            of_parts[floor(inner, level)].append(tallies)
        counted |= {each: summed(them, level) for each, them in of_parts.items()}
        for inner, (entries, handed_out) in sizes_between(part, start, end).items():
            so_far = sizes.get(floor(inner, level), NOTHING)
            sizes[floor(inner, level)] = Size(
                so_far.entries + entries, so_far.handed_out + handed_out
            )
    _replace(level, whole, counted, sizes)
    return whole


def _replace(
    level: int,
    starts: Sequence[int],
    counted: Mapping[int, Tallies],
    sizes: Mapping[int, Size],
) -> None:
    for start, end in joined((each, each + level) for each in starts):
        remove_buckets(level, start, end)
        remove_rollups(level, start, end)
    insert_values(
        RollupBucket,
        ("level", "start", *Size._fields),
        [(level, start, *sizes.get(start, NOTHING)) for start in starts],
    )
    rows = [
        row for start, tallies in sorted(counted.items()) for row in rows_of(level, start, tallies)
    ]
    for part in chunks(rows, _ROWS_AT_ONCE):
        insert_values(Rollup, _COLUMNS, part)


def rows_of(level: int, start: int, tallies: Tallies) -> Iterator[tuple[Any, ...]]:
    """The rows that store the tallies of a bucket."""
    for (source, dimension, value), tally in sorted(tallies.items()):
        wait, run = sketch.pack(tally.wait), sketch.pack(tally.run)
        yield (level, source, dimension, start, value, *tally.counts, wait, run)


@repeatable
def remove_buckets(level: int, start: int, end: int) -> int:
    """Remove the buckets of the level in [start, end), so that their rollups are not read."""
    return execute(
        f"DELETE FROM {table(RollupBucket)} WHERE level = %s AND start >= %s AND start < %s",
        [level, start, end],
    )


@repeatable
def remove_rollups(level: int, start: int, end: int) -> int:
    """Remove the rollups themselves; returns the number of rows."""
    return execute(f"DELETE FROM {table(Rollup)} WHERE {_BETWEEN}", _between(level, start, end))


# --- reading what is stored -----------------------------------------------------------------------
def sizes_between(level: int, start: int, end: int) -> dict[int, Size]:
    """The sizes of the stored buckets that start in [start, end)."""
    rows = fetch(
        f"SELECT start, entries, handed_out FROM {table(RollupBucket)} "
        "WHERE level = %s AND start >= %s AND start < %s",
        [level, start, end],
    )
    return {at: Size(*size) for at, *size in rows}


def stored_rows(level: int, start: int) -> list[tuple[Any, ...]]:
    """The stored rows of a bucket, as `rows_of` makes them."""
    return fetch(
        f"SELECT {', '.join(_COLUMNS)} FROM {table(Rollup)} WHERE {_BETWEEN}",
        _between(level, start, start + level),
    )


def _tallies(level: int, start: int, end: int) -> Iterator[tuple[int, Tallies]]:
    """The stored tallies of [start, end), row by row, each with the start of its bucket."""
    rows = fetch(
        f"SELECT start, source, dimension, value, wait, run, {', '.join(COUNTS)} "
        f"FROM {table(Rollup)} WHERE {_BETWEEN}",
        _between(level, start, end),
    )
    for at, source, dimension, value, wait, run, *counts in rows:
        tally = Tally(counts, sketch.unpack(wait), sketch.unpack(run))
        yield at, {(source, dimension, value): tally}


# All sources and dimensions are named, so that the primary key is used.
_BETWEEN = (
    f"level = %s AND source IN ({placeholders(len(SOURCES))}) "
    f"AND dimension IN ({placeholders(len(_DIMENSIONS))}) AND start >= %s AND start < %s"
)


def _between(level: int, start: int, end: int) -> list[object]:
    return [level, *SOURCES, *_DIMENSIONS, start, end]


# --- all time -------------------------------------------------------------------------------------
class AllTime(NamedTuple):
    """Ends by source and type, then by outcome (rules.outcomes), and the packed sketches of waiting
    and running by source; hand-outs; and until when all this is added up.

    Dispatches, flows and steps have no type: there can be any number. `as_of` is None while nothing
    is added up.
    """

    ended: dict[tuple[str, str], dict[str, int]]
    times: dict[str, tuple[list[bytes], list[bytes]]]
    handed_out: int
    as_of: datetime | None


def all_time(stored: Stored) -> AllTime:
    """The totals since the beginning, which only grow.

    The coarsest buckets are few rows, however long ago the beginning is.
    """
    if stored.end is None or stored.beginning is None:
        return AllTime({}, {}, 0, None)
    runs, _left = stored.cover([(stored.beginning, stored.end)])
    ended = {
        (source, type_): dict(zip(COUNTS, counts, strict=True))
        for source, dimension in ((DISPATCH, ALL), (JOB, TYPE), (FLOW, ALL), (STEP, ALL))
        for type_, counts in sums_in(Selection(source, dimension), runs).items()
    }
    times: dict[str, tuple[list[bytes], list[bytes]]] = {}
    for source in SOURCES:
        waits, ran = times[source] = [], []
        for wait, run in Selection(source, ALL).select("wait, run", runs):
            waits.append(bytes(wait))
            ran.append(bytes(run))
    select = (
        f"SELECT SUM(handed_out) FROM {table(RollupBucket)} "
        "WHERE level = %s AND start >= %s AND start < %s"
    )
    handed_out = sum(int(each or 0) for (each,) in fetch_each((select, run) for run in runs))
    return AllTime(ended, times, handed_out, stored.closed_until)
