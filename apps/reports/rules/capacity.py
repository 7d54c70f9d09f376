"""How much room the tables take, and when the database is full; bytes and days."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

# Below this number of rows the pages of a table are too few to say how large a row is.
MIN_ROWS = 10_000
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A table and what comes into it.

    `size` are its bytes, None for not known; `per_day` rows come a day, None for not known; each is
    kept for `kept`, None for ever. `assumed_bytes` are those of a usual row.
    """

    rows: int
    size: int | None
    per_day: float | None
    kept: timedelta | None
    assumed_bytes: int
    # Besides those that come, such as open jobs.
    standing: int = 0

    @property
    def is_assumed(self) -> bool:
        return self.size is None or self.rows < MIN_ROWS

    @property
    def row_bytes(self) -> float:
        """The bytes of a row with its part of the indexes."""
        if self.size is None or self.is_assumed:
            return float(self.assumed_bytes)
        return self.size / self.rows

    @property
    def bytes_a_day(self) -> float:
        return (self.per_day or 0.0) * self.row_bytes

    @property
    def at_rest(self) -> float | None:
        """The bytes once as many rows go as come; None when that is never."""
        if self.per_day is None:
            return float(self.size or 0)
        if self.kept is None:
            return None
        return (self.per_day * (self.kept / _DAY) + self.standing) * self.row_bytes

    @property
    def grows(self) -> bool:
        rest = self.at_rest
        return rest is None or self.size is None or rest > self.size


NEVER = float("inf")


def days_until_full(loads: Iterable[Load], *, size: int, max_size: int) -> float:
    """The days until the database reaches `max_size` at the present rate; NEVER if it rests
    before."""
    growing = [each for each in loads if each.grows]
    free = max_size - size
    if free <= 0:
        return 0.0
    to_come = 0.0
    for each in growing:
        rest = each.at_rest
        to_come += NEVER if rest is None else rest - (each.size or 0)
    rate = sum(each.bytes_a_day for each in growing)
    if to_come <= free or not rate:
        return NEVER
    return free / rate
