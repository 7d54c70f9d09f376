"""What went wrong in a period, by what it has in common: job type or task, and error."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from itertools import pairwise
from typing import Any, NamedTuple

from apps.common import ids
from apps.common.db import fetch, fetch_each, force_index, placeholders, table
from apps.reports.models import ErrorGroup, Rollup
from apps.reports.rules import cover
from apps.reports.rules.cover import Run
from apps.reports.rules.outcomes import SOURCES
from apps.reports.rules.tally import ERROR, OTHER, Error, error_of, error_value
from apps.reports.services.stored import Chosen, within
from apps.reports.services.stretches import (
    beginning,
    cover_by_stored,
    instant_of,
    kept_from,
    second_of,
)

_KEYS_AT_ONCE = 500
# Long steps begin at full ones of these.
_GRAINS = (cover.MINUTE, cover.QUARTER, cover.HOUR, cover.DAY)
# So many types or tasks are named to the database; more are picked out of all that it gives.
_MAX_NAMED = 200
# The order: those that came most often, last, or are the newest of all time first.
MAX_OFTEN, NEWEST, NEW = "count", "last", "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error in a period: how often it came in all, how often for good, and in each step.

    When it was first and last seen, how it then read and of what (a job's or dispatch's number) is
    told of all time. Those of a type that are too many to be told apart are one, with the key OTHER
    and without a sample; when it was seen is told of the period, as finely as it is added up.
    """

    source: str
    type_or_task: str
    error_key: str
    total: int
    for_good: int
    trend: tuple[int, ...]
    first_seen: datetime
    last_seen: datetime
    sample: str
    subject_id: int


@dataclass(frozen=True, slots=True)
class Failures:
    """The first errors of [start, as_of), the period as far as it is added up and can be cut, in
    the order asked for; there are `count` in all, and they came `total` times.

    Those that have been forgotten since (REPORT_ERRORS_KEPT) are only counted.
    """

    groups: tuple[Failure, ...]
    count: int
    total: int
    start: datetime
    as_of: datetime


class _Sum(NamedTuple):
    """How often an error came, and for good."""

    total: int
    for_good: int


class _Seen(NamedTuple):
    """The first and the last entry of an error, as ids of the journal."""

    first: int
    last: int


_Sums = Mapping[Error, _Sum]
# By source and value: how often, and for good.
_Counted = Mapping[tuple[str, str], Sequence[int]]
_KEYS: Mapping[str, Callable[[_Sum, _Seen], Any]] = {
    MAX_OFTEN: lambda came, seen: (came.total, seen.last),
    NEWEST: lambda _came, seen: seen.last,
    NEW: lambda _came, seen: seen.first,
}


def failures(
    start: datetime,
    end: datetime,
    *,
    steps: int,
    most: int,
    order: str = MAX_OFTEN,
    sources: Sequence[str] = SOURCES,
    type_or_task: str = "",
) -> Failures:
    """The first errors (`most` ≤ 200) of [start, end), of one type or task if it is named.

    `steps` of time make the trend. They are equal, but that long ones begin at full hours or days
    (UTC), and none is finer than what is kept.
    """
    kept = kept_from()
    edges = _edges(second_of(start), second_of(end), steps, kept)
    first = beginning(kept)
    if first is None:
        return Failures((), 0, 0, instant_of(edges[0]), instant_of(edges[0]))
    parts = [(max(low, first), high) for low, high in pairwise(edges)]
    runs, left = cover_by_stored([part for part in parts if part[0] < part[1]])
    as_of = edges[-1]
    if left:
        as_of = max(edges[0], left[0][0])
        runs = cover.before(runs, as_of)
    # The whole period in longer stretches than fit into its steps.
    whole, _left = cover_by_stored([(max(edges[0], first), as_of)])
    every = _counted(whole, sources, type_or_task)
    sums = _sums(_most_often(every, most) if order == MAX_OFTEN else every)
    seen = _seen(runs, sums)
    told = nlargest(most, seen, lambda error: _KEYS[order](sums[error], seen[error]))
    trends = _trends(runs, told, edges)
    newest = dict(_known(told, "sample", "subject_id"))
    groups = tuple(
        Failure(
            source=source,
            type_or_task=name,
            error_key=key,
            total=sums[error].total,
            for_good=sums[error].for_good,
            trend=tuple(trends[error]),
            first_seen=ids.made_at(seen[error].first),
            last_seen=ids.made_at(seen[error].last),
            sample=sample,
            subject_id=subject_id,
        )
        for error in told
        for source, name, key in [error]
        for sample, subject_id in [newest.get(error, ("", 0))]
    )
    total = sum(count for count, _for_good in every.values())
    return Failures(groups, len(every), total, instant_of(edges[0]), instant_of(as_of))


