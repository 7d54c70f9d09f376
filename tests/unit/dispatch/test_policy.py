"""The table of endings (design: what an ending does to the stock, who may have it again)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from apps.dispatch.rules.policy import (
    ALREADY_TAKEN,
    COOLING_DOWN,
    OK,
    PastDispatch,
    keeps_stock,
    verdict,
)
from tests.unit.dispatch import POLICY as SINGLE

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
POLICY = replace(SINGLE, mode="multi", dispatch_times=6)


def past(state: str, *, holds: bool, rounds: int = 1, ago: float = 0) -> PastDispatch:
    finished = None if state == "open" else NOW - timedelta(seconds=ago)
    return PastDispatch(
        number=7, rounds=rounds, state=state, holds_stock=holds, finished_at=finished
    )


def test_ending_keeps_stock_as_the_table_says(subtests: pytest.Subtests) -> None:
    """S0.28, S0.29: what an ending does to the quota."""
    for state, on_failure, on_expiry, kept in (
        ("succeeded", "give_back", "give_back", True),
        ("failed", "finish", "give_back", True),
        ("failed", "give_back", "keep", False),
        ("failed", "retry_same", "give_back", True),
        ("expired", "finish", "give_back", False),
        ("expired", "give_back", "keep", True),
        ("released", "finish", "keep", False),
        ("cancelled", "finish", "keep", False),
    ):
        with subtests.test(state=state, on_failure=on_failure):
            policy = replace(POLICY, on_failure=on_failure, on_expiry=on_expiry)
            assert keeps_stock(policy, state) is kept


@pytest.mark.parametrize("mode", ["single", "multi", "blocking"])
def test_verdict_cancelled_is_never_again(mode: str) -> None:
    last = past("cancelled", holds=False, ago=10_000)
    assert verdict(replace(POLICY, mode=mode), last, NOW).code == ALREADY_TAKEN


def test_verdict_counted_ending_repeats_only_in_blocking_mode(subtests: pytest.Subtests) -> None:
    """S0.12, S0.13, I6: a winner never gets it again, except while stock lasts in blocking mode."""
    for (mode, code), state in product(
        (("single", ALREADY_TAKEN), ("multi", ALREADY_TAKEN), ("blocking", OK)),
        ("succeeded", "failed", "expired"),
    ):
        with subtests.test(mode=mode, state=state):
            assert verdict(replace(POLICY, mode=mode), past(state, holds=True), NOW).code == code


def test_verdict_earlier_one_that_counts_outlasts_a_returned_one(subtests: pytest.Subtests) -> None:
    """I6: the task has left blocking mode since; the winner does not win again."""
    for mode, code in (("single", ALREADY_TAKEN), ("multi", ALREADY_TAKEN), ("blocking", OK)):
        with subtests.test(mode=mode):
            last = replace(past("released", holds=False, rounds=2, ago=60), earlier_counts=True)
            assert verdict(replace(POLICY, mode=mode), last, NOW).code == code


def test_verdict_returned_stock_cools_down_for_lease_seconds(subtests: pytest.Subtests) -> None:
    for state, (ago, code) in product(
        ("failed", "expired", "released"), ((59.999, COOLING_DOWN), (60, OK))
    ):
        with subtests.test(state=state, ago=ago):
            answer = verdict(POLICY, past(state, holds=False, ago=ago), NOW)
            assert answer.code == code
            if code == COOLING_DOWN:
                assert answer.until == NOW + timedelta(seconds=60 - ago)


@pytest.mark.parametrize(("rounds", "code"), [(1, OK), (2, OK), (3, ALREADY_TAKEN)])
def test_verdict_retry_same_goes_on_up_to_max_rounds(rounds: int, code: str) -> None:
    policy = replace(POLICY, on_failure="retry_same")
    answer = verdict(policy, past("failed", holds=True, rounds=rounds), NOW)
    assert answer.code == code
    assert answer.carried == (7 if code == OK else None)
