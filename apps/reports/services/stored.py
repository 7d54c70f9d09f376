"""The rows of stored totals in stretches of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add
from typing import NamedTuple

from apps.common.db import fetch_each, marks, table
from apps.reports.models import Rollup
from apps.reports.rules.cover import Run
from apps.reports.rules.outcomes import COUNTS

# So many values are named to the database; more are picked out of all that it gives.
MOST_NAMED = 200
# SQLite takes conditions of 1,000 parts.
_RANGES_AT_ONCE = 400


class Counted(NamedTuple):
    """What a row of totals has counted, and its histograms, packed."""

    counts: Sequence[int]
    wait: bytes
    run: bytes


class Row(NamedTuple):
    """A row of totals of one dimension."""

    start: int
    value: str
    counted: Counted


def within(runs: Sequence[Run]) -> Iterator[tuple[str, list[int]]]:
    """SQL conditions, with their parameters, each of which chooses the rows of some of the runs.

    A condition for every run would take MariaDB a second where hours do not begin at full ones.
    """
    by_level: dict[int, list[Run]] = {}
    for run in runs:
        by_level.setdefault(run.level, []).append(run)
    for level, each in by_level.items():
        for at in range(0, len(each), _RANGES_AT_ONCE):
            some = each[at : at + _RANGES_AT_ONCE]
            ranges = " OR ".join(["start >= %s AND start < %s"] * len(some))
            edges = [edge for run in some for edge in (run.start, run.end)]
            yield f"level = %s AND ({ranges})", [level, *edges]


def rows_in(
    source: str,
    dimension: str,
    values: tuple[str, ...] | None,
    runs: Sequence[Run],
    *,
    most: int | None = None,
) -> Iterator[Row]:
    """The rows of these values, of all when None, in the runs; of each level `most` of them.

    No entry of the journal is in two of them, whatever is added up anew meanwhile.
    """
    if values == ():
        return
    condition = "source = %s AND dimension = %s"
    parameters = [source, dimension]
    wanted = None if values is None or len(values) <= MOST_NAMED else set(values)
    if values is not None and wanted is None:
        condition += f" AND value IN ({marks(len(values))})"
        parameters += values
    select = f"SELECT start, value, {', '.join(COUNTS)}, wait, run FROM {table(Rollup)}"  # noqa: S608
    limit = "" if most is None else f" LIMIT {most}"
    parts = (
        (f"{select} WHERE {chosen} AND {condition}{limit}", (*edges, *parameters))
        for chosen, edges in within(runs)
    )
    for start, value, *counts, wait, run in fetch_each(parts):
        if wanted is None or value in wanted:
            yield Row(start, value, Counted(counts, wait, run))


def sums_in(
    source: str, dimension: str, runs: Sequence[Run], names: Sequence[str] = COUNTS
) -> dict[str, list[int]]:
    """Some counts of each value, added up by the database; it is histograms that take long."""
    # MariaDB's sums are decimals, which take long to read.
    sums = ", ".join(f"CAST(SUM({name}) AS SIGNED)" for name in names)
    parts = (
        (
            f"SELECT value, {sums} FROM {table(Rollup)} "  # noqa: S608
            f"WHERE {chosen} AND source = %s AND dimension = %s GROUP BY value",
            (*edges, source, dimension),
        )
        for chosen, edges in within(runs)
    )
    found: dict[str, list[int]] = {}
    for value, *counts in fetch_each(parts):
        known = found.get(value)
        found[value] = counts if known is None else [*map(add, known, counts)]
    return found
