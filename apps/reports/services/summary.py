"""Reading the totals: what ended in a period, put together from the coarsest stored stretches.

    summarise("job", "type", Period(start, end, zone))

The time of an entry is the instant in which its id was made, which is within milliseconds of its
`at`: so every stretch of time is a range of the journal's primary key. Periods are cut at full
minutes and, long ago, where only coarser stretches are kept, at full quarters, hours or days (UTC).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from apps.common import clock
from apps.common.db import fetch_each, marks, table
from apps.common.errors import Invalid
from apps.dispatch.models import Executor
from apps.reports.models import Rollup
from apps.reports.rules import cover, slots
from apps.reports.rules.cover import Run
from apps.reports.rules.histogram import percentiles
from apps.reports.rules.outcomes import COUNTS, DISPATCH, JOB, SOURCES, success_rate
from apps.reports.rules.tally import ALL, DIMENSIONS, ERROR, EXECUTOR, HOST, TYPE, WORKER
from apps.reports.services.stretches import (
    beginning,
    cover_by_stored,
    instant_of,
    kept_from,
    second_of,
)

LONGEST = timedelta(days=400)
# By minute are short periods told only, to people: each would be a row of its own.
LONGEST_BY_MINUTE = timedelta(hours=3)
MINUTE, HOUR, DAY, TASK = "minute", "hour", "day", "task"
TIMES = (HOUR, DAY)
THROUGH_TIME = (MINUTE, *TIMES)
GROUPINGS = (TYPE, TASK, EXECUTOR, HOST, WORKER, HOUR, DAY)
# What an API key or an operator may be limited to.
LIMITED = {DISPATCH: EXECUTOR, JOB: TYPE}
# How far (s) edges may be moved to those of kept stretches.
_SLOTS = {MINUTE: slots.minutes, HOUR: slots.hours, DAY: slots.days}
_MOVED = {MINUTE: 0, HOUR: 0, DAY: cover.HOUR - 1}
# What figures are not told apart by here; services.failures tells of errors.
_NOT_TOLD_BY = (ALL, ERROR)
# So many values are named to the database; more are picked out of all that it gives.
_MOST_NAMED = 200
# Rows of totals whose histograms are read to tell many groups apart; beyond them the database adds
# up the counts, and the groups with the greatest ones are told how long they took.
MOST_READ = 20_000


@dataclass(frozen=True, slots=True)
class Period:
    """[start, end), both aware; `zone` decides where hours and days begin."""

    start: datetime
    end: datetime
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds, 2 % off at most; None of nothing."""

    p50: int | None
    p95: int | None
    p99: int | None


