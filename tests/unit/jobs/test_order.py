"""S1.6, S1.20, S2.7, S4.5, S4.6: the order of jobs as one number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.jobs.rules.order import STRICT_MS, WEIGHT_MS, demotion_ms, order_key

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
INSTANTS = st.datetimes(
    min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)
)


def test_head_start_lost_grows_with_the_attempts(subtests: pytest.Subtests) -> None:
    cases = {0: 0, 1: 30_000, 4: 30_000, 5: 60_000, 15: 60_000, 16: 300_000, 10**9: 300_000}
    for attempts, lost in cases.items():
        with subtests.test(attempts=attempts):
            assert demotion_ms(attempts) == lost


def test_key_is_age_less_priority_plus_demotion() -> None:
    key = order_key(NOON, priority=2, attempts=1, weight_ms=60_000)

    assert key == int(NOON.timestamp() * 1000) - 120_000 + 30_000


def test_waiting_a_weight_longer_is_worth_one_priority() -> None:
    """I34: the lowest priority is overtaken for a bounded time only."""
    waiting = order_key(NOON, priority=0, attempts=0, weight_ms=WEIGHT_MS)

    late = order_key(
        NOON + timedelta(milliseconds=WEIGHT_MS), priority=1, attempts=0, weight_ms=WEIGHT_MS
    )

    assert late == waiting
    assert late + 1 > waiting


def test_without_weight_only_age_counts() -> None:
    low = order_key(NOON, priority=-100, attempts=0, weight_ms=0)
    high = order_key(NOON + timedelta(milliseconds=1), priority=100, attempts=0, weight_ms=0)

    assert low < high


@given(early=INSTANTS, late=INSTANTS, low=st.integers(-100, 99))
def test_strict_weight_puts_every_priority_before_all_lower_ones(
    early: datetime, late: datetime, low: int
) -> None:
    if abs(early - late) < timedelta(days=11_000):
        assert order_key(late, priority=low + 1, attempts=10**6, weight_ms=STRICT_MS) < order_key(
            early, priority=low, attempts=0, weight_ms=STRICT_MS
        )


@given(
    base=INSTANTS,
    priority=st.integers(-100, 100),
    attempts=st.integers(0, 2**31),
    weight=st.integers(0, STRICT_MS),
)
def test_every_key_fits_the_column(
    base: datetime, priority: int, attempts: int, weight: int
) -> None:
    key = order_key(base, priority=priority, attempts=attempts, weight_ms=weight)

    assert -(2**63) < key < 2**63
