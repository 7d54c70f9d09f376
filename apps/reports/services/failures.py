"""The errors of a period, grouped by job type or task and error key."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from itertools import pairwise
from typing import Any, NamedTuple

from apps.common import ids
from apps.common.chunks import chunks
from apps.common.db import fetch, fetch_each, force_index, placeholders, table
from apps.common.lookups import folding
from apps.common.masking import redact
from apps.journal.services.minutes import instant_of, second_of
from apps.reports.models import ErrorGroup, Rollup
from apps.reports.rules import coverage
from apps.reports.rules.coverage import BucketRun
from apps.reports.rules.outcomes import SOURCES
from apps.reports.rules.tally import ERROR, OTHER, Error, error_of, error_value
from apps.reports.services.coverage import Stored
from apps.reports.services.rows import Selection, run_conditions

_KEYS_AT_ONCE = 500
# Long steps begin at multiples of one of these.
_GRAINS = (coverage.MINUTE, coverage.QUARTER, coverage.HOUR, coverage.DAY)
# If there are more types or tasks, all rows are read and filtered here.
_MAX_NAMED = 200
# If there are more errors, only the most frequent ones are searched for a text.
MAX_SEARCHED = 2_000
# The order: highest count, last seen, or first seen most recently first.
BY_COUNT, NEWEST, NEW = "count", "last", "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error in a period: its total, how many were final, and the number in each step.

    `first_seen`, `last_seen`, the sample and the number of its job or dispatch are those of all
    time. The errors of a type beyond the limit (rules.tally) are one failure with the key OTHER and
    without a sample; its times are those of the period, as precise as the rollups.
    """

    source: str
    type_or_task: str
    error_key: str
    total: int
    final: int
    trend: tuple[int, ...]
    first_seen: datetime
    last_seen: datetime
    sample: str
    subject_id: int


@dataclass(frozen=True, slots=True)
class Failures:
    """The first errors of [start, as_of): the period as far as it is added up, cut as stored
    buckets allow. There are `count` errors, which occurred `total` times. Where a text was searched
    for, not `are_all_searched` if there were more than MAX_SEARCHED.

    Error groups that are no longer kept (REPORT_ERRORS_KEPT) are counted but not listed.
    """

    groups: tuple[Failure, ...]
    count: int
    total: int
    start: datetime
    as_of: datetime
    are_all_searched: bool = True


class _Sum(NamedTuple):
    """How often an error occurred, and how often it was final."""

    total: int
    final: int


class _Seen(NamedTuple):
    """The first and the last journal id of an error."""

    first: int
    last: int


_Sums = Mapping[Error, _Sum]
# The total and the final failures, by source and value.
_Counted = Mapping[tuple[str, str], Sequence[int]]
_KEYS: Mapping[str, Callable[[_Sum, _Seen], Any]] = {
    BY_COUNT: lambda found, seen: (found.total, seen.last),
    NEWEST: lambda _found, seen: seen.last,
    NEW: lambda _found, seen: seen.first,
}


def failures(
    start: datetime,
    end: datetime,
    *,
    steps: int,
    limit: int,
    order: str = BY_COUNT,
    sources: Sequence[str] = SOURCES,
    type_or_task: str = "",
    text: str = "",
    stored: Stored | None = None,
) -> Failures:
    """The first errors (`limit` ≤ 200) of [start, end), optionally of one type or task, or with a
    text in their newest occurrence.

    The trend has `steps` equal steps, except that long ones begin at full hours or days (UTC) and
    none is finer than the stored buckets. `stored` is read when it is not given.
    """
    stored = stored or Stored.read()
    edges = _edges(second_of(start), second_of(end), steps, stored.kept_from)
    first = stored.beginning
    if first is None:
        return Failures((), 0, 0, instant_of(edges[0]), instant_of(edges[0]))
    parts = [(max(low, first), high) for low, high in pairwise(edges)]
    runs, left = stored.cover([part for part in parts if part[0] < part[1]])
    as_of = edges[-1]
    if left:
        as_of = max(edges[0], left[0][0])
        runs = coverage.cut_at(runs, as_of)
    # The whole period takes longer buckets than its steps.
    whole, _left = stored.cover([(max(edges[0], first), as_of)])
    every = _counted(whole, sources, type_or_task)
    are_all = not text or len(every) <= MAX_SEARCHED
    if text:
        every = _with_text(text, _most_frequent(every, MAX_SEARCHED))
    sums = _sums(_most_frequent(every, limit) if order == BY_COUNT else every)
    seen = _seen(runs, sums)
    listed = nlargest(limit, seen, lambda error: _KEYS[order](sums[error], seen[error]))
    trends = _trends(runs, listed, edges)
    newest = dict(group_columns(listed, "sample", "subject_id"))
    groups = tuple(
        Failure(
            source=source,
            type_or_task=name,
            error_key=key,
            total=sums[error].total,
            final=sums[error].final,
            trend=tuple(trends[error]),
            first_seen=ids.made_at(seen[error].first),
            last_seen=ids.made_at(seen[error].last),
            sample=sample,
            subject_id=subject_id,
        )
        for error in listed
        for source, name, key in [error]
        for sample, subject_id in [newest.get(error, ("", 0))]
    )
    total = sum(count for count, _final in every.values())
    return Failures(groups, len(every), total, instant_of(edges[0]), instant_of(as_of), are_all)


