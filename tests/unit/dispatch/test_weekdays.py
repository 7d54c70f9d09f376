"""Weekdays and days of a month as cron expressions, there and back."""

from __future__ import annotations

import itertools
import random

import pytest

from apps.dispatch.rules.recurrence import parse_rule
from apps.dispatch.rules.weekdays import MONTH, MONTH_DAYS, WEEK, WEEKDAYS, OnDays, days_of

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
