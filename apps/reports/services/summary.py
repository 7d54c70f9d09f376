"""The figures of a period, added up from the coarsest stored rollups.

    summarise("job", "type", Period(start, end, zone))

The time of an entry is the instant in which its id was made, within milliseconds of its `at`: so
every period is a range of the journal's primary key. Periods are cut at full minutes. Long ago,
where only coarser buckets are kept, they are cut at full quarters, hours or days (UTC).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from apps.common import clock
from apps.common.errors import Invalid
from apps.dispatch.models import Executor
from apps.journal.services.minutes import instant_of, second_of
from apps.reports.rules import buckets, coverage
from apps.reports.rules.coverage import BucketRun
from apps.reports.rules.outcomes import (
    COUNTS,
    DISPATCH,
    FLOW,
    JOB,
    SOURCES,
    STEP,
    success_rate,
)
from apps.reports.rules.sketch import percentiles
from apps.reports.rules.tally import ALL, DIMENSIONS, ERROR, EXECUTOR, HOST, TYPE, WORKER
from apps.reports.services.coverage import Stored
from apps.reports.services.rows import (
    Counted,
    First,
    Selection,
    by_start,
    by_value,
    is_timed,
    total_counts,
)

LONGEST = timedelta(days=400)
# Pages show only short periods by minute: each minute is a row.
LONGEST_BY_MINUTE = timedelta(hours=3)
MINUTE, HOUR, DAY, TASK = "minute", "hour", "day", "task"
# What the type of each source is called.
TYPES = {JOB: TYPE, DISPATCH: TASK, FLOW: "flow", STEP: "step"}
TIMES = (HOUR, DAY)
THROUGH_TIME = (MINUTE, *TIMES)
GROUPINGS = (*TYPES.values(), EXECUTOR, HOST, WORKER, HOUR, DAY)
# The dimension that an API key or an operator may be limited in.
LIMITED = {DISPATCH: EXECUTOR, JOB: TYPE, FLOW: TYPE, STEP: TYPE}
_BUCKETS = {MINUTE: buckets.minutes, HOUR: buckets.hours, DAY: buckets.days}
# How far (s) edges may be moved to those of stored buckets.
_MOVED = {MINUTE: 0, HOUR: 0, DAY: coverage.HOUR - 1}
# Dimensions that are no groupings; services.failures reads errors.
_NO_GROUPINGS = (ALL, ERROR)
# From this many rows on, the total is read again from longer buckets, which are fewer.
_MANY = 400


@dataclass(frozen=True, slots=True)
class Period:
    """[start, end), both aware; hours and days begin as in `zone`."""

    start: datetime
    end: datetime
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds, at most 2 % off; None without values."""

    p50: int | None
    p95: int | None
    p99: int | None


