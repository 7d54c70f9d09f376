"""A shift in time as people write it, `+2h`, `-30m` or `+1d12h`, and what it makes of a task."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

from apps.common.durations import SECONDS
from apps.common.errors import Invalid
from apps.common.messages import Message as _
from apps.dispatch.rules.recurrence import Recurrence

MAX_SHIFT = timedelta(days=366)

_SHIFT = re.compile(r"([+-]?)((?:[0-9]{1,9}[smhdw])+)")
_PART = re.compile(r"([0-9]+)([smhdw])")


def parse_shift(text: str, *, field: str = "by") -> timedelta:
    """The shift, later without a sign; Invalid when it is none, nothing, or more than MAX_SHIFT.

    A day is always 24 hours.
    """
    match = _SHIFT.fullmatch("".join(text.split()).lower())
    if match is None:
        raise Invalid.field(
            field,
            _("{text!r} is not a shift; write for example +2h, -30m or +1d12h.", text=text[:40]),
        )
    sign = -1 if match[1] == "-" else 1
    seconds = sum(int(count) * SECONDS[unit] for count, unit in _PART.findall(match[2]))
    if not 0 < seconds <= MAX_SHIFT.total_seconds():
        raise Invalid.field(
            field,
            _(
                "{text!r} is out of range; shift by one second to {limit} days.",
                text=text[:40],
                limit=MAX_SHIFT.days,
            ),
        )
    return timedelta(seconds=sign * seconds)


def written_shift(seconds: int) -> str:
    """The shift as people write it: `+1d12h`."""
    text, left = "-" if seconds < 0 else "+", abs(seconds)
    for unit in "wdhms":
        count, left = divmod(left, SECONDS[unit])
        text += f"{count}{unit}" if count else ""
    return text


def shifted(
    start_at: datetime, end_at: datetime | None, by: timedelta
) -> tuple[datetime, datetime | None]:
    """Both times, moved by the same length; Invalid beyond the calendar."""
    try:
        return start_at + by, end_at and end_at + by
    except OverflowError as error:
        message = _("That lies beyond the calendar; shift by less.")
        raise Invalid.field("start_at", message) from error


def is_moved(series: Recurrence, by: timedelta, now: datetime) -> bool:
    """Whether the shifted series would be due at other times from `now` on."""
    start_at, end_at = shifted(series.start_at, series.end_at, by)
    return not series.is_same_from(now, replace(series, start_at=start_at, end_at=end_at))