def _edges(start: int, end: int, steps: int, kept: Mapping[int, int]) -> list[int]:
    """Where the steps begin and the last one ends; inner ones at coarse stretches, so that there
    are few to read."""
    length = (end - start) // steps
    grain = max(level for level in _GRAINS if level <= max(length, cover.MINUTE))
    inner = [cover.floor(start + (end - start) * step // steps, grain) for step in range(1, steps)]
    return [cover.snapped(edge, kept) for edge in (start, *inner, end)]


def _counted(runs: Sequence[Run], sources: Sequence[str], type_or_task: str) -> _Counted:
    """What the stored counts of the runs add up to."""
    condition = f"dimension = %s AND source IN ({placeholders(len(sources))})"
    parameters, index = [ERROR, *sources], force_index("PRIMARY")
    if type_or_task:
        # Whatever follows the colon; a longer name with one is left out afterwards. Which index is
        # the better one depends on how much else there is.
        condition += " AND value >= %s AND value < %s"
        parameters += [f"{type_or_task}:", f"{type_or_task};"]
        index = ""
    parts = (
        (
            "SELECT source, value, total, failed + timed_out + expired "
            f"FROM {table(Rollup)}{index} WHERE {chosen} AND {condition}",
            (*edges, *parameters),
        )
        for chosen, edges in within(runs)
    )
    found: dict[tuple[str, str], list[int]] = {}
    # MariaDB takes three times as long to add them up as to give them.
    for source, value, total, for_good in fetch_each(parts):
        known = found.get((source, value))
        if known is None:
            found[source, value] = [total, for_good]
        else:
            known[0] += total
            known[1] += for_good
    if type_or_task:
        return {each: sums for each, sums in found.items() if error_of(each[1])[0] == type_or_task}
    return found


def _most_often(counted: _Counted, most: int) -> _Counted:
    """Those among which the first `most` are, whichever of equals is the newer one."""
    least = min(nlargest(most, (total for total, _ in counted.values())), default=0)
    return {each: sums for each, sums in counted.items() if sums[0] >= least}


def _sums(counted: _Counted) -> dict[Error, _Sum]:
    return {(source, *error_of(value)): _Sum(*sums) for (source, value), sums in counted.items()}


def _seen(runs: Sequence[Run], sums: _Sums) -> dict[Error, _Seen]:
    """When these errors were seen; those that have been forgotten are left out. The runs are of the
    finest stretches that tell of it."""
    found: dict[Error, _Seen] = {}
    for source, values in _values(error for error in sums if error[2] == OTHER).items():
        chosen = Chosen(source, ERROR, values)
        select = f"SELECT value, MIN(start), MAX(start) FROM {chosen.table}"
        parts = (
            (f"{select} WHERE {condition} GROUP BY value", parameters)
            for condition, parameters in chosen.conditions(runs)
        )
        for value, *starts in fetch_each(parts):
            error = (source, *error_of(value))
            first, last = (ids.lowest_id_at(instant_of(at)) for at in starts)
            known = found.get(error, _Seen(first, last))
            found[error] = _Seen(min(first, known.first), max(last, known.last))
    for error, span in _known(sums, "first_entry", "last_entry"):
        found[error] = _Seen(*span)
    return found


def _values(errors: Iterable[Error]) -> dict[str, tuple[str, ...]]:
    """As the totals have them, by source."""
    values: dict[str, list[str]] = {}
    for source, name, key in errors:
        values.setdefault(source, []).append(error_value(name, key))
    return {source: tuple(some) for source, some in values.items()}


def _known(errors: Collection[Error], *columns: str) -> Iterator[tuple[Error, list[Any]]]:
    """What is known of these errors. Of one key there may be very many types or tasks."""
    keys = sorted({key for _source, _name, key in errors})
    names = sorted({name for _source, name, _key in errors})
    for at in range(0, len(keys), _KEYS_AT_ONCE):
        parameters = keys[at : at + _KEYS_AT_ONCE]
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
    runs: Sequence[Run], errors: Sequence[Error], edges: Sequence[int]
) -> dict[Error, list[int]]:
    """How often each of the errors came between the edges."""
    steps = len(edges) - 1
    found = {error: [0] * steps for error in errors}
    for source, values in _values(errors).items():
        chosen = Chosen(source, ERROR, values)
        select = f"SELECT start, value, total FROM {chosen.table}"
        parts = [
            (f"{select} WHERE {condition}", parameters)
            for condition, parameters in chosen.conditions(runs)
        ]
        for start, value, total in fetch_each(parts):
            found[source, *error_of(value)][bisect_right(edges, start) - 1] += total
    return found
