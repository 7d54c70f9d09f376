"""S0.4, S0.11, S0.22: how a rotation is written, when it is due, and how pages say it."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, time, timedelta
from itertools import islice, product
from typing import Any

import pytest
from hypothesis import given

from apps.common.errors import Invalid
from apps.common.zones import parse_zone
from apps.dispatch.rules.cron import Cron
from apps.dispatch.rules.recurrence import (
    EveryDays,
    EveryMinutes,
    Recurrence,
    Rule,
    due_and_next,
    instant_of,
    occurrence_of,
    parse_rule,
)
from apps.dispatch.rules.summary import summary
from apps.dispatch.rules.weekdays import MONTH, MONTH_DAYS, WEEK, WEEKDAYS, OnDays, days_of
from tests.unit.dispatch.test_calendar import CRON

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
HALF_HOURLY = EveryMinutes(30)
MICROSECOND = timedelta(microseconds=1)
ENDS_OF_THE_CALENDAR = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]


def plan(rule: Rule, zone: str = "UTC", **limits: Any) -> Recurrence:
    return Recurrence(rule=rule, zone=parse_zone(zone), **{"start_at": START, **limits})


def at(text: str) -> datetime:
    """`02 09:30`: a day of March 2026, UTC."""
    return datetime.strptime(f"2026 03 {text} +0000", "%Y %m %d %H:%M %z")


def after(recurrence: Recurrence, instant: datetime, count: int = 3) -> list[str]:
    return [f"{found:%d %H:%M}" for found in islice(recurrence.after(instant), count)]


def before(recurrence: Recurrence, instant: datetime, count: int = 3) -> list[str]:
    return [f"{found:%d %H:%M}" for found in islice(recurrence.before(instant), count)]


# --- the wire form --------------------------------------------------------------------------------
def test_rule_is_read(subtests: pytest.Subtests) -> None:
    for wire, rule in (
        ({"every_minutes": 1}, EveryMinutes(1)),
        ({"every_minutes": 527_040}, EveryMinutes(527_040)),
        ({"every_days": 1, "at": "00:00"}, EveryDays(1, time(0, 0))),
        ({"every_days": 366, "at": "23:59"}, EveryDays(366, time(23, 59))),
        ({"every_days": 2, "at": "09:30:15"}, EveryDays(2, time(9, 30, 15))),
        ({"cron": "0 9 * * 1-5"}, Cron("0 9 * * 1-5")),
    ):
        with subtests.test(wire=wire):
            assert parse_rule(wire) == rule


def test_wrong_rule_is_refused_with_its_field(subtests: pytest.Subtests) -> None:
    """I20: a space of zero among them."""
    for wire, field, said in (
        ({}, "rule", "A rule is needed: every_minutes"),
        ("0 9 * * *", "rule", "names no kind of rule"),
        ([{"every_minutes": 5}], "rule", "names no kind of rule"),
        ({"at": "09:30"}, "rule", "name exactly one: every_minutes, every_days with at, or cron"),
        ({"every_minutes": 5, "cron": "0 9 * * *"}, "rule", "names every_minutes and cron"),
        ({"every_minutes": 5, "every_days": 1, "at": "09:30"}, "rule", "and every_days"),
        ({"every_minutes": 5, "at": "09:30"}, "rule.at", "takes every_minutes alone"),
        ({"every_days": 5, "at": "09:30", "on": 1}, "rule.on", "takes every_days and at alone"),
        ({"every_minutes": 0}, "rule.every_minutes", "0 is not a whole number from 1 to 527040"),
        ({"every_minutes": 527_041}, "rule.every_minutes", "527041 is not"),
        ({"every_minutes": 30.0}, "rule.every_minutes", "30.0 is not"),
        ({"every_minutes": True}, "rule.every_minutes", "True is not"),
        ({"every_days": 0, "at": "09:30"}, "rule.every_days", "0 is not a whole number from 1"),
        ({"every_days": 367, "at": "09:30"}, "rule.every_days", "367 is not"),
        ({"every_days": 1}, "rule.at", "The time of day is missing; write 00:00 to 23:59"),
        ({"every_days": 1, "at": "24:00"}, "rule.at", "'24:00' is not a time"),
        ({"every_days": 1, "at": "9:30"}, "rule.at", "'9:30' is not a time"),
        ({"every_days": 1, "at": "09:30:60"}, "rule.at", "'09:30:60' is not a time"),
        ({"every_days": 1, "at": "09:30\n"}, "rule.at", "is not a time"),
        ({"every_days": 1, "at": "٠٩:٣٠"}, "rule.at", "is not a time"),
        ({"every_days": 1, "at": 930}, "rule.at", "930 is not a time"),
    ):
        with subtests.test(wire=wire):
            with pytest.raises(Invalid) as refusal:
                parse_rule(wire)
            assert [error.field for error in refusal.value.errors] == [field]
            assert said in str(refusal.value)


def test_wrong_rule_names_the_field_it_was_read_from() -> None:
    with pytest.raises(Invalid) as refusal:
        parse_rule({"cron": "x"}, field="rows[3].rule")

    assert refusal.value.errors[0].field == "rows[3].rule.cron"


# --- every K days ---------------------------------------------------------------------------------


def test_day_of_the_start_has_no_instant_before_the_start() -> None:
    rotation = plan(EveryDays(2, time(8, 59)))
    exact = plan(EveryDays(2, time(9, 0)))

    assert after(rotation, at("01 00:00"), 2) == ["04 08:59", "06 08:59"]
    assert before(rotation, at("04 08:00")) == []
    assert after(exact, at("01 00:00"), 2) == ["02 09:00", "04 09:00"]


def test_end_itself_is_not_due(subtests: pytest.Subtests) -> None:
    """S0.4: instants lie before end_at."""
    for wire, last in (
        ({"every_minutes": 30}, "02 10:30"),
        ({"cron": "*/30 * * * *"}, "02 10:30"),
        ({"cron": "0 11 * * *"}, None),
        ({"every_days": 1, "at": "11:00"}, None),
    ):
        with subtests.test(wire=wire):
            rotation = plan(parse_rule(wire), end_at=at("02 11:00"))
            assert before(rotation, at("09 00:00"), 1) == ([last] if last else [])
            assert after(rotation, at("02 10:31")) == []


def test_search_at_the_ends_of_the_calendar_ends(subtests: pytest.Subtests) -> None:
    """Nothing overflows and nothing runs for ever, however far the next instant is."""
    for wire, zone, start in product(
        (
            {"every_minutes": 527_040},
            {"every_days": 366, "at": "23:59"},
            {"cron": "0 0 29 2 *"},
            {"cron": "*/5 0 29 2 */7"},
        ),
        ("Pacific/Kiritimati", "Etc/GMT+12"),
        (*ENDS_OF_THE_CALENDAR, START),
    ):
        with subtests.test(wire=wire, zone=zone, start=start):
            rotation = plan(parse_rule(wire), zone, start_at=start)
            first, last = ENDS_OF_THE_CALENDAR
            assert list(rotation.before(first)) == list(rotation.after(last)) == []
            assert list(rotation.after(datetime(9990, 1, 1, tzinfo=UTC))) == sorted(
                instant for instant in rotation.before(last) if instant.year >= 9990
            )


def test_local_time_without_a_zone_is_no_instant() -> None:
    """I24: it would mean another instant on each machine."""
    with pytest.raises(TypeError):
        next(plan(HALF_HOURLY).after(datetime(2026, 3, 2)))


# --- what is due ----------------------------------------------------------------------------------


def test_occurrence_is_current_until_the_next_or_the_end(subtests: pytest.Subtests) -> None:
    """S0.22: and nothing is due outside of start and end."""
    for now, current, next_at in (
        (START - MICROSECOND, [], START),
        (START, [START], at("02 09:30")),
        (at("02 09:30") - MICROSECOND, [START], at("02 09:30")),
        (at("02 09:30"), [at("02 09:30")], at("02 10:00")),
        (at("02 10:15"), [at("02 10:00")], None),
        (at("02 10:20") - MICROSECOND, [at("02 10:00")], None),
        (at("02 10:20"), [], None),
        (at("09 00:00"), [], None),
    ):
        with subtests.test(now=now):
            rotation = plan(HALF_HOURLY, end_at=at("02 10:20"))
            found = due_and_next(rotation, now, misfire="skip", misfire_limit=1)
            assert found == (current, next_at)


def test_occurrence_is_known_by_its_second() -> None:
    """I19: and the second says when it is due."""
    assert occurrence_of(START) == 1_772_442_000
    assert instant_of(1_772_442_000) == START
    assert occurrence_of(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1
    assert instant_of(-1) == datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)


# --- in words -------------------------------------------------------------------------------------


def test_interval_and_days_in_words(subtests: pytest.Subtests) -> None:
    for wire, words in (
        ({"every_minutes": 1}, "every minute"),
        ({"every_minutes": 30}, "every 30 minutes"),
        ({"every_minutes": 60}, "every hour"),
        ({"every_minutes": 90}, "every 90 minutes"),
        ({"every_minutes": 1440}, "every 24 hours"),
        ({"every_days": 1, "at": "09:30"}, "daily at 09:30, Asia/Shanghai"),
        ({"every_days": 2, "at": "09:30"}, "every 2 days at 09:30, Asia/Shanghai"),
        ({"every_days": 7, "at": "09:30:15"}, "every 7 days at 09:30:15, Asia/Shanghai"),
    ):
        with subtests.test(wire=wire):
            assert str(summary(parse_rule(wire), "Asia/Shanghai")) == words


def test_cron_in_words(subtests: pytest.Subtests) -> None:
    for expression, words in (
        ("0 9 * * *", "daily at 09:00"),
        ("0,30 9,17 * * *", "daily at 09:00, 09:30, 17:00 and 17:30"),
        ("0 9 * * 1-5", "Monday to Friday at 09:00"),
        ("0 9 * * 1", "every Monday at 09:00"),
        ("0 9 * * 6,7", "every Saturday and Sunday at 09:00"),
        ("0 9 * * MON-WED,FRI", "every Monday to Wednesday and Friday at 09:00"),
        ("0 9 * 3-5,12 1", "every Monday in March to May and December at 09:00"),
        ("0 9 * * 2#3", "the third Tuesday of the month at 09:00"),
        ("0 9 * 6 5L", "the last Friday of June at 09:00"),
        ("0 9 1 * *", "day 1 of the month at 09:00"),
        ("0 9 1,15,20-25 * *", "days 1, 15 and 20 to 25 of the month at 09:00"),
        ("0 9 L * *", "the last day of the month at 09:00"),
        ("0 9 LW * *", "the last working day of the month at 09:00"),
        ("0 9 13 * 5", "day 13 of the month or every Friday at 09:00"),
        ("0 9 * 3 *", "daily in March at 09:00"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/15 * * * 6,7", "every 15 minutes, every Saturday and Sunday"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45, Monday to Friday"),
        ("*/15 8,12 * * *", "every 15 minutes of the hours 8 and 12"),
        ("5 * * * *", "every hour at minute 5"),
        ("30 9-17 * * *", "every hour from 09:30 to 17:30"),
        ("0 */2 * * *", "every 2 hours at minute 0"),
        ("0 */6 * * *", "daily at 00:00, 06:00, 12:00 and 18:00"),
        ("15,45 * * * *", "minutes 15 and 45 of every hour"),
        ("5 0-3,6,8,9 * * *", "minute 5 of the hours 0 to 3, 6, 8 and 9"),
        # 0, 7 … 56, and then 4 minutes: no even period, and too many to list.
        ("*/7 * * * *", "cron */7 * * * *"),
        ("0 9 */10 * 1", "cron 0 9 */10 * 1"),
        ("0 9 1,L * *", "cron 0 9 1,L * *"),
        ("0 9 * * 1,2#3", "cron 0 9 * * 1,2#3"),
    ):
        with subtests.test(expression=expression):
            assert str(summary(parse_rule({"cron": expression}), "UTC")) == f"{words}, UTC"


@given(CRON)
def test_every_cron_has_words_or_stands_for_itself(expression: str) -> None:
    words = str(summary(parse_rule({"cron": expression}), "UTC"))

    assert "{" not in words and words.endswith(", UTC")


# --- by boxes of days -----------------------------------------------------------------------------

SHOWN = {
    "0 9 * * 1,4": OnDays(WEEK, "09:00", ("1", "4")),
    "0 9 * * 1-5": OnDays(WEEK, "09:00", ("1", "2", "3", "4", "5")),
    "@weekly": OnDays(WEEK, "00:00", ("7",)),
    "30 23 * * sun": OnDays(WEEK, "23:30", ("7",)),
    "5 4 31 * *": OnDays(MONTH, "04:05", month_day="31"),
    "5 4 L * *": OnDays(MONTH, "04:05", month_day="L"),
}
# What boxes cannot say without losing something.
OTHER = (
    *("*/5 9 * * 1", "0 9,10 * * 1", "0 9 1 * 1", "0 9 * 6 1", "0 9 * * 1#2", "0 9 * * 5L"),
    *("0 9 LW * *", "0 9 1,15 * *", "0 9 * * *", "0 * * * 1", "0 9 * * */2", "61 9 * * 1"),
)


def test_what_is_chosen_is_shown_again() -> None:
    draw = random.Random(4)
    sizes = range(1, 8)
    weeks = [
        OnDays(WEEK, "09:05", days) for n in sizes for days in itertools.combinations(WEEKDAYS, n)
    ]
    months = [OnDays(MONTH, f"{draw.randrange(24):02}:59", month_day=day) for day in MONTH_DAYS]
    for chosen in (*weeks, *months):
        assert not [*chosen.faults()]
        parse_rule(chosen.rule)
        assert days_of(chosen.rule) == chosen


def test_stored_expressions_are_shown_as_days_only_when_nothing_is_lost(
    subtests: pytest.Subtests,
) -> None:
    for expression, shown in {**SHOWN, **dict.fromkeys(OTHER)}.items():
        with subtests.test(expression=expression):
            assert days_of({"cron": expression}) == shown
    assert days_of(None) is days_of({"every_minutes": 5}) is days_of({"cron": 5}) is None


def test_parts_that_make_no_rule_are_named(subtests: pytest.Subtests) -> None:
    wrong = {
        OnDays(WEEK, "09:00"): ["rule.weekdays"],
        OnDays(WEEK, "", ("8",)): ["rule.weekdays", "rule.at"],
        OnDays(WEEK, "09:00:30", ("1",)): ["rule.at"],
        OnDays(MONTH, "24:00", month_day="32"): ["rule.month_day", "rule.at"],
    }
    for parts, fields in wrong.items():
        with subtests.test(parts=parts):
            assert [fault.field for fault in parts.faults()] == fields
