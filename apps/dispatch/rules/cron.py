"""Cron expressions with five fields, understood as Debian's cron does; the README states all.

cronsim parses them and knows which days match. Its own iteration is not used: it loses minutes
after a shift of half an hour and differs by direction.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache, partial
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from apps.common.errors import Invalid
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.zones import DAY, EPOCH, first_passes, steady, wall_at

MAX_CHARACTERS = 100
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# How many values each field has.
_SIZES = (60, 24, 31, 12, 7)

# All errors of cronsim about five fields, for translation.
FOUND_BY_CRONSIM = (
    _("Bad minute"),
    _("Bad hour"),
    _("Bad day-of-month"),
    _("Bad month"),
    _("Bad day-of-week"),
)

_EPOCH_DAY = EPOCH.toordinal()
# Leap years and common ones that begin on each day of the week.
_EVERY_KIND_OF_YEAR = range(2000, 2028)


class Fields:
    """The values that an expression names: minutes, hours, days of the month, months and weekdays.

    Days are as cronsim has them: beside numbers `CronSim.LAST` and `CronSim.LAST_WEEKDAY` of the
    month, and pairs of a weekday (0 and 7 are Sunday) and its number in the month. `needs_both`: a
    day must match both its fields, else one of them is enough.
    """

    def __init__(self, expression: str) -> None:
        parsed = CronSim(expression, datetime(2000, 1, 1))
        self.minutes = sorted(parsed.minutes)
        self.hours = sorted(parsed.hours)
        self.days = parsed.days
        self.months = parsed.months
        self.weekdays = parsed.weekdays
        self.needs_both = parsed.day_and
        minute, hour, *_ = expression.split()
        self.names_times = not (minute.startswith("*") or hour.startswith("*"))
        # Seconds after the local midnight.
        self.times = [3600 * hour + 60 * minute for hour in self.hours for minute in self.minutes]
        self._matches = parsed.match_day
        self._days_by_shape: dict[tuple[int, int], list[int]] = {}

    def days_of(self, year: int, month: int) -> list[int]:
        """The matching days of that month, ascending."""
        if month not in self.months:
            return []
        # Only these two differ between the Januaries of two years.
        shape = monthrange(year, month)
        days = self._days_by_shape.get(shape)
        if days is None:
            every = range(1, shape[1] + 1)
            days = [day for day in every if self._matches(date(year, month, day))]
            self._days_by_shape[shape] = days
        return days


@lru_cache(maxsize=4096)
def fields_of(expression: str) -> Fields:
    """The fields of an expression; CronSimError when it is none."""
    return Fields(expression)


@dataclass(frozen=True)
class Cron:
    """Due when the clock of the zone shows what the expression says.

    An expression that names its hours and minutes is due once for each of them: in a gap at the
    first valid moment after it, in a fold at the first pass. One whose hour or minute begins with
    `*` follows the clock: nothing in a gap, both passes of a fold.
    """

    expression: str

    def instants(
        self, zone: ZoneInfo, start: int, low: int, high: int, *, reverse: bool
    ) -> Iterator[int]:
        """The due instants in [low, high), ascending or in reverse; `start` does not matter."""
        if fields_of(self.expression).names_times:
            return first_passes(zone, partial(self._walls, reverse=reverse), low, high)
        return self._every_pass(zone, low, high, reverse=reverse)

    def phase(self, zone: ZoneInfo, start: int) -> int:
        """The same number for all starts: they do not matter."""
        return 0

    def _every_pass(self, zone: ZoneInfo, low: int, high: int, *, reverse: bool) -> Iterator[int]:
        while low < high:
            start, end = steady(zone, low, high, reverse=reverse)
            offset = wall_at(zone, start) - start
            wall = None
            for wall in self._walls(start + offset, end + offset, reverse=reverse):
                yield wall - offset
            if reverse:
                high = start
            else:
                low = end
            if wall is None:
                low, high = self._without_idle_days(low, high, reverse=reverse)

    def _without_idle_days(self, low: int, high: int, *, reverse: bool) -> tuple[int, int]:
        """[low, high) from near the first, or to near the last, date that matches."""
        # A local date lasts from at most a day before its date in UTC to a day after.
        days = self._days(low // DAY - 1, high // DAY + 1, reverse=reverse)
        day = next(days, None)
        if day is None:
            return high, high
        return (low, min(high, (day + 2) * DAY)) if reverse else (max(low, (day - 1) * DAY), high)

    def _walls(self, low: int, high: int, *, reverse: bool) -> Iterator[int]:
        """The matching walls in [low, high)."""
        times = fields_of(self.expression).times
        for day in self._days(low // DAY, (high - 1) // DAY, reverse=reverse):
            midnight = day * DAY
            inside = times[bisect_left(times, low - midnight) : bisect_left(times, high - midnight)]
            for time in reversed(inside) if reverse else inside:
                yield midnight + time

    def _days(self, low: int, high: int, *, reverse: bool) -> Iterator[int]:
        """The matching dates from `low` to `high`, both included, in days since 1970-01-01."""
        fields = fields_of(self.expression)
        months = range(_month(low), _month(high) + 1)
        for month in reversed(months) if reverse else months:
            year, index = divmod(month, 12)
            days = fields.days_of(year, index + 1)
            if not days:
                continue
            before = date(year, index + 1, 1).toordinal() - 1 - _EPOCH_DAY
            for day in reversed(days) if reverse else days:
                if low <= before + day <= high:
                    yield before + day


def _month(day: int) -> int:
    """Months since the year 0 of a date that is given in days since 1970-01-01."""
    moment = date.fromordinal(day + _EPOCH_DAY)
    return moment.year * 12 + moment.month - 1


def parse_cron(text: object, *, field: str) -> Cron:
    """The rule of an expression; Invalid when it is none or names no day that ever comes."""
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise Invalid.field(
            field,
            _(
                "A cron expression is a text of at most {limit} characters, for example "
                "0 9 * * 1-5; this is {this}.",
                limit=MAX_CHARACTERS,
                this=f"{text!r:.60}",
            ),
        )
    parts = NAMED.get(text.strip().lower(), text).upper().split()
    expression = " ".join(parts)
    if len(parts) != 5:
        raise Invalid.field(
            field,
            _(
                "{text!r} has {count} fields; write minute, hour, day of month, month and day of "
                "week, or one of {names}.",
                text=text,
                count=len(parts),
                names=", ".join(NAMED),
            ),
        )
    try:
        fields = fields_of(expression)
    except CronSimError as error:
        raise Invalid.field(
            field,
            _(
                "{text!r} means no time that ever comes: {error}. Write minute "
                "(0-59), hour (0-23), day of month (1-31), month (1-12) and day of week (0-7, 0 "
                "and 7 are Sunday).",
                text=text,
                error=Message(str(error)),
            ),
        ) from error
    if not any(
        fields.days_of(year, month) for year in _EVERY_KIND_OF_YEAR for month in fields.months
    ):
        raise Invalid.field(
            field,
            _(
                "The day of {text!r} never comes: no year has it. Change the day or the month.",
                text=text,
            ),
        )
    return Cron(expression)


def require_meaning(rule: Cron, *, field: str) -> None:
    """Invalid for a step that is no step. Rows of earlier releases may have one; it is ignored."""
    for part, size in zip(rule.expression.split(), _SIZES, strict=True):
        for term in part.split(","):
            of, _slash, step = term.partition("/")
            if step and of in ("L", "LW"):
                message = _("{term}: a last day has no steps; write {of} alone.", term=term, of=of)
                raise Invalid.field(field, message)
            if step and int(step) > size:
                message = _(
                    "{term}: its field has {size} values, so a step of {step} is none. Write a "
                    "step of at most {size}, or every_minutes for longer periods.",
                    term=term,
                    size=size,
                    step=step,
                )
                raise Invalid.field(field, message)
