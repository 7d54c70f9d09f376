"""A recurrence in plain words, in the language of the reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import time

from cronsim import CronSim

from apps.common.messages import Message, Param
from apps.common.messages import Message as _
from apps.dispatch.rules.cron import Cron, Fields, fields_of
from apps.dispatch.rules.recurrence import EveryDays, EveryMinutes, Rule, Unreadable, clock

# The expression itself is shown if it has more than these.
MAX_TIMES = 6
MAX_PARTS = 8

_WEEKDAYS = (
    _("Monday"),
    _("Tuesday"),
    _("Wednesday"),
    _("Thursday"),
    _("Friday"),
    _("Saturday"),
    _("Sunday"),
)
_MONTHS = (
    _("January"),
    _("February"),
    _("March"),
    _("April"),
    _("May"),
    _("June"),
    _("July"),
    _("August"),
    _("September"),
    _("October"),
    _("November"),
    _("December"),
)
# The number of a weekday in its month; the last one is the fifth at times.
_ORDINALS = {
    1: _("the first {weekday} of {months}"),
    2: _("the second {weekday} of {months}"),
    3: _("the third {weekday} of {months}"),
    4: _("the fourth {weekday} of {months}"),
    5: _("the fifth {weekday} of {months}"),
    CronSim.LAST: _("the last {weekday} of {months}"),
}
_DAILY = _("daily")


class _NotPlain(Exception):
    """The rule has no short plain words."""


def summary(rule: Rule, zone: str) -> Message:
    """The rule in words, with the name of its zone if it follows local time."""
    words = in_words(rule)
    if isinstance(rule, EveryMinutes | Unreadable):
        return words
    return _("{rule}, {zone}", rule=words, zone=zone)


def in_words(rule: Rule) -> Message:
    """The rule in words, whatever its zone."""
    if isinstance(rule, EveryMinutes):
        return _every(rule.minutes)
    if isinstance(rule, EveryDays):
        return _every_days(rule.days, rule.at)
    if isinstance(rule, Unreadable):
        return _("cannot be read and is never due: {why}", why=rule.why)
    return _cron(rule)


def _every(minutes: int) -> Message:
    if minutes == 1:
        return _("every minute")
    if minutes == 60:
        return _("every hour")
    if minutes % 60 == 0:
        return _("every {count} hours", count=minutes // 60)
    return _("every {count} minutes", count=minutes)


def _every_days(days: int, at: time) -> Message:
    times = clock(at)
    if days == 1:
        return _("{days} at {times}", days=_DAILY, times=times)
    return _("every {count} days at {times}", count=days, times=times)


def _cron(rule: Cron) -> Message:
    fields = fields_of(rule.expression)
    try:
        days = _days(fields)
        if len(fields.times) <= MAX_TIMES:
            times = _listed([_clock(seconds) for seconds in fields.times])
            return _("{days} at {times}", days=days, times=times)
        often = _often(fields)
    except _NotPlain:
        return _("cron {expression}", expression=rule.expression)
    if days == _DAILY:
        return often
    return _("{often}, {days}", often=often, days=days)


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}"


def _often(fields: Fields) -> Message:
    """More instants in a day than can be listed."""
    minutes, hours = fields.minutes, fields.hours
    at_one_minute = len(minutes) == 1
    period = 60 if at_one_minute else _period(minutes, 60)
    every_hour = len(hours) == 24
    if period and every_hour:
        if not at_one_minute:
            return _every(period)
        return _("every hour at minute {minute}", minute=minutes[0])
    if period and len(_runs(hours)) == 1:
        first, last = _clock(fields.times[0]), _clock(fields.times[-1])
        return _(
            "{often} from {first} to {last}",
            often=_every(period),
            first=first,
            last=last,
        )
    if at_one_minute and (hourly := _period(hours, 24)):
        return _("every {count} hours at minute {minute}", count=hourly, minute=minutes[0])
    if period and not at_one_minute:
        return _(
            "{often} of the hours {hours}",
            often=_every(period),
            hours=_numbers(hours),
        )
    at = _numbers(minutes)
    if every_hour:
        return _("minutes {minutes} of every hour", minutes=at)
    of = _numbers(hours)
    if at_one_minute:
        return _("minute {minute} of the hours {hours}", minute=at, hours=of)
    return _("minutes {minutes} of the hours {hours}", minutes=at, hours=of)


def _period(numbers: Sequence[int], whole: int) -> int | None:
    """n, when the numbers are 0, n, 2n and so on and come round evenly."""
    period = whole // len(numbers)
    return period if [*numbers] == [*range(0, whole, period)] else None


def _days(fields: Fields) -> Param:
    any_day = fields.days >= {*range(1, 32)}
    any_weekday = fields.weekdays >= {*range(7)}
    every_day = any_day and any_weekday if fields.needs_both else any_day or any_weekday
    if every_day:
        if len(fields.months) == 12:
            return _DAILY
        return _("daily in {months}", months=_months(fields))
    if any_day:
        return _weekdays(fields)
    if any_weekday:
        return _month_days(fields)
    if fields.needs_both:
        raise _NotPlain
    return _("{days} or {weekdays}", days=_month_days(fields), weekdays=_weekdays(fields))


def _months(fields: Fields) -> Param:
    if len(fields.months) == 12:
        return _("the month")
    return _ranges([month - 1 for month in sorted(fields.months)], _MONTHS)


def _month_days(fields: Fields) -> Message:
    months = _months(fields)
    if fields.days == {CronSim.LAST}:
        return _("the last day of {months}", months=months)
    if fields.days == {CronSim.LAST_WEEKDAY}:
        return _("the last working day of {months}", months=months)
    if min(fields.days) < 0:
        raise _NotPlain
    days = _numbers(sorted(fields.days))
    if len(fields.days) == 1:
        return _("day {days} of {months}", days=days, months=months)
    return _("days {days} of {months}", days=days, months=months)


def _weekdays(fields: Fields) -> Param:
    plain = sorted({(day - 1) % 7 for day in fields.weekdays if isinstance(day, int)})
    counted = [day for day in fields.weekdays if isinstance(day, tuple)]
    if not plain and len(counted) == 1:
        weekday, number = counted[0]
        name = _WEEKDAYS[(weekday - 1) % 7]
        return Message(_ORDINALS[number], weekday=name, months=_months(fields))
    if counted:
        raise _NotPlain
    names = _ranges(plain, _WEEKDAYS)
    if len(_runs(plain)) == 1 and len(plain) > 2:
        days = names
    else:
        days = _("every {weekdays}", weekdays=names)
    if len(fields.months) == 12:
        return days
    return _("{days} in {months}", days=days, months=_months(fields))


def _ranges(numbers: Sequence[int], names: Sequence[Param]) -> Param:
    """`Monday to Wednesday and Friday`: three and more in a row by the ends alone."""
    parts: list[Param] = []
    for first, last in _runs(numbers):
        if last - first < 2:
            parts += [names[number] for number in range(first, last + 1)]
        else:
            ends = {"first": names[first], "last": names[last]}
            parts.append(_("{first} to {last}", **ends))
    return _listed(parts)


def _numbers(numbers: Sequence[int]) -> Param:
    return _ranges(numbers, range(60))


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last of each unbroken row."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _listed(parts: Sequence[Param]) -> Param:
    """`a`, `a and b`, `a, b and c`."""
    if len(parts) > MAX_PARTS:
        raise _NotPlain
    *others, last = parts
    if not others:
        return last
    first, *rest = others
    for part in rest:
        first = _("{first}, {rest}", first=first, rest=part)
    return _("{items} and {last}", items=first, last=last)
