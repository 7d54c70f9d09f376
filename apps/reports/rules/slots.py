"""The local hours and days of a period, those on which clocks change included."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_QUARTER = timedelta(minutes=15)


class Slot(NamedTuple):
    """[start, end) in UTC; `label` is the local day `2026-03-29`, or the local hour or minute with
    its offset `2026-03-29T03:00+02:00`."""

    label: str
    start: datetime
    end: datetime


def minutes(start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[Slot]:
    """The minutes of [start, end), the first and last ones cut to it."""
    at, end = start.astimezone(UTC), end.astimezone(UTC)
    while at < end:
        label = at.replace(second=0, microsecond=0)
        following = min(label + _MINUTE, end)
        yield Slot(label.astimezone(zone).isoformat(timespec="minutes"), at, following)
        at = following


def hours(start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[Slot]:
    """The local hours of [start, end), the first and last ones cut to it.

    Where clocks are put back an hour, that hour comes twice, with two offsets.
    """
    at, end = start.astimezone(UTC), end.astimezone(UTC)
    local = at.astimezone(zone)
    while at < end:
        following, shown = _next_hour(at, local, zone)
        label = local.isoformat(timespec="hours")
        label = f"{label[:13]}:00{label[13:]}"
        yield Slot(label, at, min(following, end))
        at, local = following, shown


def days(start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[Slot]:
    """The local days of [start, end), the first and last ones cut to it; 23 to 25 hours long."""
    at = start.astimezone(UTC)
    while at < end:
        following = _next_day(at, zone)
        label = at.astimezone(zone).date().isoformat()
        yield Slot(label, at, min(following, end.astimezone(UTC)))
        at = following


def _next_hour(at: datetime, local: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Where the next local hour begins, in UTC and in the zone; `local` is `at` in the zone."""
    full = at + _HOUR
    if local.minute or local.second or local.microsecond:
        full -= timedelta(
            minutes=local.minute, seconds=local.second, microseconds=local.microsecond
        )
    shown = full.astimezone(zone)
    if shown.utcoffset() == local.utcoffset():
        return full, shown
    # The clock is changed on the way, perhaps by half an hour only.
    step = _ceiled(at)
    while True:
        shown = step.astimezone(zone)
        if shown.minute == 0 or _hour(shown) != _hour(local):
            return step, shown
        step += _QUARTER


def _next_day(at: datetime, zone: ZoneInfo) -> datetime:
    """The first instant whose local date is a later one."""
    today = at.astimezone(zone).date()
    # No local day is longer, and none goes on after the next one has begun.
    low, high = at, at + timedelta(hours=27)
    while high - low > _QUARTER:
        middle = low + (high - low) / 2
        if middle.astimezone(zone).date() > today:
            high = middle
        else:
            low = middle
    return _ceiled(low)


def _hour(local: datetime) -> tuple[int, int]:
    return local.toordinal(), local.hour


def _ceiled(at: datetime) -> datetime:
    """The next quarter of an hour, UTC: where all clocks of this century are changed."""
    into = timedelta(minutes=at.minute % 15, seconds=at.second, microseconds=at.microsecond)
    return at - into + _QUARTER
