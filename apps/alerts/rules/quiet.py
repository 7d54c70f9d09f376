"""The quiet hours of a rule."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, time
from typing import NamedTuple
from zoneinfo import ZoneInfo


class QuietHours(NamedTuple):
    """From one local time to another, which may lie on the next day; `days` are those on which
    they begin, Monday is 1. From and to are equal: the whole day."""

    start: time
    end: time
    zone: str
    days: Collection[int]

    def has(self, now: datetime) -> bool:
        local = now.astimezone(ZoneInfo(self.zone))
        at, today = local.time(), local.isoweekday()
        yesterday = 7 if today == 1 else today - 1
        if self.start < self.end:
            return today in self.days and self.start <= at < self.end
        return (today in self.days and at >= self.start) or (
            yesterday in self.days and at < self.end
        )
