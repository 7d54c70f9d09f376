"""The local minutes, hours and days of a period, including days on which clocks change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_QUARTER = timedelta(minutes=15)


class Bucket(NamedTuple):
    """[start, end) in UTC. `label` is the local day `2026-03-29`, or the local hour or minute with
    its offset `2026-03-29T03:00+02:00`."""

    label: str
    start: datetime
    end: datetime


def minutes(start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[Bucket]:
    """The minutes of [start, end); the first and the last are cut to it."""
    at, end = start.astimezone(UTC), end.astimezone(UTC)
    while at < end:
        label = at.replace(second=0, microsecond=0)
        following = min(label + _MINUTE, end)
        yield Bucket(label.astimezone(zone).isoformat(timespec="minutes"), at, following)
        at = following


def hours(start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[Bucket]:
    """The local hours of [start, end); the first and the last are cut to it.

    When clocks are put back by an hour, that hour occurs twice, with two offsets.
    """
    at, end = start.astimezone(UTC), end.astimezone(UTC)
    local = at.astimezone(zone)
    while at < end:
        following, shown = _next_hour(at, local, zone)
        label = local.isoformat(timespec="hours")
        label = f"{label[:13]}:00{label[13:]}"
        yield Bucket(label, at, min(following, end))
        at, local = following, shown


def days(start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[Bucket]:
    """The local days of [start, end), 23 to 25 hours long; the first and the last are cut to it."""
    at = start.astimezone(UTC)
    while at < end:
        following = _next_day(at, zone)
        label = at.astimezone(zone).date().isoformat()
        yield Bucket(label, at, min(following, end.astimezone(UTC)))
        at = following


def _next_hour(at: datetime, local: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The start of the next local hour, in UTC and in the zone; `local` is `at` in the zone."""
    full = at + _HOUR
    if local.minute or local.second or local.microsecond:
        full -= timedelta(
            minutes=local.minute, seconds=local.second, microseconds=local.microsecond
        )
    shown = full.astimezone(zone)
    if shown.utcoffset() == local.utcoffset():
        return full, shown
    # The clock changes in between, possibly by half an hour only.
    step = _ceiled(at)
    while True:
        shown = step.astimezone(zone)
        if shown.minute == 0 or _hour(shown) != _hour(local):
            return step, shown
        step += _QUARTER


def _next_day(at: datetime, zone: ZoneInfo) -> datetime:
    """The first instant with a later local date."""
    today = at.astimezone(zone).date()
    # No local day is longer, and the date never goes back once the next day has begun.
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
    """The next quarter of an hour in UTC: all clock changes of this century happen at one."""
    into = timedelta(minutes=at.minute % 15, seconds=at.second, microseconds=at.microsecond)
    return at - into + _QUARTER