def _edges(start: int, end: int, steps: int, kept: Mapping[int, int]) -> list[int]:
    """The edges of the steps; inner ones at starts of long buckets, so that few rows are read."""
    length = (end - start) // steps
    grain = max(level for level in _GRAINS if level <= max(length, coverage.MINUTE))
    inner = [
        coverage.floor(start + (end - start) * step // steps, grain) for step in range(1, steps)
    ]
    return [coverage.snapped(edge, kept) for edge in (start, *inner, end)]


def _counted(runs: Sequence[BucketRun], sources: Sequence[str], type_or_task: str) -> _Counted:
    """The sums of the stored counts in the runs."""
    condition = f"dimension = %s AND source IN ({placeholders(len(sources))})"
    parameters, index = [ERROR, *sources], force_index("PRIMARY")
    if type_or_task:
        # Everything after the colon; longer names with a colon are filtered below. Which index is
        # better depends on how many other rows there are.
        condition += " AND value >= %s AND value < %s"
        parameters += [f"{type_or_task}:", f"{type_or_task};"]
        index = ""
    parts = (
        (
            "SELECT source, value, total, failed + timed_out + expired "
            f"FROM {table(Rollup)}{index} WHERE {chosen} AND {condition}",
            (*edges, *parameters),
        )
        for chosen, edges in run_conditions(runs)
    )
    found: dict[tuple[str, str], list[int]] = {}
    # Adding up in MariaDB takes three times as long as reading the rows.
    for source, value, total, final in fetch_each(parts):
        sums = found.get((source, value))
        if sums is None:
            found[source, value] = [total, final]
        else:
            sums[0] += total
            sums[1] += final
    if type_or_task:
        return {each: n for each, n in found.items() if error_of(each[1])[0] == type_or_task}
    return found


def _most_frequent(counted: _Counted, limit: int) -> _Counted:
    """The errors that can be among the first `limit`, including all with equal totals."""
    least = min(nlargest(limit, (total for total, _ in counted.values())), default=0)
    return {each: sums for each, sums in counted.items() if sums[0] >= least}


def _with_text(text: str, counted: _Counted) -> _Counted:
    """The errors that have the text, in letters of either case, in their shown sample."""
    samples = dict(group_columns(_sums(counted), "sample"))
    wanted = re.compile(folding(text))
    return {
        (source, value): sums
        for (source, value), sums in counted.items()
        if wanted.search(redact(samples.get((source, *error_of(value)), [""])[0]))
    }


def _sums(counted: _Counted) -> dict[Error, _Sum]:
    return {(source, *error_of(value)): _Sum(*sums) for (source, value), sums in counted.items()}


def _seen(runs: Sequence[BucketRun], sums: _Sums) -> dict[Error, _Seen]:
    """The first and last sight of these errors; errors no longer kept are left out. The runs are of
    the finest buckets."""
    found: dict[Error, _Seen] = {}
    for source, values in _values(error for error in sums if error[2] == OTHER).items():
        chosen = Selection(source, ERROR, values)
        columns = "value, MIN(start), MAX(start)"
        for value, *starts in chosen.select(columns, runs, " GROUP BY value"):
            error = (source, *error_of(value))
            first, last = (ids.lowest_id_at(instant_of(at)) for at in starts)
            seen = found.get(error, _Seen(first, last))
            found[error] = _Seen(min(first, seen.first), max(last, seen.last))
    for error, span in group_columns(sums, "first_entry", "last_entry"):
        found[error] = _Seen(*span)
    return found


def _values(errors: Iterable[Error]) -> dict[str, tuple[str, ...]]:
    """The values in the rollups, by source."""
    values: dict[str, list[str]] = {}
    for source, name, key in errors:
        values.setdefault(source, []).append(error_value(name, key))
    return {source: tuple(some) for source, some in values.items()}


def group_columns(errors: Collection[Error], *columns: str) -> Iterator[tuple[Error, list[Any]]]:
    """These columns of the groups of these errors, as far as they are kept. One key may belong to
    very many types or tasks."""
    keys = sorted({key for _source, _name, key in errors})
    names = sorted({name for _source, name, _key in errors})
    for parameters in chunks(keys, _KEYS_AT_ONCE):
        condition = f"error_key IN ({placeholders(len(parameters))})"
        if len(names) <= _MAX_NAMED:
            condition += f" AND type_or_task IN ({placeholders(len(names))})"
            parameters += names
        rows = fetch(
            f"SELECT source, type_or_task, error_key, {', '.join(columns)} "
            f"FROM {table(ErrorGroup)} WHERE {condition}",
            parameters,
        )
        for source, name, key, *values in rows:
            if (source, name, key) in errors:
                yield (source, name, key), values


def _trends(
    runs: Sequence[BucketRun], errors: Sequence[Error], edges: Sequence[int]
) -> dict[Error, list[int]]:
    """The number of each error between the edges."""
    steps = len(edges) - 1
    found = {error: [0] * steps for error in errors}
    for source, values in _values(errors).items():
        chosen = Selection(source, ERROR, values)
        for start, value, total in chosen.select("start, value, total", runs):
            found[source, *error_of(value)][bisect_right(edges, start) - 1] += total
    return found
