"""What the clock of a zone shows, read minute by minute: the oracle of the calendar tests.

It searches where the rules reckon, and uses nothing of theirs.
"""

from __future__ import annotations

import calendar
import math
from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim

DAY = 86_400
ZONES = sorted(available_timezones() - {"localtime", "Factory"})
LOW = calendar.timegm((1970, 1, 1, 0, 0, 0))
HIGH = calendar.timegm((2038, 1, 1, 0, 0, 0))
AROUND = 30 * 3600
# Two changes of an offset that cancel each other within it would be overlooked; the nearest two of
# all zones are a week apart.
_STRIDE = 5 * DAY
_FIRST = datetime(1970, 1, 1)


class Transition(NamedTuple):
    """The second from which on an offset holds, and the offsets before and after it."""

    at: int
    before: int
    after: int


def wall(zone: ZoneInfo, second: int) -> int:
    """What the clock shows, in seconds since it showed 1970-01-01 00:00."""
    offset = datetime.fromtimestamp(second, zone).utcoffset()
    return second + offset.days * DAY + offset.seconds


@cache
def transitions(name: str) -> list[Transition]:
    """Every change of the zone's offset from 1970 to 2037."""
    zone = ZoneInfo(name)
    found = []
    for low, high in _unlike(zone):
        before = wall(zone, low) - low
        while high - low > 1:
            middle = (low + high) // 2
            if wall(zone, middle) - middle == before:
                low = middle
            else:
                high = middle
        found.append(Transition(high, before, wall(zone, high) - high))
    return found


def _unlike(zone: ZoneInfo) -> Iterable[tuple[int, int]]:
    known = datetime.fromtimestamp(LOW, zone).utcoffset()
    for second in range(LOW, HIGH, _STRIDE):
        offset = datetime.fromtimestamp(second, zone).utcoffset()
        if offset != known:
            known = offset
            yield second - _STRIDE, second


class Walls:
    """The walls of a period [low, high), on whose edges the offset stays for a day or more."""

    def __init__(self, zone: ZoneInfo, low: int, high: int, step: int = 60) -> None:
        self.instants = range(low, high, step)
        self.shown = [wall(zone, second) for second in self.instants]
        self.dates = sorted({shown // DAY for shown in self.shown})
        self._highest = list(accumulate(self.shown, max))

    @classmethod
    def around(cls, zone: ZoneInfo, transition: Transition) -> Walls:
        """The day before a transition and the day after it, with hours to spare."""
        step = math.gcd(60, *transition)
        return cls(zone, transition.at - AROUND, transition.at + AROUND, step)

    def first_passes(self, walls: Iterable[int]) -> list[int]:
        """For each wall the first instant at which the clock shows it, or else a later one.

        Dates that the clock never shows have none.
        """
        found = set()
        for wanted in walls:
            if wanted < self.shown[0] or wanted // DAY not in self.dates:
                continue
            position = bisect_left(self._highest, wanted)
            if position < len(self.instants):
                found.add(self.instants[position])
        return sorted(found)

    def every_pass(self, walls: Iterable[int]) -> list[int]:
        """Every instant at which the clock shows one of the walls."""
        wanted = set(walls)
        return [s for s, shown in zip(self.instants, self.shown, strict=True) if shown in wanted]

    def daily(self, minute_of_day: int) -> list[int]:
        """The instants of a time of day, one for each date."""
        return self.first_passes(day * DAY + minute_of_day * 60 for day in self.dates)

    def cron(self, expression: str) -> list[int]:
        """By cronsim on a clock without a zone, which it reads as well as any."""
        low, high = self.dates[0] * DAY, (self.dates[-1] + 1) * DAY
        walls = []
        for match in CronSim(expression, _FIRST + timedelta(seconds=low - 1)):
            walls.append(calendar.timegm(match.timetuple()))
            if walls[-1] >= high:
                break
        minute, hour, *_ = expression.split()
        follows_the_clock = minute.startswith("*") or hour.startswith("*")
        return self.every_pass(walls) if follows_the_clock else self.first_passes(walls)
