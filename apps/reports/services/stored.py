"""The rows of stored totals in stretches of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apps.common.db import fetch_each, marks, table
from apps.reports.models import Rollup
from apps.reports.rules.cover import Run
from apps.reports.rules.outcomes import COUNTS

# So many values are named to the database; more are picked out of all that it gives.
MOST_NAMED = 200


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


def rows_in(
    source: str,
    dimension: str,
    values: tuple[str, ...] | None,
    runs: Sequence[Run],
    *,
    most: int | None = None,
) -> Iterator[Row]:
    """The rows of these values, of all when None, in the runs; of each run `most` of them.

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
    select = (
        f"SELECT start, value, {', '.join(COUNTS)}, wait, run FROM {table(Rollup)} "  # noqa: S608
        f"WHERE level = %s AND start >= %s AND start < %s AND {condition}"
        + ("" if most is None else f" LIMIT {most}")
    )
    parts = ((select, (*run, *parameters)) for run in runs)
    for start, value, *counts, wait, run in fetch_each(parts):
        if wanted is None or value in wanted:
            yield Row(start, value, Counted(counts, wait, run))


def counts_in(source: str, dimension: str, runs: Sequence[Run]) -> dict[str, list[Counted]]:
    """What is counted of each value, added up by the database without histograms."""
    sums = ", ".join(f"SUM({name})" for name in COUNTS)
    select = (
        f"SELECT value, {sums} FROM {table(Rollup)} WHERE level = %s AND start >= %s "  # noqa: S608
        "AND start < %s AND source = %s AND dimension = %s GROUP BY value"
    )
    groups: dict[str, list[Counted]] = {}
    for value, *counts in fetch_each((select, (*run, source, dimension)) for run in runs):
        groups.setdefault(value, []).append(Counted([*map(int, counts)], b"", b""))
    return groups
