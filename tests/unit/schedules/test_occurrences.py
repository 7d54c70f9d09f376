"""Which occurrences a sweep makes: the current one, what was missed, and what is just ahead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from apps.dispatch.rules.recurrence import EveryMinutes, Rule
from apps.schedules.rules.occurrences import Due, due, recurrence_of

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
MINUTELY = EveryMinutes(1)
AHEAD = timedelta(seconds=5)


def at(minute: int, second: float = 0) -> datetime:
    return NINE + timedelta(minutes=minute, seconds=second)


def made(
    now: datetime,
    *,
    since: datetime = NINE,
    misfire: str = "skip",
    rule: Rule | None = MINUTELY,
    end_at: datetime | None = None,
) -> Due:
    recurrence = recurrence_of(rule=rule, zone=ZoneInfo("UTC"), start_at=NINE, end_at=end_at)
    return due(
        recurrence, since=since, now=now, until=now + AHEAD, misfire=misfire, misfire_limit=2
    )


def test_what_is_ahead_is_made_before_it_is_due() -> None:
    assert made(at(0, -6)) == ([], at(0))
    assert made(at(0, -5)) == ([at(0)], at(1))
    assert made(at(0, 57), since=at(1)) == ([at(1)], at(2))


@pytest.mark.parametrize(
    ("misfire", "instants"),
    [("skip", [at(3)]), ("once", [at(2), at(3)]), ("all", [at(1), at(2), at(3)])],
)
def test_after_three_minutes_away(misfire: str, instants: list[datetime]) -> None:
    assert made(at(3, 20), misfire=misfire) == (instants, at(4))


def test_current_and_next_one_are_both_made_when_the_next_is_ahead() -> None:
    assert made(at(3, 57)) == ([at(3), at(4)], at(5))


def test_nothing_is_made_again() -> None:
    assert made(at(3, 20), since=at(4), misfire="all") == ([], at(4))
    assert made(at(3, 57), since=at(4), misfire="all") == ([at(4)], at(5))


def test_looking_ahead_over_the_end_swallows_no_occurrence() -> None:
    end_at = at(1, 1)
    assert made(at(0, 58), since=at(1), end_at=end_at) == ([at(1)], None)
    assert made(at(1, 0), since=at(1), end_at=end_at) == ([at(1)], None)
    # Nor does a sweep that comes late.
    assert made(at(9, 0), since=at(1), end_at=end_at) == ([at(1)], None)


def test_the_end_itself_is_no_occurrence() -> None:
    assert made(at(0, 58), since=at(1), end_at=at(1)) == ([], None)


@pytest.mark.parametrize("now", [at(0, -3), at(0), at(500)])
def test_without_a_rule_it_is_due_once(now: datetime) -> None:
    assert made(now, rule=None) == ([NINE], None)


def test_without_a_rule_it_waits_for_its_start() -> None:
    assert made(at(-1), rule=None) == ([], NINE)
