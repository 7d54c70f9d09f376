"""A shift in time as people write it: `+2h`, `-30m`, `+1d12h`."""

from __future__ import annotations

import re
from datetime import timedelta

from apps.common.errors import Invalid
from apps.common.messages import Message as _

MAX_SHIFT = timedelta(days=366)

_SHIFT = re.compile(r"([+-]?)((?:[0-9]{1,9}[smhdw])+)")
_PART = re.compile(r"([0-9]+)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604_800}


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
    seconds = sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(match[2]))
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
