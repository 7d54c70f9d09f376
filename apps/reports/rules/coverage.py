"""Rollup buckets: their levels, how long each level is kept, and how buckets cover a period.

Instants are UTC epoch seconds. A bucket of a level starts at a multiple of the level's seconds.
Quarters of an hour exist because hours of some time zones start at :15, :30 or :45 UTC. Four hours
and eight days keep reports short: with them a day of any zone and a quarter of a year are few rows.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

MINUTE, QUARTER, HOUR, FOUR_HOURS, DAY, EIGHT_DAYS = 60, 900, 3600, 14_400, 86_400, 691_200
LEVELS = (MINUTE, QUARTER, HOUR, FOUR_HOURS, DAY, EIGHT_DAYS)
# The level that each level is summed from; minutes are counted from the journal.
PART = dict(zip(LEVELS[1:], LEVELS, strict=False))
WHOLE = {part: whole for whole, part in PART.items()}
# Finer levels are removed after a while; days and longer buckets stay.
_REMOVED = tuple(level for level in LEVELS if level < DAY)

Range: TypeAlias = tuple[int, int]


class BucketRun(NamedTuple):
    """Neighbouring buckets of one level: [start, end)."""

    level: int
    start: int
    end: int


def floor(instant: int, level: int) -> int:
    """The start of the bucket of the level that contains the instant."""
    return instant - instant % level


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The instants of the ranges as ascending, disjoint ranges."""
    found: list[Range] = []
    for start, end in sorted(each for each in ranges if each[0] < each[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


# --- covering a period by stored buckets ----------------------------------------------------------
def spans(ranges: Iterable[Range], level: int, *, limit: int) -> list[Range]:
    """The parts of the ascending, disjoint ranges that whole buckets of the level fill.

    More than `limit` parts become one, from the first to the last.
    """
    found: list[Range] = []
    for each in ranges:
        whole = _whole(each, level)
        if whole is None:
            continue
        if found and found[-1][1] == whole[0]:
            found[-1] = (found[-1][0], whole[1])
        else:
            found.append(whole)
    return found if len(found) <= limit else [(found[0][0], found[-1][1])]


def fitting(ranges: Sequence[Range]) -> list[int]:
    """The levels whose buckets can fit into the ranges, the longest first."""
    longest = max((end - start for start, end in ranges), default=0)
    return [level for level in reversed(LEVELS) if level <= longest]


def wanted(ranges: Iterable[Range], *, limit: int) -> dict[int, list[Range]]:
    """The spans of each level, provided that all buckets of the coarser levels are stored."""
    left = list(ranges)
    found: dict[int, list[Range]] = {}
    for level in fitting(left):
        found[level] = spans(left, level, limit=limit)
        left = [part for each in left for part in _around(each, level)]
    return found


def is_inside(part: Range, ranges: Iterable[Range]) -> bool:
    """Whether one of the ranges contains the whole part."""
    return any(start <= part[0] and part[1] <= end for start, end in ranges)


def take(
    ranges: Iterable[Range], level: int, stored: Container[int]
) -> tuple[list[BucketRun], list[Range]]:
    """Cover the ranges by stored buckets of the level, given by their starts.

    Returns the runs and the ranges that are left. The ranges are ascending and disjoint. A run may
    cross their edges, a bucket never does.
    """
    runs: list[BucketRun] = []
    left: list[Range] = []
    for each in ranges:
        whole = _whole(each, level)
        if whole is None:
            left.append(each)
            continue
        at = each[0]
        for start in range(*whole, level):
            if start not in stored:
                continue
            if at < start:
                left.append((at, start))
            if runs and runs[-1].end == start:
                runs[-1] = runs[-1]._replace(end=start + level)
            else:
                runs.append(BucketRun(level, start, start + level))
            at = start + level
        if at < each[1]:
            left.append((at, each[1]))
    return runs, left


def cut_at(runs: Iterable[BucketRun], end: int) -> list[BucketRun]:
    """The runs cut at an instant, which is a boundary of their buckets."""
    return [run._replace(end=min(run.end, end)) for run in runs if run.start < end]


def snapped(instant: int, kept_from: Mapping[int, int]) -> int:
    """The last boundary up to the instant at which stored buckets can be divided.

    `kept_from` is the start of the oldest stored bucket of each level.
    """
    for level in LEVELS:
        if level in kept_from and kept_from[level] <= instant:
            return floor(instant, level)
    return floor(instant, MINUTE)


def _around(within: Range, level: int) -> list[Range]:
    """The parts of the range before and after its whole buckets of the level."""
    whole = _whole(within, level)
    if whole is None:
        return [within]
    edges = [(within[0], whole[0]), (whole[1], within[1])]
    return [(start, end) for start, end in edges if start < end]


def _whole(within: Range, level: int) -> Range | None:
    start, end = -(-within[0] // level) * level, floor(within[1], level)
    return (start, end) if start < end else None


# --- how long each level is kept ------------------------------------------------------------------
def horizons(
    now: int, kept: Mapping[int, int], stored: Mapping[int, int] | None = None
) -> dict[int, int]:
    """The instant from which buckets of each removable level are kept for their `kept` seconds.

    Never earlier than the oldest `stored` bucket, if that is given. Each horizon is a start of a
    bucket of the next level, and no earlier than that of a coarser level: so a bucket is kept with
    all its parts or with none.
    """
    found: dict[int, int] = {}
    for level in reversed(_REMOVED):
        whole = WHOLE[level]
        # Stored finer buckets can be summed up.
        oldest = min((at for each, at in (stored or {}).items() if each <= level), default=0)
        oldest = -(-oldest // whole) * whole
        found[level] = max([floor(now - kept[level], whole), oldest, *found.values()])
    return found


def finest_at(second: int, since: Mapping[int, int]) -> int:
    """The finest level kept at an instant, given the horizons."""
    for level in _REMOVED:
        if second >= since[level]:
            return level
    return DAY


def start_at(second: int, since: Mapping[int, int]) -> int:
    """The start of the finest kept bucket that contains the instant."""
    return floor(second, finest_at(second, since))


def end_at(second: int, since: Mapping[int, int]) -> int:
    """The end of the finest kept bucket that contains the instant or ends there."""
    return start_at(second - 1, since) + finest_at(second - 1, since)


def finest(start: int, end: int, since: Mapping[int, int]) -> list[tuple[int, int]]:
    """The finest kept buckets in [start, end) as (level, start), ascending.

    `start` and `end` are boundaries of such buckets.
    """
    found = []
    at = start
    while at < end:
        level = finest_at(at, since)
        found.append((level, at))
        at += level
    return found
