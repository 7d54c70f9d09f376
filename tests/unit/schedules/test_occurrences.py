"""Which occurrences a sweep makes: the current one, what was missed, and what is just ahead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.dispatch.rules.recurrence import EveryMinutes
from apps.schedules.rules.occurrences import Due, due, recurrence_of

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
MINUTELY = EveryMinutes(1)
AHEAD = timedelta(seconds=5)


def at(minute: int, second: float = 0) -> datetime:
    return NINE + timedelta(minutes=minute, seconds=second)


def made(now: datetime, **plan: Any) -> Due:
    plan = {"since": NINE, "misfire": "skip", "rule": MINUTELY, "end_at": None, **plan}
    rule, end_at = plan.pop("rule"), plan.pop("end_at")
    recurrence = recurrence_of(rule=rule, zone=ZoneInfo("UTC"), start_at=NINE, end_at=end_at)
    return due(recurrence, now=now, until=now + AHEAD, misfire_limit=2, **plan)


def test_a_sweep_makes_what_is_due_and_what_is_just_ahead(subtests: pytest.Subtests) -> None:
    ends = {"since": at(1), "end_at": at(1, 1)}
    for name, now, plan, expected in (
        ("not yet ahead", at(0, -6), {}, ([], at(0))),
        ("ahead", at(0, -5), {}, ([at(0)], at(1))),
        ("the next is ahead", at(3, 57), {}, ([at(3), at(4)], at(5))),
        ("away, skip", at(3, 20), {}, ([at(3)], at(4))),
        ("away, once", at(3, 20), {"misfire": "once"}, ([at(2), at(3)], at(4))),
        ("away, all", at(3, 20), {"misfire": "all"}, ([at(1), at(2), at(3)], at(4))),
        ("nothing again", at(3, 20), {"since": at(4), "misfire": "all"}, ([], at(4))),
        ("only what is ahead", at(3, 57), {"since": at(4), "misfire": "all"}, ([at(4)], at(5))),
        # Looking ahead over the end swallows no occurrence, nor does a sweep that comes late.
        ("the end is ahead", at(0, 58), ends, ([at(1)], None)),
        ("just before the end", at(1, 0), ends, ([at(1)], None)),
        ("after the end", at(9, 0), ends, ([at(1)], None)),
        ("the end itself", at(0, 58), {"since": at(1), "end_at": at(1)}, ([], None)),
        ("without a rule, before", at(-1), {"rule": None}, ([], NINE)),
        ("without a rule, ahead", at(0, -3), {"rule": None}, ([NINE], None)),
        ("without a rule, late", at(500), {"rule": None}, ([NINE], None)),
    ):
        with subtests.test(name):
            assert made(now, **plan) == expected