@dataclass(frozen=True, slots=True)
class Figures:
    """The ends of a group, by outcome (rules.outcomes).

    For jobs `total` is the sum of the other counts; for dispatches `retried` is not part of it.
    `start` is that of a minute, hour or day, else None. `wait` and `run` cover all ends that have
    these times.
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
        """Successes as a share of 1 of the ends that nobody forced; None without any."""
        return success_rate(
            succeeded=self.succeeded,
            failed=self.failed,
            timed_out=self.timed_out,
            expired=self.expired,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """Rows in order of time or by descending total; `total` is that of the whole period.

    The figures are those of [start, as_of): the period cut as stored buckets allow, and ended at
    the first minute that is not added up yet. `names` are the groups of all rows, those beyond the
    limit last. Only the first `timed` rows have percentiles, or all (None).
    """

    rows: tuple[Figures, ...]
    total: Figures
    start: datetime
    as_of: datetime
    names: Sequence[str]
    timed: int | None = None


_NOTHING: Counted = (*(0,) * len(COUNTS), b"", b"")


def figures_of(group: str, counted: Sequence[Counted], start: datetime | None = None) -> Figures:
    """The sum of the counts of a group."""
    *counts, waits, runs = zip(*counted or [_NOTHING], strict=True)
    return Figures(
        group,
        start,
        **dict(zip(COUNTS, map(sum, counts), strict=True)),
        wait=_percentiles(waits),
        run=_percentiles(runs),
    )


def _percentiles(packed: Sequence[bytes]) -> Percentiles:
    return Percentiles(*percentiles(packed, (0.5, 0.95, 0.99)))


def summarise(
    source: str,
    by: str,
    period: Period,
    *,
    only: tuple[str, str] | None = None,
    within: Collection[str] | None = None,
    first: First | None = None,
    stored: Stored | None = None,
) -> Summary:
    """The figures of a source by type, task, flow, step, executor, host, worker, hour or day, or of
    a short period by minute.

    `only` = ("type", "mail") limits hours or days, and their total, to one value of a dimension.
    `within` limits everything to some executors (dispatch), types, flows or steps. `first` limits
    the groups. Ends without a value, such as those of waiting jobs, which have no host, are only in
    the total. `stored` is read when it is not given. Raises Invalid.
    """
    chosen = _chosen(source, by, only, within)
    _check_period(period, LONGEST_BY_MINUTE if by == MINUTE else LONGEST)
    stored = stored or Stored.read()
    reach = _Reach.of(by, period, stored)
    left_out, timed = list[str](), None
    if by in THROUGH_TIME:
        has_times = is_timed(chosen, reach.runs)
        timed = None if has_times else 0
        in_parts = _through_time(chosen, reach, timed=has_times)
        rows = [
            figures_of(part.label, counted, instant_of(part.start))
            for part, counted in zip(reach.parts, in_parts, strict=True)
            if part.start < reach.end
        ]
        total = _total(chosen, reach, in_parts, stored)
    else:
        total, found, left_out, timed = by_value(chosen, reach.runs, first)
        rows = [figures_of(value, counted) for value, counted in found.items()]
        rows.sort(key=lambda row: (-row.total, row.group))
    start, end = instant_of(reach.parts[0].start), instant_of(reach.end)
    names = [*(row.group for row in rows), *left_out]
    return Summary(tuple(rows), figures_of("", total), start, end, names, timed)


def total_of(
    source: str,
    period: Period,
    *,
    only: tuple[str, str] | None = None,
    within: Collection[str] | None = None,
    stored: Stored | None = None,
) -> Figures:
    """The total of `summarise` by day."""
    chosen = _chosen(source, DAY, only, within)
    _check_period(period, LONGEST)
    return figures_of("", total_counts(chosen, _Reach.of("", period, stored or Stored.read()).runs))


def users_within(bound: Collection[str] | None) -> Collection[str] | None:
    """The users of these users and groups, for `within`; None for all."""
    if bound is None:
        return None
    return list(Executor.objects.within(bound).users().values_list("name", flat=True))


# --- validation -----------------------------------------------------------------------------------
def groupings(source: str) -> tuple[str, ...]:
    """The groupings of a source, as `by` names them."""
    names = (TYPES[source] if name == TYPE else name for name in DIMENSIONS[source])
    return (*(name for name in names if name not in _NO_GROUPINGS), *TIMES)


def _chosen(
    source: str, by: str, only: tuple[str, str] | None, within: Collection[str] | None
) -> Selection:
    if source not in SOURCES:
        raise Invalid.field(
            "source", f"{source!r:.60} is no source; write one of: {', '.join(SOURCES)}."
        )
    known = groupings(source)
    limit = None if within is None else LIMITED[source]
    if by not in THROUGH_TIME:
        dimension = _dimension(source, by, "by", known)
        if only is not None:
            raise Invalid.field("only", "Only hours and days can be narrowed to one value.")
        if limit not in (None, dimension):
            raise _beyond_limit("by", limit or "")
        return Selection(source, dimension, None if within is None else tuple(sorted(within)))
    if only is None:
        if within is None:
            return Selection(source, ALL)
        return Selection(source, limit or "", tuple(sorted(within)))
    dimension = _dimension(source, only[0], "only", known[: -len(TIMES)])
    if limit not in (None, dimension):
        raise _beyond_limit("only", limit or "")
    return Selection(source, dimension, (only[1],) if within is None or only[1] in within else ())


def _dimension(source: str, name: str, field: str, known: Sequence[str]) -> str:
    """`type` and what it is called are the same dimension."""
    dimension = TYPE if name == TYPES[source] else name
    if dimension not in DIMENSIONS[source] or dimension in _NO_GROUPINGS:
        raise Invalid.field(
            field,
            f"The figures of {source} are not kept by {name!r:.60}; use one of: "
            f"{', '.join(known)}.",
        )
    return dimension


def _beyond_limit(field: str, limit: str) -> Invalid:
    return Invalid.field(
        field,
        f"Keys and operators limited to some {limit}s see figures by {limit}, hour and day only.",
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


# --- the period -----------------------------------------------------------------------------------
class _Part(NamedTuple):
    """A bucket of the report or its whole period, cut as stored buckets allow; epoch seconds."""

    label: str
    start: int
    end: int


class _Reach(NamedTuple):
    """The parts of a period, the runs of stored buckets that cover them, and where those end."""

    parts: list[_Part]
    end: int
    runs: list[BucketRun]

    @classmethod
    def of(cls, by: str, period: Period, stored: Stored) -> _Reach:
        parts = _parts(by, period, stored)
        start, end = parts[0].start, parts[-1].end
        first = stored.beginning
        if first is None:
            return cls(parts, start, [])
        ranges = [(max(part.start, first), part.end) for part in parts]
        runs, left = stored.cover([each for each in ranges if each[0] < each[1]])
        if left:
            end = max(start, left[0][0])
            runs = coverage.cut_at(runs, end)
        return cls(parts, end, runs)


def _parts(by: str, period: Period, stored: Stored) -> list[_Part]:
    """The buckets of the report, or its whole period, cut where stored buckets can be divided."""
    make = _BUCKETS.get(by)
    whole = [buckets.Bucket("", period.start, period.end)]
    cut = whole if make is None else list(make(period.start, period.end, period.zone))
    edges = [second_of(bucket.start) for bucket in cut] + [second_of(cut[-1].end)]
    moved = [coverage.snapped(edge, stored.kept_from) for edge in edges]
    for edge, to in zip(edges[1:-1], moved[1:-1], strict=True):
        if edge - to > _MOVED[by]:
            since = instant_of(max(stored.kept_from.values())).isoformat(timespec="minutes")
            raise Invalid.field(
                "by",
                f"Around {instant_of(edge):%Y-%m-%d} figures are no longer kept as finely as by "
                f"{by} in {period.zone.key}; start later (since {since} all are), or choose a "
                "coarser grouping or another time zone.",
            )
    return [
        _Part(bucket.label, start, end)
        for bucket, start, end in zip(cut, moved, moved[1:], strict=False)
    ]


def _through_time(chosen: Selection, reach: _Reach, *, timed: bool) -> list[list[Counted]]:
    """The counts of each part."""
    found: list[list[Counted]] = [[] for _ in reach.parts]
    starts = [part.start for part in reach.parts]
    for start, counted in by_start(chosen, reach.runs, timed=timed):
        found[bisect_right(starts, start) - 1].append(counted)
    return found


def _total(
    chosen: Selection, reach: _Reach, in_parts: Sequence[Sequence[Counted]], stored: Stored
) -> list[Counted]:
    """The counts of all parts."""
    if sum(map(len, in_parts)) <= _MANY:
        return [each for part in in_parts for each in part]
    runs, _left = stored.cover([(reach.runs[0].start, reach.end)])
    return total_counts(chosen, runs)
