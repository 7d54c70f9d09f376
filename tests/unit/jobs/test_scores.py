"""S3.2, S3.8: scores of pools as numbers of the order, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.jobs.rules.order import MAX_SCORE, Score, score_key, score_of

SCORES = st.one_of(
    st.integers(-MAX_SCORE + 1, MAX_SCORE - 1),
    st.integers(-MAX_SCORE * 1000 + 1, MAX_SCORE * 1000 - 1).map(
        lambda thousandths: thousandths / 1000
    ),
)


def test_key_is_the_score_in_thousandths(subtests: pytest.Subtests) -> None:
    for score, key in (
        (0, 0),
        (-0.0, 0),
        (7, 7_000),
        (7.0, 7_000),
        (0.001, 1),
        (-0.001, -1),
        (-1.5, -1_500),
        (0.1, 100),
        (1.005, 1_005),
        (1e3, 1_000_000),
        (1e-3, 1),
        (MAX_SCORE - 1, 8_999_999_999_999_000),
        (1 - MAX_SCORE, -8_999_999_999_999_000),
        (8_999_999_999_999.998, 8_999_999_999_999_998),
    ):
        with subtests.test(score=score, key=key):
            assert score_key(score) == key
            assert score_of(key) == score


def test_fourth_decimal_is_refused(subtests: pytest.Subtests) -> None:
    for score in (0.0001, 1.0005, -3.14159, 1e-4, 1e-300, 0.1 + 0.2, 123456.7891):
        with subtests.test(score=score):
            with pytest.raises(ValueError, match="more than three decimals"):
                score_key(score)


def test_score_beyond_the_limit_is_refused(subtests: pytest.Subtests) -> None:
    for score in (
        MAX_SCORE,
        -MAX_SCORE,
        9e12,
        1e300,
        float("inf"),
        float("-inf"),
        float("nan"),
        10**400,
    ):
        with subtests.test(score=score), pytest.raises(ValueError, match="beyond"):
            score_key(score)


@given(SCORES)
def test_score_comes_back_exactly(score: Score) -> None:
    """S3.8: the same number, also the same double."""
    assert score_of(score_key(score)) == score


@given(SCORES, SCORES)
def test_lower_score_comes_first(one: Score, other: Score) -> None:
    """S3.2."""
    assert (score_key(one) < score_key(other)) == (one < other)


def test_whole_score_comes_back_without_decimals() -> None:
    assert repr(score_of(5_000)) == "5"
    assert repr(score_of(5_500)) == "5.5"
