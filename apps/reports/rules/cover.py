"""Levels of stored stretches, and how a period is put together from them.

Instants are UTC epoch seconds. A stretch of a level starts at a multiple of its seconds. Quarters
of an hour are there because the hours of some time zones begin at :15, :30 or :45 UTC; four hours
and eight days, because a report costs what it reads: a day of another zone, and a quarter of a
year, are few rows by them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

MINUTE, QUARTER, HOUR, FOUR_HOURS, DAY, EIGHT_DAYS = 60, 900, 3600, 14_400, 86_400, 691_200
LEVELS = (MINUTE, QUARTER, HOUR, FOUR_HOURS, DAY, EIGHT_DAYS)
# What a stretch of a level is summed from; a minute from the journal.
PART = dict(zip(LEVELS[1:], LEVELS, strict=False))
WHOLE = {part: whole for whole, part in PART.items()}

Range: TypeAlias = tuple[int, int]


class Run(NamedTuple):
    """Neighbouring stretches of one level: [start, end)."""

    level: int
    start: int
    end: int


def floor(instant: int, level: int) -> int:
    """The start of the stretch of the level in which the instant lies."""
    return instant - instant % level


def spans(ranges: Iterable[Range], level: int, *, most: int) -> list[Range]:
    """Where whole stretches of the level lie inside the ranges, which are ascending and apart;
    from the first to the last of them at once when that would be more than `most` spans."""
    found: list[Range] = []
    for each in ranges:
        whole = _whole(each, level)
        if whole is None:
            continue
        if found and found[-1][1] == whole[0]:
            found[-1] = (found[-1][0], whole[1])
        else:
            found.append(whole)
    return found if len(found) <= most else [(found[0][0], found[-1][1])]


def within_reach(ranges: Sequence[Range]) -> list[int]:
    """The levels of which whole stretches may lie in the ranges, the longest first."""
    longest = max((end - start for start, end in ranges), default=0)
    return [level for level in reversed(LEVELS) if level <= longest]


def wanted(ranges: Iterable[Range], *, most: int) -> dict[int, list[Range]]:
    """The spans of each level, if all stretches of the coarser ones were stored."""
    left = list(ranges)
    found: dict[int, list[Range]] = {}
    for level in within_reach(left):
        found[level] = spans(left, level, most=most)
        left = [part for each in left for part in _around(each, level)]
    return found


def lies_in(within: Range, ranges: Iterable[Range]) -> bool:
    """Whether the whole of it lies in one of the ranges."""
    return any(start <= within[0] and within[1] <= end for start, end in ranges)


def take(
    ranges: Iterable[Range], level: int, stored: Container[int]
) -> tuple[list[Run], list[Range]]:
    """What stored stretches of the level (their starts) cover of the ranges, and what is left.

    The ranges are ascending and apart; runs go on across their edges, stretches never do.
    """
    runs: list[Run] = []
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
                runs.append(Run(level, start, start + level))
            at = start + level
        if at < each[1]:
            left.append((at, each[1]))
    return runs, left


def before(runs: Iterable[Run], end: int) -> list[Run]:
    """The runs as far as they lie before an instant, which is a boundary of their stretches."""
    return [run._replace(end=min(run.end, end)) for run in runs if run.start < end]


def snapped(instant: int, kept_from: Mapping[int, int]) -> int:
    """The boundary nearest before the instant at which periods can be divided.

    `kept_from` tells since when stretches of each level are kept: long ago only the coarse ones.
    """
    for level in LEVELS:
        if level in kept_from and kept_from[level] <= instant:
            return floor(instant, level)
    return floor(instant, MINUTE)


def _around(within: Range, level: int) -> list[Range]:
    """What whole stretches of the level leave of the range."""
    whole = _whole(within, level)
    if whole is None:
        return [within]
    edges = [(within[0], whole[0]), (whole[1], within[1])]
    return [(start, end) for start, end in edges if start < end]


def _whole(within: Range, level: int) -> Range | None:
    start, end = -(-within[0] // level) * level, floor(within[1], level)
    return (start, end) if start < end else None
