"""S4.19: the breaker of a type opens on failures, probes, and closes by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.jobs.rules.breaker import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    BreakerPolicy,
    BreakerState,
    at,
    judges,
    max_running,
    record,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
POLICY = BreakerPolicy(
    enabled=True, failure_rate=0.5, window_seconds=60, min_calls=20, open_seconds=30
)


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def opened() -> BreakerState:
    return record(POLICY, BreakerState(), NOON, calls=20, failures=10)


def test_it_opens_and_closes_by_what_is_recorded(subtests: pytest.Subtests) -> None:
    """Each step: seconds from noon, calls, failures."""
    opens, closed = (0, 20, 10), (CLOSED, None)
    for name, steps, (state, most) in (
        ("half of twenty fail", [opens], (OPEN, 0)),
        ("fewer calls than the least", [(0, 19, 19)], closed),
        ("fewer failures than the rate", [(0, 20, 9)], closed),
        ("calls of one window add up", [(0, 15, 8), (59, 5, 2)], (OPEN, 0)),
        ("those of an earlier window are forgotten", [(0, 15, 15), (60, 5, 5)], closed),
        ("a good probe", [opens, (31, 1, 0)], closed),
        ("a bad probe", [opens, (31, 1, 1)], (OPEN, 0)),
    ):
        with subtests.test(name):
            found = BreakerState()
            for seconds, calls, failures in steps:
                found = record(POLICY, found, later(seconds), calls=calls, failures=failures)
            assert (found.state, max_running(POLICY, found, later(seconds))) == (state, most)
            if state == OPEN:
                assert found.since == later(seconds)


def test_open_lets_one_probe_through_when_its_time_is_over() -> None:
    assert max_running(POLICY, opened(), later(29.9)) == 0
    assert max_running(POLICY, opened(), later(30)) == 1


def test_attempts_are_judged_by_the_state_in_which_they_began() -> None:
    probing = at(POLICY, opened(), later(30))
    closed = record(POLICY, probing, later(31), calls=1, failures=0)

    assert record(POLICY, opened(), later(5), calls=50, failures=0) == opened()
    for state, since in ((opened(), NOON), (probing, later(30)), (closed, later(31))):
        assert not judges(state, since - timedelta(microseconds=1))
        assert judges(state, since)
    assert judges(BreakerState(), NOON)


def test_switched_off_it_is_closed_whatever_was_before() -> None:
    off = BreakerPolicy(
        enabled=False, failure_rate=0.5, window_seconds=60, min_calls=20, open_seconds=30
    )

    assert at(off, BreakerState(state=HALF_OPEN), NOON) == BreakerState()
    assert max_running(off, opened(), NOON) is None
