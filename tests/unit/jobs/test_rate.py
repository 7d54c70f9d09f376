"""S4.8, I59: the rate of a type, for every limit a person may write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.jobs.rules.rate import capacity, tokens_at

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_bucket_holds_six_seconds_worth_but_a_token_at_least(subtests: pytest.Subtests) -> None:
    for per_minute, limit in ((0, 0), (1, 1), (10, 1), (60, 6), (10**7, 10**6)):
        with subtests.test(per_minute=per_minute):
            assert capacity(per_minute) == limit
            assert tokens_at(per_minute, None, None, NOON) == limit


def test_tokens_come_back_evenly_up_to_what_the_bucket_holds() -> None:
    assert tokens_at(60, 0.0, NOON, NOON + timedelta(seconds=2.5)) == pytest.approx(2.5)
    assert tokens_at(60, 0.0, NOON, NOON + timedelta(hours=1)) == 6


def test_clock_standing_still_or_behind_gives_nothing() -> None:
    assert tokens_at(60, 1.0, NOON, NOON) == 1.0
    assert tokens_at(60, 1.0, NOON, NOON - timedelta(seconds=5)) == 1.0
