"""Rules of weekdays and of a day of the month: what people choose, stored as cron expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from apps.common.errors import FieldError, Invalid
from apps.common.messages import Message as _
from apps.dispatch.rules.cron import fields_of, parse_cron

# Of a week, as cron has them: Monday is 1, Sunday 7.
WEEKDAYS = tuple(str(day) for day in range(1, 8))
LAST_DAY = "L"
MONTH_DAYS = (*(str(day) for day in range(1, 32)), LAST_DAY)
WEEK, MONTH = "week", "month"

_MINUTE = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(:00)?")


class OnDays(NamedTuple):
    """`every` WEEK with `weekdays`, or MONTH with `month_day`; at the local time `at`, `09:00`."""

    every: str
    at: str
    weekdays: tuple[str, ...] = ()
    month_day: str = ""

    @property
    def rule(self) -> dict[str, Any]:
        """The rule to store, for parts that have no fault."""
        hour, minute = (int(part) for part in self.at.split(":")[:2])
        days = f"* * {','.join(sorted(self.weekdays))}"
        if self.every == MONTH:
            days = f"{self.month_day} * *"
        return {"cron": f"{minute} {hour} {days}"}

    def faults(self) -> Iterator[FieldError]:
        """The faults of the parts, for which they make no rule."""
        if self.every == WEEK and not set(self.weekdays) & {*WEEKDAYS}:
            message = _("Choose at least one day of the week.")
            yield FieldError("rule.weekdays", "invalid", message)
        if self.every == MONTH and self.month_day not in MONTH_DAYS:
            message = _("Choose a day of the month, 1 to 31 or the last one.")
            yield FieldError("rule.month_day", "invalid", message)
        if not self.at:
            message = _("The time of day is missing; write 00:00 to 23:59.")
            yield FieldError("rule.at", "invalid", message)
        elif not _MINUTE.fullmatch(self.at):
            message = _(
                "{this} is not a time of day in hours and minutes; write 00:00 to 23:59.",
                this=f"{self.at!r:.60}",
            )
            yield FieldError("rule.at", "invalid", message)


def days_of(rule: Any) -> OnDays | None:
    """The days and the time that a stored rule means; None for one that says more or less."""
    if not isinstance(rule, dict) or rule.keys() != {"cron"}:
        return None
    try:
        expression = parse_cron(rule["cron"], field="rule.cron").expression
    except Invalid:
        return None
    fields = fields_of(expression)
    minute, hour, day, month, weekday = expression.split()
    is_one_time = minute.isdigit() and hour.isdigit()
    if not is_one_time or month != "*":
        return None
    at = f"{int(hour):02}:{int(minute):02}"
    if weekday == "*":
        of_month = day if day == LAST_DAY else str(int(day)) if day.isdigit() else ""
        return OnDays(MONTH, at, month_day=of_month) if of_month else None
    plain = [each for each in fields.weekdays if isinstance(each, int)]
    if day != "*" or "*" in weekday or len(plain) < len(fields.weekdays):
        return None
    return OnDays(WEEK, at, tuple(sorted({str(each % 7 or 7) for each in plain})))
