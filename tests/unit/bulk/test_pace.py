"""A run changes no more rows a second than its rate, and makes up for short delays only."""

from __future__ import annotations

import pytest

from apps.bulk.rules.pace import MAX_BEHIND_SECONDS, Pace


def waits(pace: Pace, rounds: list[tuple[int, float]], now: float = 0.0) -> list[float]:
    """The waits after rounds of so many rows, each of which took so long."""
    found = []
    for rows, took in rounds:
        now += took
        found.append(round(pace.wait(rows, now), 6))
        now += found[-1]
    return found


def test_rounds_are_as_far_apart_as_the_rate_says_however_long_they_take() -> None:
    assert waits(Pace(200, 0.0), [(100, 0.05), (100, 0.2), (50, 0.05)]) == [0.45, 0.3, 0.2]


def test_slow_round_is_made_up_for() -> None:
    assert waits(Pace(200, 0.0), [(100, 1.2), (100, 0.1), (100, 0.1)]) == [0.0, 0.0, 0.1]


def test_long_delay_lets_no_crowd_through() -> None:
    slow, quick = (100, 60.0), (100, 0.0)
    at_once = waits(Pace(200, 0.0), [slow, *[quick] * 10]).index(0.5, 1)
    assert at_once * 100 / 200 == pytest.approx(MAX_BEHIND_SECONDS)


def test_rounds_that_write_rows_down_earn_nothing() -> None:
    assert waits(Pace(200, 0.0), [(0, 30.0), (0, 30.0), (100, 0.1)]) == [0.0, 0.0, 0.4]
