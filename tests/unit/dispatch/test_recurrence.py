"""S0.4, S0.11, S0.22: how a rotation is written, and when it is due."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from itertools import islice, product
from typing import Any

import pytest

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
