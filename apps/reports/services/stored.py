"""The rows of stored totals in stretches of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add
from typing import Any, NamedTuple, TypeAlias

from apps.common.db import fetch_each, force_index, placeholders, table
from apps.reports.models import Rollup
from apps.reports.rules.cover import Run
from apps.reports.rules.outcomes import COUNTS

# So many values are named to the database at once: SQLite takes 32,766 parameters.
MAX_NAMED = 200
# SQLite takes conditions of 1,000 parts.
_RANGES_AT_ONCE = 400


# What a row of totals has counted, in the order of COUNTS; and its packed histograms of waiting and
# running. A plain tuple, as there are thousands.
Counted: TypeAlias = tuple[Any, ...]
WAIT, RUN = len(COUNTS), len(COUNTS) + 1


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


class Chosen(NamedTuple):
    """Which totals are read: those of one dimension, of these values unless None."""

    source: str
    dimension: str
    values: tuple[str, ...] | None = None

    @property
    def table(self) -> str:
        """The SQL of the table, read by the index that leads to the rows and no other.

        By estimate, all rows of a dimension may look like fewer than those of some values.
        """
        return table(Rollup) + force_index("PRIMARY" if self.values is None else "rollup_value")

    def conditions(self, runs: Sequence[Run]) -> Iterator[tuple[str, list[Any]]]:
        """As `within`, of the chosen rows alone."""
        condition, parameters = "source = %s AND dimension = %s", [self.source, self.dimension]
        values = self.values
        if values is None:
            narrowed = [(condition, parameters)]
        else:
            parts = [values[at : at + MAX_NAMED] for at in range(0, len(values), MAX_NAMED)]
            narrowed = [
                (f"{condition} AND value IN ({placeholders(len(some))})", [*parameters, *some])
                for some in parts
            ]
        for chosen, edges in within(runs):
            for condition, parameters in narrowed:
                yield f"{chosen} AND {condition}", [*edges, *parameters]


def rows_in(chosen: Chosen, runs: Sequence[Run]) -> Iterator[tuple[int, str, Counted]]:
    """The chosen rows in the runs: start, value, and what is counted.

    No entry of the journal is in two of them, whatever is added up anew meanwhile.
    """
    select = f"SELECT start, value, {', '.join(COUNTS)}, wait, run FROM {chosen.table}"
    parts = (
        (f"{select} WHERE {condition}", parameters)
        for condition, parameters in chosen.conditions(runs)
    )
    for row in fetch_each(parts):
        yield row[0], row[1], row[2:]


def count_in(chosen: Chosen, runs: Sequence[Run]) -> int:
    """How many the chosen rows in the runs are."""
    select = f"SELECT COUNT(*) FROM {chosen.table}"
    parts = (
        (f"{select} WHERE {condition}", parameters)
        for condition, parameters in chosen.conditions(runs)
    )
    return sum(count for (count,) in fetch_each(parts))


def sums_in(
    chosen: Chosen, runs: Sequence[Run], names: Sequence[str] = COUNTS, *, by: str = "value"
) -> dict[Any, list[int]]:
    """Some counts of each value (or of what starts at the same instant, by its `start`), added up
    by the database; it is histograms that take long."""
    # MariaDB's sums are decimals, which take long to read.
    sums = ", ".join(f"CAST(SUM({name}) AS SIGNED)" for name in names)
    select = f"SELECT {by}, {sums} FROM {chosen.table}"
    # In no order, which MariaDB would sort them for.
    parts = (
        (f"{select} WHERE {condition} GROUP BY {by} ORDER BY NULL", parameters)
        for condition, parameters in chosen.conditions(runs)
    )
    found: dict[Any, list[int]] = {}
    for group, *counts in fetch_each(parts):
        known = found.get(group)
        found[group] = counts if known is None else [*map(add, known, counts)]
    return found