@dataclass(frozen=True, slots=True)
class Figures:
    """What ended in a group (rules.outcomes tells what counts as what).

    Of jobs `total` is the sum of the other counts; of dispatches `retried` comes beside it. `start`
    is that of an hour or day, else None. `wait` and `run` are those of all ends that have them.
    """

    group: str
    start: datetime | None
    total: int
    succeeded: int
    failed: int
    retried: int
    timed_out: int
    expired: int
    released: int
    cancelled: int
    stage_done: int
    wait: Percentiles
    run: Percentiles

    @property
    def success_rate(self) -> float | None:
        """The share of 1 that succeeded of what ended by itself; None when nothing did."""
        return success_rate(
            succeeded=self.succeeded,
            failed=self.failed,
            timed_out=self.timed_out,
            expired=self.expired,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """Rows in order of time, or the greatest total first; `total` is of the whole period.

    The figures are those of [start, as_of): the period cut as kept stretches allow, and ended where
    the first minute is not added up yet. `timed` is None, or how many of the first rows have their
    percentiles; there are too many to tell those of all.
    """

    rows: tuple[Figures, ...]
    total: Figures
    start: datetime
    as_of: datetime
    timed: int | None = None


class _Part(NamedTuple):
    """An hour, a day or the whole period, cut as kept stretches allow; epoch seconds."""

    label: str
    start: int
    end: int


class _Chosen(NamedTuple):
    """Which totals are read: those of one dimension, of these values unless None."""

    dimension: str
    values: tuple[str, ...] | None = None


def summarise(
    source: str,
    by: str,
    period: Period,
    *,
    only: tuple[str, str] | None = None,
    within: Collection[str] | None = None,
) -> Summary:
    """The figures of `dispatch` or `job` by type, task, executor, host, worker, hour or day, or of
    a short period by minute.

    `only` = ("type", "mail") narrows hours or days, and their total, to one value of a dimension.
    `within` limits everything to some executors (dispatch) or types (job). What ended without a
    value, as waiting jobs do without a host, is in the total only. Invalid names what cannot be.
    """
    chosen = _chosen(source, by, only, within)
    _check_period(period, LONGEST_BY_MINUTE if by == MINUTE else LONGEST)
    kept = kept_from()
    parts = _parts(by, period, kept)
    start, end = parts[0].start, parts[-1].end
    first = beginning(kept)
    runs: list[Run] = []
    if first is None:
        end = start
    else:
        ranges = [(max(part.start, first), part.end) for part in parts]
        runs, left = cover_by_stored([each for each in ranges if each[0] < each[1]])
        if left:
            end = max(start, left[0][0])
            runs = cover.before(runs, end)
    timed = None
    if by in THROUGH_TIME:
        whole, _left = cover_by_stored([(max(start, first or end), end)] if runs else [])
        total = [row.counted for row in _rows(source, (chosen.dimension,), chosen.values, whole)]
        in_parts = _through_time(source, chosen, runs, parts)
        rows = [
            _figures(part.label, counted, instant_of(part.start))
            for part, counted in zip(parts, in_parts, strict=True)
            if part.start < end
        ]
    else:
        if within is None:
            total, groups, timed = _by_value(source, chosen.dimension, runs)
        else:
            # Within a limit, the total is that of what can be seen.
            read = list(_rows(source, (chosen.dimension,), chosen.values, runs))
            total, groups = [row.counted for row in read], _grouped(read)
        rows = [_figures(value, counted) for value, counted in groups.items()]
        rows.sort(key=lambda row: (-row.total, row.group))
    return Summary(tuple(rows), _figures("", total), instant_of(start), instant_of(end), timed)


def users_within(bound: Collection[str] | None) -> Collection[str] | None:
    """The users that names of users and groups stand for, as `within` wants them; None for all."""
    if bound is None:
        return None
    return list(Executor.objects.within(bound).users().values_list("name", flat=True))


# --- what is asked for --------------------------------------------------------------------------
def groupings(source: str) -> tuple[str, ...]:
    """By what the figures of a source can be told apart, as `by` names it."""
    names = (TASK if source == DISPATCH and name == TYPE else name for name in DIMENSIONS[source])
    return (*(name for name in names if name not in _NOT_TOLD_BY), *TIMES)


def _chosen(
    source: str, by: str, only: tuple[str, str] | None, within: Collection[str] | None
) -> _Chosen:
    if source not in SOURCES:
        raise Invalid.field("source", f"{source!r:.60} is no source; write job or dispatch.")
    known = groupings(source)
    limit = None if within is None else LIMITED[source]
    if by not in THROUGH_TIME:
        dimension = _dimension(source, by, "by", known)
        if only is not None:
            raise Invalid.field("only", "Only hours and days can be narrowed to one value.")
        if limit not in (None, dimension):
            raise _beyond_limit("by", limit or "")
        return _Chosen(dimension, None if within is None else tuple(sorted(within)))
    if only is None:
        return _Chosen(ALL) if within is None else _Chosen(limit or "", tuple(sorted(within)))
    dimension = _dimension(source, only[0], "only", known[: -len(TIMES)])
    if limit not in (None, dimension):
        raise _beyond_limit("only", limit or "")
    return _Chosen(dimension, (only[1],) if within is None or only[1] in within else ())


def _dimension(source: str, name: str, field: str, known: Sequence[str]) -> str:
    """`type` and `task` are one: what is run."""
    dimension = TYPE if name == TASK else name
    if dimension not in DIMENSIONS[source] or dimension in _NOT_TOLD_BY:
        raise Invalid.field(
            field,
            f"The figures of {source} are not kept by {name!r:.60}; use one of: "
            f"{', '.join(known)}.",
        )
    return dimension


def _beyond_limit(field: str, limit: str) -> Invalid:
    return Invalid.field(
        field,
        f"Who is limited to some of all {limit}s sees figures by {limit}, hour and day only.",
    )


def _check_period(period: Period, longest: timedelta) -> None:
    if period.start >= period.end:
        raise Invalid.field("to", "The period ends before it begins; choose a later `to`.")
    if period.start > clock.now():
        raise Invalid.field("from", "The period has not begun yet; choose an earlier `from`.")
    if period.end - period.start > longest:
        hours = longest // timedelta(hours=1)
        length = f"{hours} hours" if hours < 24 else f"{longest.days} days"
        raise Invalid.field("to", f"The period is longer than {length}; choose a later `from`.")


def _parts(by: str, period: Period, kept: dict[int, int]) -> list[_Part]:
    """The period, or its hours or days, cut where stored stretches can be divided."""
    make = _SLOTS.get(by)
    whole = [slots.Slot("", period.start, period.end)]
    cut = whole if make is None else list(make(period.start, period.end, period.zone))
    edges = [second_of(slot.start) for slot in cut] + [second_of(cut[-1].end)]
    moved = [cover.snapped(edge, kept) for edge in edges]
    for edge, to in zip(edges[1:-1], moved[1:-1], strict=True):
        if edge - to > _MOVED[by]:
            since = instant_of(max(kept.values())).isoformat(timespec="minutes")
            raise Invalid.field(
                "by",
                f"Around {instant_of(edge):%Y-%m-%d} figures are no longer kept as finely as by "
                f"{by} in {period.zone.key}; start later (since {since} all are), or choose a "
                "coarser grouping or another time zone.",
            )
    return [
        _Part(slot.label, start, end)
        for slot, start, end in zip(cut, moved, moved[1:], strict=False)
    ]


# --- reading ------------------------------------------------------------------------------------
class _Counted(NamedTuple):
    """What a row of totals has counted."""

    counts: Sequence[int]
    wait: bytes
    run: bytes


class _Row(NamedTuple):
    """A row of totals."""

    start: int
    dimension: str
    value: str
    counted: _Counted


def _through_time(
    source: str, chosen: _Chosen, runs: Sequence[Run], parts: Sequence[_Part]
) -> list[list[_Counted]]:
    """What is counted in each part."""
    found: list[list[_Counted]] = [[] for _ in parts]
    starts = [part.start for part in parts]
    for row in _rows(source, (chosen.dimension,), chosen.values, runs):
        found[bisect_right(starts, row.start) - 1].append(row.counted)
    return found


def _by_value(
    source: str, dimension: str, runs: Sequence[Run]
) -> tuple[list[_Counted], dict[str, list[_Counted]], int | None]:
    """What is counted in all, and of each value; and of how many of them with histograms if not of
    all: those with the greatest totals."""
    total = [row.counted for row in _rows(source, (ALL,), None, runs)]
    rows = list(_rows(source, (dimension,), None, runs, most=MOST_READ + 1))
    if len(rows) <= MOST_READ:
        return total, _grouped(rows), None
    groups = _counts(source, dimension, runs)
    busiest = sorted(groups, key=lambda value: (-sum(c.counts[0] for c in groups[value]), value))
    each = sum((run.end - run.start) // run.level for run in runs)
    timed = min(_MOST_NAMED, max(1, MOST_READ // each))
    chosen = tuple(busiest[:timed])
    return total, groups | _grouped(_rows(source, (dimension,), chosen, runs)), timed


def _grouped(rows: Iterable[_Row]) -> dict[str, list[_Counted]]:
    groups: dict[str, list[_Counted]] = {}
    for row in rows:
        groups.setdefault(row.value, []).append(row.counted)
    return groups


def _counts(source: str, dimension: str, runs: Sequence[Run]) -> dict[str, list[_Counted]]:
    """What is counted of each value, without histograms."""
    select = (
        f"SELECT value, {', '.join(f'SUM({name})' for name in COUNTS)} FROM {table(Rollup)} "  # noqa: S608
        "WHERE level = %s AND start >= %s AND start < %s AND source = %s AND dimension = %s "
        "GROUP BY value"
    )
    groups: dict[str, list[_Counted]] = {}
    parts = ((select, (*run, source, dimension)) for run in runs)
    for value, *counts in fetch_each(parts):
        groups.setdefault(value, []).append(_Counted([*map(int, counts)], b"", b""))
    return groups


def _rows(
    source: str,
    dimensions: tuple[str, ...],
    values: tuple[str, ...] | None,
    runs: Sequence[Run],
    *,
    most: int | None = None,
) -> Iterator[_Row]:
    """The rows of totals in the runs, `most` of each.

    No entry of the journal is in two of them, whatever is added up anew meanwhile.
    """
    if values == ():
        return
    condition = f"source = %s AND dimension IN ({marks(len(dimensions))})"
    parameters = [source, *dimensions]
    wanted = None if values is None or len(values) <= _MOST_NAMED else set(values)
    if values is not None and wanted is None:
        condition += f" AND value IN ({marks(len(values))})"
        parameters += values
    select = (
        f"SELECT start, dimension, value, {', '.join(COUNTS)}, wait, run FROM {table(Rollup)} "  # noqa: S608
        f"WHERE level = %s AND start >= %s AND start < %s AND {condition}"
        + ("" if most is None else f" LIMIT {most}")
    )
    parts = ((select, (*run, *parameters)) for run in runs)
    for start, dimension, value, *counts, wait, run in fetch_each(parts):
        if wanted is None or value in wanted:
            yield _Row(start, dimension, value, _Counted(counts, wait, run))


# --- telling ------------------------------------------------------------------------------------
def _figures(group: str, counted: Sequence[_Counted], start: datetime | None = None) -> Figures:
    counts = map(sum, zip(*(each.counts for each in counted), strict=True))
    return Figures(
        group=group,
        start=start,
        **(dict(zip(COUNTS, counts, strict=True)) if counted else dict.fromkeys(COUNTS, 0)),
        wait=_percentiles([each.wait for each in counted]),
        run=_percentiles([each.run for each in counted]),
    )


def _percentiles(packed: Sequence[bytes]) -> Percentiles:
    return Percentiles(*percentiles(packed, (0.5, 0.95, 0.99)))
