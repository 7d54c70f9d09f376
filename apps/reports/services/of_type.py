"""How the jobs of one type went: lately, in a day, through a period, and why they failed for good.

All of it changes once a minute, when another one is added up, so it is kept until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from apps.common.ttl_cache import TTLCache
from apps.common.zones import start_of_day
from apps.reports.rules.outcomes import JOB
from apps.reports.rules.tally import TYPE
from apps.reports.services.coverage import Stored
from apps.reports.services.fact_sheet import LATELY
from apps.reports.services.failures import Failure, failures
from apps.reports.services.summary import (
    DAY,
    HOUR,
    MINUTE,
    Figures,
    Period,
    Summary,
    summarise,
    total_of,
)

A_DAY = timedelta(days=1)
# The steps of each period, and how many there are.
SPANS: Mapping[str, tuple[str, int]] = {
    "1h": (MINUTE, 60),
    "24h": (HOUR, 24),
    "7d": (HOUR, 7 * 24),
    "30d": (DAY, 30),
}
_LENGTHS = {MINUTE: timedelta(minutes=1), HOUR: timedelta(hours=1), DAY: A_DAY}
# Errors of the day that are looked at, the most frequent, and those that are shown.
_MAX_LOOKED_AT = 50
MAX_GROUPS = 5


class Past(NamedTuple):
    """The ends in the last LATELY and in the last day; both end at the newest minute that is
    added up."""

    lately: Figures
    day: Figures


_pasts: TTLCache[Past] = TTLCache(60.0)
_periods: TTLCache[Summary] = TTLCache(60.0)
_failures: TTLCache[tuple[Failure, ...]] = TTLCache(60.0)
CACHES: tuple[TTLCache[Any], ...] = (_pasts, _periods, _failures)


def past_of(type_: str, stored: Stored) -> Past | None:
    """The past of the type; None before the first minute is added up."""
    end = stored.closed_until
    return None if end is None else _pasts.get((type_, end), lambda: _past(type_, end, stored))


def _past(type_: str, end: datetime, stored: Stored) -> Past:
    day, lately = (
        total_of(JOB, Period(end - length, end, ZoneInfo("UTC")), only=(TYPE, type_), stored=stored)
        for length in (A_DAY, LATELY)
    )
    return Past(lately, day)


def through_time(type_: str, span: str, zone: ZoneInfo, stored: Stored) -> Summary | None:
    """The steps of one of SPANS up to now; None before the first minute is added up. Raises Invalid
    where the hours or days of the zone are not kept."""
    end = stored.closed_until
    if end is None:
        return None
    step, count = SPANS[span]
    period = Period(first_of(end, step, count, zone), end, zone)
    return _periods.get(
        (type_, span, zone, end),
        lambda: summarise(JOB, step, period, only=(TYPE, type_), stored=stored),
    )


def first_of(end: datetime, step: str, count: int, zone: ZoneInfo) -> datetime:
    """The start of the first of so many minutes, hours or days, the last of which ends at or after
    the instant."""
    local = (end - timedelta(microseconds=1)).astimezone(zone)
    last = local.replace(second=0, microsecond=0)
    if step != MINUTE:
        last = last.replace(minute=0)
    if step == DAY:
        # Days are counted by the clocks of the zone.
        return start_of_day(last) - A_DAY * (count - 1)
    return last.astimezone(ZoneInfo("UTC")) - _LENGTHS[step] * (count - 1)


def final_failures(type_: str, stored: Stored) -> tuple[Failure, ...]:
    """The errors of jobs of the type that failed for good in the last day, most frequent first."""
    end = stored.closed_until
    if end is None:
        return ()
    return _failures.get((type_, end), lambda: _final(type_, end, stored))


def _final(type_: str, end: datetime, stored: Stored) -> tuple[Failure, ...]:
    found = failures(
        end - A_DAY,
        end,
        steps=1,
        limit=_MAX_LOOKED_AT,
        sources=(JOB,),
        type_or_task=type_,
        stored=stored,
    )
    final = sorted((each for each in found.groups if each.final), key=lambda each: -each.final)
    return tuple(final[:MAX_GROUPS])
