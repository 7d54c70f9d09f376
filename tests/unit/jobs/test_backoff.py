"""S1.9, S2.5, I32: how long a failed job waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.jobs.rules.backoff import Backoff, backoff_seconds

NUMBERS = st.floats(min_value=0, max_value=2.0**63) | st.integers(0, 2**63)


def test_wait_doubles_up_to_the_cap(subtests: pytest.Subtests) -> None:
    cases = {0: 10, 1: 10, 2: 20, 3: 40, 9: 2560, 10: 3600, 2**31: 3600}
    for attempt, seconds in cases.items():
        with subtests.test(attempt=attempt):
            policy = Backoff(delay=10, multiplier=2, cap=3600)
            assert backoff_seconds(policy, attempt) == seconds


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 9.0), (0.5, 10.0), (1.0, 11.0)])
def test_jitter_is_a_share_to_both_sides(chance: float, seconds: float) -> None:
    policy = Backoff(delay=10, multiplier=2, cap=3600, jitter=0.1)

    assert backoff_seconds(policy, 1, chance=chance) == pytest.approx(seconds)


def test_odd_policies_are_defined(subtests: pytest.Subtests) -> None:
    for policy, waits in (
        (Backoff(delay=0, multiplier=2, cap=60), [0, 0, 0]),
        (Backoff(delay=5, multiplier=0, cap=60), [5, 0, 0]),
        (Backoff(delay=5, multiplier=1, cap=60), [5, 5, 5]),
        (Backoff(delay=8, multiplier=0.5, cap=60), [8, 4, 2]),
        (Backoff(delay=90, multiplier=2, cap=60), [60, 60, 60]),
        (Backoff(delay=5, multiplier=3, cap=0), [0, 0, 0]),
    ):
        with subtests.test(policy=policy):
            assert [backoff_seconds(policy, n) for n in (1, 2, 3)] == pytest.approx(waits)


@given(
    delay=NUMBERS,
    multiplier=NUMBERS,
    cap=NUMBERS,
    jitter=st.floats(0, 1),
    attempt=st.integers(-1, 2**63),
    chance=st.floats(0, 1),
)
def test_wait_is_never_negative_nor_above_the_cap(
    delay: float, multiplier: float, cap: float, jitter: float, attempt: int, chance: float
) -> None:
    policy = Backoff(delay=delay, multiplier=multiplier, cap=cap, jitter=jitter)

    wait = backoff_seconds(policy, attempt, chance=chance)

    assert 0 <= wait <= cap * (1 + jitter) * (1 + 1e-9)
