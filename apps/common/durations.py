"""Durations: the seconds of their units, what people type, and their words."""

from __future__ import annotations

import re
from decimal import Decimal

from apps.common.messages import Message
from apps.common.messages import Message as _

# The units of settings, rates and shifts.
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_NAMES = {
    "d": ("d", "day", "days", "天", "日"),
    "h": ("h", "hr", "hrs", "hour", "hours", "小时", "时"),
    "m": ("m", "min", "mins", "minute", "minutes", "分", "分钟"),
    "s": ("s", "sec", "secs", "second", "seconds", "秒"),
}
_BY_NAME = {name: SECONDS[unit] for unit, names in _NAMES.items() for name in names}
_PART = re.compile(r"\s*(\d{1,10}(?:\.\d{1,6})?)\s*([^\W\d_]*)\s*")


def seconds_of(text: str) -> Decimal:
    """The seconds of `90`, `1 min 30 s`, `2h` or `1.5 d`; ValueError for any other text."""
    whole, place, parts = Decimal(), 0, 0
    while place < len(text):
        part = _PART.match(text, place)
        if part is None:
            raise ValueError(text)
        number, unit = Decimal(part[1]), part[2].lower()
        # A number alone is of seconds.
        is_alone = not parts and part.end() == len(text)
        if unit not in _BY_NAME and not (unit == "" and is_alone):
            raise ValueError(text)
        whole += number * _BY_NAME.get(unit, 1)
        place, parts = part.end(), parts + 1
    if not parts:
        raise ValueError(text)
    return whole


# Nobody means so many seconds, and of many more `Decimal` cannot tell the last unit.
_ENDLESS = 10**15


def in_units(seconds: Decimal) -> Message:
    """`2 d 3 h`, `1 min 30 s`, `0.5 s`: the duration to its last unit; `1E+300 s` beyond all."""
    if seconds >= _ENDLESS:
        return _("{count} s", count=f"{seconds:.3G}")
    days, left = divmod(seconds, SECONDS["d"])
    hours, left = divmod(left, SECONDS["h"])
    minutes, left = divmod(left, SECONDS["m"])
    parts = [_("{count} d", count=int(days))] if days else []
    parts += [_("{count} h", count=int(hours))] if hours else []
    parts += [_("{count} min", count=int(minutes))] if minutes else []
    if left or not parts:
        parts.append(_("{count} s", count=f"{left.normalize():f}"))
    text = parts.pop()
    for part in reversed(parts):
        text = _("{first} {rest}", first=part, rest=text)
    return text
