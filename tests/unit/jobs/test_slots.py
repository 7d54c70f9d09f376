"""S4.7: slots are shared between lanes. S4.2, S4.15: those of a hold between types, by weight."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.jobs.rules.slots import (
    CeleryWorker,
    lanes_polled,
    max_drains,
    places_of_others,
    shares,
    wanted,
)

BOTH = ("fast", "slow")
WEIGHTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 20), min_size=1)


def test_lane_never_takes_all_slots_of_a_worker_of_both(subtests: pytest.Subtests) -> None:
    for lane, lanes, slots, limit in (
        ("slow", BOTH, 4, 3),
        ("fast", BOTH, 4, 3),
        ("slow", BOTH, 2, 1),
        ("slow", BOTH, 1, 0),
        ("fast", BOTH, 1, 1),
        ("slow", ("slow",), 4, 4),
        ("fast", ("fast",), 1, 1),
        ("fast", ("slow",), 4, 0),
    ):
        with subtests.test(lane=lane, lanes=lanes, slots=slots):
            assert max_drains(lane, lanes, slots) == limit


def test_one_of_several_slow_drains_is_left_to_the_platform(subtests: pytest.Subtests) -> None:
    for lane, lanes, slots, most in (
        ("slow", BOTH, 5, 3),
        ("slow", BOTH, 3, 1),
        ("slow", BOTH, 2, None),
        ("slow", ("slow",), 2, 1),
        ("slow", ("slow",), 1, None),
        ("fast", BOTH, 5, None),
        ("fast", BOTH, 1, None),
    ):
        with subtests.test(lane=lane, lanes=lanes, slots=slots):
            assert places_of_others(lane, lanes, slots) == most


def test_slow_workers_help_with_fast_jobs_and_not_the_other_way(subtests: pytest.Subtests) -> None:
    for lane, lanes, slots, polled in (
        ("fast", BOTH, 4, ("fast",)),
        ("slow", BOTH, 4, ("slow", "fast")),
        ("fast", BOTH, 1, ("fast", "slow")),
        ("slow", ("slow",), 4, ("slow",)),
    ):
        with subtests.test(lane=lane, lanes=lanes, slots=slots):
            assert lanes_polled(lane, lanes, slots) == polled


def test_drains_start_where_jobs_are_due_and_one_waits_otherwise(subtests: pytest.Subtests) -> None:
    for groups, due, starts in (
        ([], {"fast"}, {"fast": 0, "slow": 0}),
        ([CeleryWorker(BOTH, 4, {})], set(), {"fast": 1, "slow": 1}),
        ([CeleryWorker(BOTH, 4, {"fast": 1, "slow": 1})], set(), {"fast": 0, "slow": 0}),
        ([CeleryWorker(BOTH, 4, {"fast": 1, "slow": 1})], {"fast"}, {"fast": 2, "slow": 0}),
        ([CeleryWorker(BOTH, 4, {"fast": 1, "slow": 1})], {"slow"}, {"fast": 0, "slow": 2}),
        ([CeleryWorker(BOTH, 4, {})], {"fast", "slow"}, {"fast": 3, "slow": 1}),
        ([CeleryWorker(BOTH, 4, {"slow": 3})], {"slow"}, {"fast": 1, "slow": 0}),
        ([CeleryWorker(BOTH, 1, {})], {"slow"}, {"fast": 1, "slow": 0}),
        ([CeleryWorker(BOTH, 2, {"fast": 1, "slow": 1})], {"fast", "slow"}, {"fast": 0, "slow": 0}),
        (
            [CeleryWorker(("fast",), 2, {"fast": 1}), CeleryWorker(("slow",), 2, {})],
            {"fast"},
            {"fast": 1, "slow": 1},
        ),
    ):
        with subtests.test(groups=groups, due=due):
            assert wanted(groups, due) == starts


def test_slots_are_shared_between_types_by_weight() -> None:
    assert shares(100, {"mail": 3, "bill": 1}) == {"mail": 75, "bill": 25}
    assert shares(0, {"mail": 1}) == shares(10, {}) == {}


def test_single_slots_rotate_by_weight() -> None:
    weights = {"bill": 1, "mail": 3}

    given_out = Counter(
        name for rotation in range(400) for name in shares(1, weights, rotation=rotation)
    )

    assert given_out == {"mail": 300, "bill": 100}


@given(slots=st.integers(1, 1000), weights=WEIGHTS, rotation=st.integers(0, 10**9))
def test_shares_add_up_to_the_slots(slots: int, weights: dict[str, int], rotation: int) -> None:
    assert sum(shares(slots, weights, rotation=rotation).values()) == slots


@given(slots=st.integers(1, 5), weights=WEIGHTS)
def test_every_type_gets_a_slot_within_one_rotation(slots: int, weights: dict[str, int]) -> None:
    """S4.14: none of many types comes last for ever."""
    total = sum(weights.values())

    served = {
        name for rotation in range(total) for name in shares(slots, weights, rotation=rotation)
    }

    assert served == set(weights)
