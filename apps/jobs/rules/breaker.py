"""The circuit breaker of a type: closed → open on failures → half-open with one probe → closed.

closed     everything runs; calls and failures are counted in windows of `window_seconds`
open       nothing runs for `open_seconds`: the dependency is down, more calls would only hurt
half_open  one job at a time runs as a probe: success closes the breaker, failure opens it again

An attempt says something of the state in which it began: one from before is neither counted nor a
probe, however late it ends. One whose worker was lost says nothing of the dependency.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

CLOSED = "closed"
OPEN = "open"
HALF_OPEN = "half_open"


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakerPolicy:
    enabled: bool
    failure_rate: float
    window_seconds: int
    min_calls: int
    open_seconds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakerState:
    """`since`: when the state began · `window_at`: when the counted window began."""

    state: str = CLOSED
    since: datetime | None = None
    window_at: datetime | None = None
    calls: int = 0
    failures: int = 0


def at(policy: BreakerPolicy, state: BreakerState, now: datetime) -> BreakerState:
    """The state at this instant: an open breaker becomes half-open after `open_seconds`."""
    if not policy.enabled:
        return BreakerState()
    if state.state == OPEN and (
        state.since is None or now >= state.since + timedelta(seconds=policy.open_seconds)
    ):
        return BreakerState(state=HALF_OPEN, since=now)
    return state


def judges(state: BreakerState, held_at: datetime) -> bool:
    """Whether an attempt that began then counts in this state."""
    return state.since is None or held_at >= state.since


def max_running(policy: BreakerPolicy, state: BreakerState, now: datetime) -> int | None:
    """The maximum of running jobs that began in this state: None while closed, 1 while half-open,
    0 while open."""
    return {CLOSED: None, HALF_OPEN: 1, OPEN: 0}[at(policy, state, now).state]


def record(
    policy: BreakerPolicy, state: BreakerState, now: datetime, *, calls: int, failures: int
) -> BreakerState:
    """The state after `calls` attempts that it judges have ended, `failures` with an error."""
    state = at(policy, state, now)
    if not policy.enabled or not calls or state.state == OPEN:
        return state
    if state.state == HALF_OPEN:
        return BreakerState(state=OPEN if failures else CLOSED, since=now)
    over = state.window_at is None or now >= state.window_at + timedelta(
        seconds=policy.window_seconds
    )
    if over:
        state = replace(state, window_at=now, calls=0, failures=0)
    state = replace(state, calls=state.calls + calls, failures=state.failures + failures)
    if state.calls >= policy.min_calls and state.failures >= policy.failure_rate * state.calls:
        return BreakerState(state=OPEN, since=now)
    return state
