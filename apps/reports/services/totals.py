"""Writing totals: stretches and all that are summed from them, in one transaction.

What is stored is always made anew, from the journal or from the parts, never added to. So a stretch
can be written as often as one likes, and what is killed on the way has changed nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from apps.common.db import exclusive_lock, execute, fetch, placeholders, table, transactional
from apps.common.models import SweepLease
from apps.common.rows import insert_values
from apps.reports.models import Rollup, Stretch
from apps.reports.rules import histogram
from apps.reports.rules.cover import LEVELS, PART, WHOLE, floor
from apps.reports.rules.keeping import joined
from apps.reports.rules.outcomes import COUNTS, SOURCES
from apps.reports.rules.tally import DIMENSIONS, Cells, Key, Tally, summed
from apps.reports.services.error_groups import note
from apps.reports.services.stretches import stored_between

SWEEP = "reports.rollup"
_COLUMNS = ("level", "source", "dimension", "start", "value", *COUNTS, "wait", "run")
_DIMENSIONS = sorted({name for names in DIMENSIONS.values() for name in names})
_ROWS_AT_ONCE = 500

Tallies = Mapping[Key, Tally]


class Size(NamedTuple):
    """Of how many entries of the journal a stretch was made, and the hand-outs among them."""

    entries: int
    handed_out: int


NOTHING = Size(0, 0)


@transactional
def write(stretches: Sequence[tuple[int, int]], cells: Mapping[int, Cells]) -> None:
    """Store the stretches, given as (level, start), of which `cells` has what was counted, and
    those that they complete."""
    _alone()
    by_level: dict[int, list[int]] = defaultdict(list)
    for level, start in stretches:
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


@transactional
def sum_up(level: int, start: int) -> None:
    """Store a stretch anew whose parts are stored."""
    _alone()
    _sum_up(level, [start])


def _alone() -> None:
    """Two writers that each complete half of an hour would both leave the other half out."""
    fetch(f"SELECT name FROM {table(SweepLease)} WHERE name = %s" + exclusive_lock(), [SWEEP])


def has_all_levels(position: Mapping[str, Any]) -> bool:
    """Whether the sweep has summed up what was stored before there were all levels."""
    return position.get("levels") == [*LEVELS]


def unlike_parts(level: int, *, most: int) -> list[tuple[int, int, int | None]]:
    """Stretches whose parts are stored, but not they themselves (None) or of other entries, the
    newest first: (start, entries of the parts, entries)."""
    part = PART[level]
    rows = fetch(
        "SELECT x.start, x.entries, w.entries FROM ("
        f"SELECT start - start %% {level} AS start, COUNT(*) AS parts, SUM(entries) AS entries "
        f"FROM {table(Stretch)} WHERE level = %s GROUP BY 1) x "
        f"LEFT JOIN {table(Stretch)} w ON w.level = %s AND w.start = x.start "
        "WHERE x.parts = %s AND (w.entries IS NULL OR w.entries <> x.entries) "
        "ORDER BY 1 DESC LIMIT %s",
        [part, level, level // part, most],
    )
    return [(start, int(of_parts), entries) for start, of_parts, entries in rows]


def _sum_up(level: int, parts: Iterable[int]) -> list[int]:
    """Store the stretches that the parts complete; returns their starts."""
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


def sizes_between(level: int, start: int, end: int) -> dict[int, Size]:
    """What the stored stretches that start in [start, end) were made of."""
    rows = fetch(
        f"SELECT start, entries, handed_out FROM {table(Stretch)} "
        "WHERE level = %s AND start >= %s AND start < %s",
        [level, start, end],
    )
    return {at: Size(*size) for at, *size in rows}


def _tallies(level: int, start: int, end: int) -> Iterator[tuple[int, Tallies]]:
    """What is stored of each row of [start, end), with the start of its stretch."""
    rows = fetch(
        f"SELECT start, source, dimension, value, wait, run, {', '.join(COUNTS)} "
        f"FROM {table(Rollup)} WHERE {_PLACE}",
        _place(level, start, end),
    )
    for at, source, dimension, value, wait, run, *counts in rows:
        tally = Tally(counts, histogram.unpack(wait), histogram.unpack(run))
        yield at, {(source, dimension, value): tally}


def _replace(
    level: int,
    starts: Sequence[int],
    counted: Mapping[int, Tallies],
    sizes: Mapping[int, Size],
) -> None:
    for start, end in joined((each, each + level) for each in starts):
        forget(level, start, end)
    insert_values(
        Stretch,
        ("level", "start", *Size._fields),
        [(level, start, *sizes.get(start, NOTHING)) for start in starts],
    )
    rows = [
        row for start, tallies in sorted(counted.items()) for row in rows_of(level, start, tallies)
    ]
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        insert_values(Rollup, _COLUMNS, rows[first : first + _ROWS_AT_ONCE])


def rows_of(level: int, start: int, tallies: Tallies) -> Iterator[tuple[Any, ...]]:
    """The rows that the tallies of a stretch are stored as."""
    for (source, dimension, value), tally in sorted(tallies.items()):
        wait, run = histogram.pack(tally.wait), histogram.pack(tally.run)
        yield (level, source, dimension, start, value, *tally.counts, wait, run)


def stored_rows(level: int, start: int) -> list[tuple[Any, ...]]:
    """The rows that are stored of a stretch, with histograms packed as they would be now."""
    rows = fetch(
        f"SELECT {', '.join(_COLUMNS)} FROM {table(Rollup)} WHERE {_PLACE}",
        _place(level, start, start + level),
    )
    return [
        (*row, histogram.pack(histogram.unpack(wait)), histogram.pack(histogram.unpack(run)))
        for *row, wait, run in rows
    ]


_PLACE = (
    f"level = %s AND source IN ({placeholders(len(SOURCES))}) "
    f"AND dimension IN ({placeholders(len(_DIMENSIONS))}) AND start >= %s AND start < %s"
)


def _place(level: int, start: int, end: int) -> list[object]:
    # All sources and dimensions, so that the primary key leads to the rows.
    return [level, *SOURCES, *_DIMENSIONS, start, end]


def forget(level: int, start: int, end: int) -> None:
    """Remove what is stored of the stretches of the level that start in [start, end)."""
    forget_stretches(level, start, end)
    forget_totals(level, start, end)


def forget_stretches(level: int, start: int, end: int) -> int:
    """Remove the word that their totals are stored; returns how many."""
    return execute(
        f"DELETE FROM {table(Stretch)} WHERE level = %s AND start >= %s AND start < %s",
        [level, start, end],
    )


def forget_totals(level: int, start: int, end: int) -> int:
    """Remove the totals themselves; returns how many."""
    return execute(f"DELETE FROM {table(Rollup)} WHERE {_PLACE}", _place(level, start, end))
