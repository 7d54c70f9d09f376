"""What went wrong in a period, by what it has in common: job type or task, and error."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from apps.common import ids
from apps.common.db import fetch_each, marks, table
from apps.reports.models import ErrorGroup, Rollup
from apps.reports.rules import cover
from apps.reports.rules.cover import Run
from apps.reports.rules.outcomes import SOURCES
from apps.reports.rules.tally import ERROR, OTHER, Error, error_of
from apps.reports.services.stretches import (
    beginning,
    cover_by_stored,
    instant_of,
    kept_from,
    second_of,
)

_KEYS_AT_ONCE = 500


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
    """Errors of [start, as_of), the period as far as it is added up and can be cut; all of them, in
    no order."""

    groups: tuple[Failure, ...]
    start: datetime
    as_of: datetime


def failures(
    start: datetime,
    end: datetime,
    *,
    steps: int,
    sources: Sequence[str] = SOURCES,
    type_or_task: str = "",
) -> Failures:
    """The errors of [start, end), of one type or task if it is named; `steps` equal ones of time
    make the trend, as far as kept stretches can be cut so."""
    kept = kept_from()
    length = end - start
    edges = [
        cover.snapped(second_of(start + length * step / steps), kept) for step in range(steps + 1)
    ]
    first = beginning(kept)
    if first is None:
        return Failures((), instant_of(edges[0]), instant_of(edges[0]))
    parts = [(max(low, first), high) for low, high in pairwise(edges)]
    runs, left = cover_by_stored([part for part in parts if part[0] < part[1]])
    as_of = edges[-1]
    if left:
        as_of = max(edges[0], left[0][0])
        runs = cover.before(runs, as_of)
    counted: dict[Error, tuple[list[int], list[int], list[int]]] = {}
    for at, source, value, total, for_good in _rows(runs, sources, type_or_task):
        name, key = error_of(value)
        if type_or_task and name != type_or_task:
            continue
        trend, ended, seen = counted.setdefault((source, name, key), ([0] * steps, [0], []))
        trend[min(bisect_right(edges, at), steps) - 1] += total
        ended[0] += for_good
        seen.append(at)
    groups = tuple(
        Failure(
            source=group.source,
            type_or_task=group.type_or_task,
            error_key=group.error_key,
            total=sum(trend),
            for_good=ended[0],
            trend=tuple(trend),
            first_seen=ids.made_at(group.first_entry),
            last_seen=ids.made_at(group.last_entry),
            sample=group.sample,
            subject_id=group.subject_id,
        )
        for group in _groups(sorted({key for _source, _name, key in counted} - {OTHER}))
        if (found := counted.get((group.source, group.type_or_task, group.error_key)))
        for trend, ended, _seen in [found]
    )
    rest = tuple(
        Failure(
            source=source,
            type_or_task=name,
            error_key=OTHER,
            total=sum(trend),
            for_good=ended[0],
            trend=tuple(trend),
            first_seen=instant_of(min(seen)),
            last_seen=instant_of(max(seen)),
            sample="",
            subject_id=0,
        )
        for (source, name, key), (trend, ended, seen) in counted.items()
        if key == OTHER
    )
    return Failures(groups + rest, instant_of(edges[0]), instant_of(as_of))


def _rows(
    runs: Sequence[Run], sources: Sequence[str], type_or_task: str
) -> Iterator[tuple[int, str, str, int, int]]:
    """(start, source, value, total, for good) of the stored counts in the runs."""
    condition = f"dimension = %s AND source IN ({marks(len(sources))})"
    parameters = [ERROR, *sources]
    if type_or_task:
        # Whatever follows the colon; a longer name with one is left out afterwards.
        condition += " AND value >= %s AND value < %s"
        parameters += [f"{type_or_task}:", f"{type_or_task};"]
    select = (
        "SELECT start, source, value, total, failed + timed_out + expired "  # noqa: S608
        f"FROM {table(Rollup)} WHERE level = %s AND start >= %s AND start < %s AND {condition}"
    )
    return fetch_each((select, (*run, *parameters)) for run in runs)


def _groups(keys: Sequence[str]) -> Iterator[ErrorGroup]:
    for at in range(0, len(keys), _KEYS_AT_ONCE):
        yield from ErrorGroup.objects.filter(error_key__in=keys[at : at + _KEYS_AT_ONCE])
