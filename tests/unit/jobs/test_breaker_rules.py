"""S4.19: the breaker of a type opens on failures, probes, and closes by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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


def test_half_of_twenty_failing_opens_it() -> None:
    assert opened().state == OPEN
    assert max_running(POLICY, opened(), NOON) == 0


def test_fewer_calls_than_the_least_never_open_it() -> None:
    state = record(POLICY, BreakerState(), NOON, calls=19, failures=19)

    assert state.state == CLOSED
    assert max_running(POLICY, state, NOON) is None


def test_fewer_failures_than_the_rate_leave_it_closed() -> None:
    assert record(POLICY, BreakerState(), NOON, calls=20, failures=9).state == CLOSED


def test_calls_of_one_window_add_up() -> None:
    state = record(POLICY, BreakerState(), NOON, calls=15, failures=8)

    assert record(POLICY, state, later(59), calls=5, failures=2).state == OPEN


def test_calls_of_an_earlier_window_are_forgotten() -> None:
    state = record(POLICY, BreakerState(), NOON, calls=15, failures=15)

    assert record(POLICY, state, later(60), calls=5, failures=5).state == CLOSED


def test_open_lets_one_probe_through_when_its_time_is_over() -> None:
    assert max_running(POLICY, opened(), later(29.9)) == 0
    assert max_running(POLICY, opened(), later(30)) == 1


def test_good_probe_closes_it() -> None:
    assert record(POLICY, opened(), later(31), calls=1, failures=0).state == CLOSED


def test_bad_probe_opens_it_anew() -> None:
    state = record(POLICY, opened(), later(31), calls=1, failures=1)

    assert (state.state, state.since) == (OPEN, later(31))


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
