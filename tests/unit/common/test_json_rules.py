"""Which JSON values every database can keep (MariaDB: depth, surrogates)."""

from __future__ import annotations

from typing import Any

import pytest

from apps.common.errors import BadText, Invalid, LimitReached, TooDeep, TooLarge
from apps.common.json_rules import MAX_MEMBERS, canonical, check_json, count_members


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_ordinary_value_passes(subtests: pytest.Subtests) -> None:
    for value in (
        {},
        {"a": [None, True, 1, -(2**63), 2**63 - 1, 1.5, "é𝄞\n"]},
        nested(20),
        {str(n): n for n in range(1000)},
        [0] * 11_000,
        [[0] * 99, {"a": [0] * 10_897}],
    ):
        with subtests.test(value=str(value)[:50]):
            check_json(value)


def test_unfit_value_is_refused_at_its_field(subtests: pytest.Subtests) -> None:
    for value, error in (
        (nested(21), TooDeep),
        ({str(n): n for n in range(1001)}, LimitReached),
        ([0] * 11_001, LimitReached),
        ([[0] * 99, {"a": [0] * 10_900}], LimitReached),
        ({"a": "x" * 262_144}, TooLarge),
        ({"a": "\x00"}, BadText),
        ({"\x00": 1}, BadText),
        (["\ud83d"], BadText),
        ([2**63], Invalid),
        ([-(2**63) - 1], Invalid),
        ([float("inf")], Invalid),
        ([float("nan")], Invalid),
        ([object()], Invalid),
        ({1: "a"}, Invalid),
        ({"\ud800": 1}, BadText),
    ):
        with subtests.test(value=value):
            with pytest.raises(error) as caught:
                check_json(value, field="params")
            assert caught.value.errors[0].field == "params"  # type: ignore[attr-defined]


def test_canonical_text_is_equal_for_equal_values() -> None:
    assert canonical({"b": [1.0, "é"], "a": None}) == canonical({"a": None, "b": [1.0, "é"]})
    assert canonical({"a": 1}) != canonical({"a": True})


def test_members_are_items_and_keys_at_any_depth() -> None:
    assert count_members({"a": [1, {"b": None}], "c": "text"}) == 5
    assert count_members([[], {}, [[]]]) == 4
    assert count_members("text") == 0
    assert count_members([0] * MAX_MEMBERS) == MAX_MEMBERS
