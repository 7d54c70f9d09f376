"""Strict numbers with decimals, lists of objects and of texts. S0.29, S2.13."""

from __future__ import annotations

import pytest
from django.http import QueryDict

from apps.common.api.serializer_fields import Integer, Items, Number, Texts
from apps.common.api.serializers import StrictSerializer
from apps.common.errors import PlatformError


class Line(StrictSerializer):
    count = Integer(min_value=1, max_value=9)
    share = Number(min_value=0, max_value=1, required=False, default=0.5)


class Order(StrictSerializer):
    lines = Items(child=Line(), max_items=3)


def test_number_keeps_what_was_written(subtests: pytest.Subtests) -> None:
    for value in (0, 1, 0.25, 1.0, 5e-324):
        with subtests.test(value=value):
            checked = Line.check({"count": 1, "share": value})["share"]
            assert checked == value
            assert type(checked) is type(value)


def test_anything_else_is_no_number_in_range(subtests: pytest.Subtests) -> None:
    for value in ("0.5", True, None, [], {}, -0.001, 1.001, 2, 10**400, float("nan"), float("inf")):
        with subtests.test(value=value):
            with pytest.raises(PlatformError) as caught:
                Line.check({"count": 1, "share": value})
            assert [error.field for error in caught.value.errors] == ["share"]


def test_items_are_checked_one_by_one() -> None:
    assert Order.check({"lines": [{"count": 1}, {"count": 2, "share": 1}]}) == {
        "lines": [{"count": 1, "share": 0.5}, {"count": 2, "share": 1}]
    }


def test_wrong_items_have_their_position(subtests: pytest.Subtests) -> None:
    for lines, fields in (
        ([], ["lines"]),
        ([{"count": 1}] * 4, ["lines"]),
        ({"count": 1}, ["lines"]),
        ("[]", ["lines"]),
        (None, ["lines"]),
        ([{"count": 1}, {"count": 0, "x": 1}], ["lines[1].x", "lines[1].count"]),
        ([{"count": 1}, "a", None], ["lines[1]", "lines[2]"]),
    ):
        with subtests.test(lines=lines):
            with pytest.raises(PlatformError) as caught:
                Order.check({"lines": lines})
            assert sorted(error.field for error in caught.value.errors) == sorted(fields)


class Search(StrictSerializer):
    words = Texts(max_items=2, max_length=5, required=False)
    limit = Integer(min_value=1, max_value=9, required=False)


def test_wrong_texts_have_their_position(subtests: pytest.Subtests) -> None:
    for words, fields in (
        (["a"] * 3, ["words"]),
        ("a", ["words"]),
        (None, ["words"]),
        ({"0": "a"}, ["words"]),
        (["a", 7, ""], ["words[1]", "words[2]"]),
        (["a", "abcdef"], ["words[1]"]),
        ([7, "\0"], ["words[0]", "words[1]"]),
    ):
        with subtests.test(words=words):
            with pytest.raises(PlatformError) as caught:
                Search.check({"words": words})
            assert [error.field for error in caught.value.errors] == fields


def test_parameter_of_texts_may_be_repeated_and_no_other() -> None:
    assert Search.check_query(QueryDict("words=a&limit=3&words=b")) == {
        "words": ["a", "b"],
        "limit": 3,
    }
    assert Search.check_query(QueryDict("words=a")) == {"words": ["a"]}
    with pytest.raises(PlatformError) as caught:
        Search.check_query(QueryDict("words=a&limit=3&limit=3"))
    assert [error.field for error in caught.value.errors] == ["limit"]
