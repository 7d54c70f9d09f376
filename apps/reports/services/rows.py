"""Reading rollups: the rows of one dimension, in runs of stored buckets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import Any, NamedTuple, TypeAlias

from apps.common.chunks import chunks
from apps.common.db import fetch_each, force_index, placeholders, table
from apps.reports.models import Rollup
from apps.reports.rules.coverage import BucketRun
from apps.reports.rules.outcomes import (
    COUNTS,
    EXPIRED,
    FAILED,
    SUCCEEDED,
    TIMED_OUT,
    TOTAL,
    success_rate,
)
from apps.reports.rules.tally import ALL

# Values named in one statement: SQLite takes 32,766 parameters.
MAX_NAMED = 200
# SQLite takes conditions of 1,000 parts.
_RANGES_AT_ONCE = 400
# Rows whose sketches are read for groups. Beyond that the database adds up the counts, and only the
# largest groups get percentiles.
MAX_READ = 20_000
# Rows whose sketches are read for the total of several values; beyond that it has counts alone.
MAX_WITHIN = 50_000
RATE = "success_rate"
# The counts that the rate of a group is computed from.
_RATED = (SUCCEEDED, FAILED, TIMED_OUT, EXPIRED)

# The counts of a row in the order of COUNTS, and its packed sketches of waiting and running. A
# plain tuple, because there are thousands.
Counted: TypeAlias = tuple[Any, ...]
WAIT, RUN = len(COUNTS), len(COUNTS) + 1
_COLUMNS = f"start, value, {', '.join(COUNTS)}, wait, run"


def run_conditions(runs: Sequence[BucketRun]) -> Iterator[tuple[str, list[int]]]:
    """SQL conditions with parameters, each for some of the runs.

    One condition for each run would take MariaDB a second where local hours start at :30 UTC.
    """
    by_level: dict[int, list[BucketRun]] = {}
    for run in runs:
        by_level.setdefault(run.level, []).append(run)
    for level, each in by_level.items():
        for some in chunks(each, _RANGES_AT_ONCE):
            ranges = " OR ".join(["start >= %s AND start < %s"] * len(some))
            edges = [edge for run in some for edge in (run.start, run.end)]
            yield f"level = %s AND ({ranges})", [level, *edges]


class Selection(NamedTuple):
    """The rollups to read: those of one dimension, with these values or with any (None)."""

    source: str
    dimension: str
    values: tuple[str, ...] | None = None

    @property
    def table(self) -> str:
        """The SQL of the table with the one index that leads to the rows.

        The planner may estimate all rows of a dimension to be fewer than those of some values.
        """
        return table(Rollup) + force_index("PRIMARY" if self.values is None else "rollup_value")

    def conditions(self, runs: Sequence[BucketRun]) -> Iterator[tuple[str, list[Any]]]:
        """The conditions of `run_conditions`, for the chosen rows only."""
        condition, parameters = "source = %s AND dimension = %s", [self.source, self.dimension]
        values = self.values
        if values is None:
            narrowed = [(condition, parameters)]
        else:
            narrowed = [
                (f"{condition} AND value IN ({placeholders(len(some))})", [*parameters, *some])
                for some in chunks(values, MAX_NAMED)
            ]
        for chosen, edges in run_conditions(runs):
            for condition, parameters in narrowed:
                yield f"{chosen} AND {condition}", [*edges, *parameters]

    def select(
        self, columns: str, runs: Sequence[BucketRun], ending: str = ""
    ) -> Iterator[tuple[Any, ...]]:
        """These columns of the chosen rows in the runs, in as few statements as possible."""
        return fetch_each(self.selects(columns, runs, ending))

    def selects(
        self, columns: str, runs: Sequence[BucketRun], ending: str = ""
    ) -> Iterator[tuple[str, list[Any]]]:
        """The SELECTs of these columns with their parameters."""
        for condition, parameters in self.conditions(runs):
            yield f"SELECT {columns} FROM {self.table} WHERE {condition}{ending}", parameters


def rows_in(chosen: Selection, runs: Sequence[BucketRun]) -> Iterator[tuple[int, str, Counted]]:
    """The chosen rows in the runs: start, value and counts.

    No journal entry is in two of them, even if a bucket is replaced meanwhile.
    """
    for row in chosen.select(_COLUMNS, runs):
        yield row[0], row[1], row[2:]


def all_of_each(
    sources: Iterable[str], runs: Sequence[BucketRun]
) -> Iterator[tuple[str, int, Counted]]:
    """All that the sources have in the runs, in one statement: source, start and counts."""
    selects = (
        (f"SELECT %s AS source, {sql.removeprefix('SELECT ')}", [source, *parameters])
        for source in sources
        for sql, parameters in Selection(source, ALL).selects(_COLUMNS, runs)
    )
    for source, start, _value, *counted in fetch_each(selects):
        yield source, start, tuple(counted)


def count_in(chosen: Selection, runs: Sequence[BucketRun]) -> int:
    """The number of chosen rows in the runs."""
    return sum(count for (count,) in chosen.select("COUNT(*)", runs))


def sums_in(
    chosen: Selection,
    runs: Sequence[BucketRun],
    names: Sequence[str] = COUNTS,
    *,
    by: str = "value",
) -> dict[Any, list[int]]:
    """Some counts added up by the database, for each value or each `start`. Sketches are what takes
    long."""
    # MariaDB's sums are decimals, which are slow to read.
    sums = ", ".join(f"CAST(SUM({name}) AS SIGNED)" for name in names)
    found: dict[Any, list[int]] = {}
    # MariaDB would otherwise sort the groups.
    for group, *counts in chosen.select(f"{by}, {sums}", runs, f" GROUP BY {by} ORDER BY NULL"):
        known = found.get(group)
        found[group] = counts if known is None else [*map(add, known, counts)]
    return found


def is_timed(chosen: Selection, runs: Sequence[BucketRun]) -> bool:
    """Whether all sketches are read; for very many values in a long time only counts are."""
    return len(chosen.values or ()) <= 1 or count_in(chosen, runs) <= MAX_WITHIN


def by_start(
    chosen: Selection, runs: Sequence[BucketRun], *, timed: bool
) -> Iterator[tuple[int, Counted]]:
    """The counts of each bucket by its start, with sketches if `timed`."""
    if timed:
        yield from ((start, counted) for start, _value, counted in rows_in(chosen, runs))
    else:
        for start, counts in sums_in(chosen, runs, by="start").items():
            yield start, (*counts, b"", b"")


def total_counts(chosen: Selection, runs: Sequence[BucketRun]) -> list[Counted]:
    """All counts in the runs."""
    timed = is_timed(chosen, runs)
    return [counted for _start, counted in by_start(chosen, runs, timed=timed)]


# --- groups ---------------------------------------------------------------------------------------
class First(NamedTuple):
    """The first `limit` groups, sorted by a count or the success rate, descending with a `-`;
    by anything else, those with the largest totals."""

    limit: int
    by: str = ""


class Groups(NamedTuple):
    """All counts, and those of each value. `left_out` are the values beyond the limit, in order;
    only the `timed` largest groups have sketches, or all (None)."""

    total: list[Counted]
    found: dict[str, list[Counted]]
    left_out: list[str]
    timed: int | None


def by_value(chosen: Selection, runs: Sequence[BucketRun], first: First | None) -> Groups:
    # The total of a limited view is the total of what it may see.
    everything = chosen if chosen.values is not None else Selection(chosen.source, ALL)
    total = total_counts(everything, runs)
    if first is not None:
        ranked = _ranked(sums_in(chosen, runs, _ranking(first)), first)
        some = chosen._replace(values=tuple(ranked[: first.limit]))
        return Groups(total, _grouped(rows_in(some, runs)), ranked[first.limit :], None)
    if count_in(chosen, runs) <= MAX_READ:
        return Groups(total, _grouped(rows_in(chosen, runs)), [], None)
    sums = sums_in(chosen, runs)
    each = sum((run.end - run.start) // run.level for run in runs)
    timed = min(MAX_NAMED, max(1, MAX_READ // each))
    some = chosen._replace(values=tuple(_ranked(sums, First(timed))[:timed]))
    found = {value: [(*counts, b"", b"")] for value, counts in sums.items()}
    found |= _grouped(rows_in(some, runs))
    return Groups(total, found, [], timed)


def _ranking(first: First) -> tuple[str, ...]:
    """The counts by which the groups are ranked."""
    name = first.by.lstrip("-")
    if name == RATE:
        return _RATED
    return (name if name in COUNTS else TOTAL,)


def _ranked(sums: Mapping[str, Sequence[int]], first: First) -> list[str]:
    """The values in the order of `first`; `sums` are the counts of `_ranking`."""
    is_known = first.by.lstrip("-") in (*COUNTS, RATE)
    sign = 1 if is_known and not first.by.startswith("-") else -1
    # There may be very many tasks, and numbers sort faster than pairs with names.
    names = sorted(sums)
    if _ranking(first) != _RATED:
        return sorted(names, key={value: sign * sums[value][0] for value in names}.__getitem__)
    rates = {
        value: success_rate(**dict(zip(_RATED, counts, strict=True)))
        for value, counts in sums.items()
    }
    rated = [value for value in names if rates[value] is not None]
    rated.sort(key=lambda value: sign * (rates[value] or 0))
    return [*rated, *(value for value in names if rates[value] is None)]


def _grouped(rows: Iterable[tuple[int, str, Counted]]) -> dict[str, list[Counted]]:
    groups: dict[str, list[Counted]] = {}
    for _start, value, counted in rows:
        groups.setdefault(value, []).append(counted)
    return groups
