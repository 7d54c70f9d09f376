"""S4.2, S4.15: the slots of a hold are shared by weight, and nobody waits for ever."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from apps.jobs.rules.turns import shares

WEIGHTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 20), min_size=1)


def test_places_are_shared_by_weight() -> None:
    assert shares(100, {"mail": 3, "bill": 1}) == {"mail": 75, "bill": 25}


def test_one_place_goes_to_the_type_whose_turn_it_is() -> None:
    weights = {"bill": 1, "mail": 3}

    given_out = Counter(name for turn in range(400) for name in shares(1, weights, turn=turn))

    assert given_out == {"mail": 300, "bill": 100}


def test_no_places_or_no_work_shares_nothing() -> None:
    assert shares(0, {"mail": 1}) == {}
    assert shares(10, {}) == {}


@given(slots=st.integers(1, 1000), weights=WEIGHTS, turn=st.integers(0, 10**9))
def test_all_places_are_given_and_no_more(slots: int, weights: dict[str, int], turn: int) -> None:
    assert sum(shares(slots, weights, turn=turn).values()) == slots


@given(slots=st.integers(1, 5), weights=WEIGHTS)
def test_every_type_gets_a_place_within_the_turns_of_all(
    slots: int, weights: dict[str, int]
) -> None:
    """S4.14: none of many types comes last for ever."""
    total = sum(weights.values())

    served = {name for turn in range(total) for name in shares(slots, weights, turn=turn)}

    assert served == set(weights)
