"""Reading the totals: what ended in a period, put together from the coarsest stored stretches.

    summarise("job", "type", Period(start, end, zone))

The time of an entry is the instant in which its id was made, which is within milliseconds of its
`at`: so every stretch of time is a range of the journal's primary key. Periods are cut at full
minutes and, long ago, where only coarser stretches are kept, at full quarters, hours or days (UTC).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from apps.common import clock
from apps.common.errors import Invalid
from apps.dispatch.models import Executor
from apps.reports.rules import cover, slots
from apps.reports.rules.cover import Run
from apps.reports.rules.outcomes import (
    COUNTS,
    DISPATCH,
    EXPIRED,
    FAILED,
    JOB,
    SOURCES,
    SUCCEEDED,
    TIMED_OUT,
    TOTAL,
    success_rate,
)
from apps.reports.rules.tally import ALL, DIMENSIONS, ERROR, EXECUTOR, HOST, TYPE, WORKER
from apps.reports.services.figures import Figures, Period, Summary, figures_of
from apps.reports.services.stored import (
    MAX_NAMED,
    Chosen,
    Counted,
    count_in,
    rows_in,
    sums_in,
)
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
# Rows of totals whose histograms are read to tell many groups apart; beyond them the database adds
# up the counts, and the groups with the greatest ones are told how long they took.
MAX_READ = 20_000
# Rows whose histograms are read for the total of several values; beyond them it has counts alone.
MAX_WITHIN = 50_000
# So many rows of totals are worth another look for a shorter way to their sum.
_MANY = 400
RATE = "success_rate"
# What the rate of a group is made of.
_RATED = (SUCCEEDED, FAILED, TIMED_OUT, EXPIRED)


class First(NamedTuple):
    """So many groups: those that come first when all are sorted by a count or the success rate,
    with a `-` the greatest; by anything else, those with the greatest totals."""

    most: int
    by: str = ""


class _Part(NamedTuple):
    """An hour, a day or the whole period, cut as kept stretches allow; epoch seconds."""

    label: str
    start: int
    end: int


def summarise(
    source: str,
    by: str,
    period: Period,
    *,
    only: tuple[str, str] | None = None,
    within: Collection[str] | None = None,
    first: First | None = None,
) -> Summary:
    """The figures of `dispatch` or `job` by type, task, executor, host, worker, hour or day, or of
    a short period by minute.

    `only` = ("type", "mail") narrows hours or days, and their total, to one value of a dimension.
    `within` limits everything to some executors (dispatch) or types (job). `first` leaves out all
    but some groups. What ended without a value, as waiting jobs do without a host, is in the total
    only. Invalid names what cannot be.
    """
    chosen = _chosen(source, by, only, within)
    _check_period(period, LONGEST_BY_MINUTE if by == MINUTE else LONGEST)
    reach = _reach(by, period)
    left_out, timed = list[str](), None
    if by in THROUGH_TIME:
        is_timed = _is_timed(chosen, reach.runs)
        timed = None if is_timed else 0
        in_parts = _through_time(chosen, reach, is_timed=is_timed)
        rows = [
            figures_of(part.label, counted, instant_of(part.start))
            for part, counted in zip(reach.parts, in_parts, strict=True)
            if part.start < reach.end
        ]
        total = _total(chosen, reach, in_parts)
    else:
        total, found, left_out, timed = _by_value(chosen, reach.runs, first)
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
) -> Figures:
    """The total that `summarise` by day tells, and no more."""
    chosen = _chosen(source, DAY, only, within)
    _check_period(period, LONGEST)
    return figures_of("", _added_up(chosen, _reach("", period).runs))


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
) -> Chosen:
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
        return Chosen(source, dimension, None if within is None else tuple(sorted(within)))
    if only is None:
        if within is None:
            return Chosen(source, ALL)
        return Chosen(source, limit or "", tuple(sorted(within)))
    dimension = _dimension(source, only[0], "only", known[: -len(TIMES)])
    if limit not in (None, dimension):
        raise _beyond_limit("only", limit or "")
    return Chosen(source, dimension, (only[1],) if within is None or only[1] in within else ())


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


class _Reach(NamedTuple):
    """Of a period, its parts, up to where it is added up, and in which stored stretches."""

    parts: list[_Part]
    end: int
    runs: list[Run]


def _reach(by: str, period: Period) -> _Reach:
    kept = kept_from()
    parts = _parts(by, period, kept)
    start, end = parts[0].start, parts[-1].end
    first = beginning(kept)
    if first is None:
        return _Reach(parts, start, [])
    ranges = [(max(part.start, first), part.end) for part in parts]
    runs, left = cover_by_stored([each for each in ranges if each[0] < each[1]])
    if left:
        end = max(start, left[0][0])
        runs = cover.before(runs, end)
    return _Reach(parts, end, runs)


# --- reading ------------------------------------------------------------------------------------
def _is_timed(chosen: Chosen, runs: Sequence[Run]) -> bool:
    """Whether all histograms are read: of very many values in a long time, counts alone are."""
    return len(chosen.values or ()) <= 1 or count_in(chosen, runs) <= MAX_WITHIN


def _by_start(
    chosen: Chosen, runs: Sequence[Run], *, is_timed: bool
) -> Iterator[tuple[int, Counted]]:
    """What is counted in stretches, by their starts."""
    if is_timed:
        yield from ((start, counted) for start, _value, counted in rows_in(chosen, runs))
    else:
        for start, counts in sums_in(chosen, runs, by="start").items():
            yield start, (*counts, b"", b"")


def _through_time(chosen: Chosen, reach: _Reach, *, is_timed: bool) -> list[list[Counted]]:
    """What is counted in each part."""
    found: list[list[Counted]] = [[] for _ in reach.parts]
    starts = [part.start for part in reach.parts]
    for start, counted in _by_start(chosen, reach.runs, is_timed=is_timed):
        found[bisect_right(starts, start) - 1].append(counted)
    return found


def _total(chosen: Chosen, reach: _Reach, in_parts: Sequence[Sequence[Counted]]) -> list[Counted]:
    """What is counted in all parts."""
    if sum(map(len, in_parts)) <= _MANY:
        return [each for part in in_parts for each in part]
    # Longer stretches are the sums of shorter ones, and much fewer.
    runs, _left = cover_by_stored([(reach.runs[0].start, reach.end)])
    return _added_up(chosen, runs)


def _added_up(chosen: Chosen, runs: Sequence[Run]) -> list[Counted]:
    is_timed = _is_timed(chosen, runs)
    return [counted for _start, counted in _by_start(chosen, runs, is_timed=is_timed)]


class _Groups(NamedTuple):
    """What is counted in all, and of each value; the values that are left out, in order; and of how
    many with histograms if not of all: those with the greatest totals."""

    total: list[Counted]
    found: dict[str, list[Counted]]
    left_out: list[str]
    timed: int | None


def _by_value(chosen: Chosen, runs: Sequence[Run], first: First | None) -> _Groups:
    # Within a limit, the total is that of what can be seen.
    everything = chosen if chosen.values is not None else Chosen(chosen.source, ALL)
    total = _added_up(everything, runs)
    if first is not None:
        ranked = _ranked(sums_in(chosen, runs, _judged(first)), first)
        some = chosen._replace(values=tuple(ranked[: first.most]))
        return _Groups(total, _grouped(rows_in(some, runs)), ranked[first.most :], None)
    if count_in(chosen, runs) <= MAX_READ:
        return _Groups(total, _grouped(rows_in(chosen, runs)), [], None)
    sums = sums_in(chosen, runs)
    each = sum((run.end - run.start) // run.level for run in runs)
    timed = min(MAX_NAMED, max(1, MAX_READ // each))
    some = chosen._replace(values=tuple(_ranked(sums, First(timed))[:timed]))
    found = {value: [(*counts, b"", b"")] for value, counts in sums.items()}
    found |= _grouped(rows_in(some, runs))
    return _Groups(total, found, [], timed)


def _judged(first: First) -> tuple[str, ...]:
    """The counts that decide which groups come first."""
    name = first.by.lstrip("-")
    if name == RATE:
        return _RATED
    return (name if name in COUNTS else TOTAL,)


def _ranked(sums: Mapping[str, Sequence[int]], first: First) -> list[str]:
    """The values in the order in which `first` takes them; `sums` are of what is judged."""
    is_known = first.by.lstrip("-") in (*COUNTS, RATE)
    sign = 1 if is_known and not first.by.startswith("-") else -1
    # There may be very many tasks: numbers are sorted faster than pairs with names.
    names = sorted(sums)
    if _judged(first) != _RATED:
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
