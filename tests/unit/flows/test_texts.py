"""The short texts of steps: what they say is read again, and what they do not say is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.flows.admin.graph import fitted
from apps.flows.rules import texts
from apps.flows.rules.changes import changes
from tests.flows import job, jobs, ref, task, wait

GIVEN = (
    {},
    {"shop": ref("params", "shop"), "all": {"$results": "resize"}, "first": ref("list", "[0].url")},
    {"a": "Bern", "b": "800", "c": 800, "d": True, "e": None, "f": "", "g": " x ", "h": "$5"},
    {"lines": "one\ntwo", "deep": {"at": [ref("list")]}, "quoted": '"x"', "list": "[1"},
    {"odd": {"$from": "a", "path": 5}, "none": {"$from": "a", "path": ""}, "other": {"$x": 1}},
    {"both": {"$from": "a", "$results": "b"}, "blank": {"$from": "a b"}},
    {"a = b": 1},
    {" blank": 1},
    {"": 1},
    {"{x": 1},
)


@pytest.mark.parametrize("given", GIVEN)
def test_what_a_step_is_given_is_read_as_it_was(given: dict[str, Any]) -> None:
    assert texts.read_given(texts.given_text(given)) == given


def test_lines_are_what_people_write() -> None:
    text = texts.given_text({"shop": ref("params", "shop"), "size": 800, "town": "Bern"})
    assert text == "shop = $params.shop\nsize = 800\ntown = Bern"
    assert texts.read_given(" shop=$params.shop\n\n size = 800 ")["size"] == 800


@pytest.mark.parametrize("equals", [True, "yes", "true", 5, None, "$x", ["a"]])
def test_conditions_are_read_as_they_were(equals: Any) -> None:
    for place in ({"step": "list", "path": "a[0].b"}, {"step": "params"}):
        condition = {**place, "equals": equals}
        assert texts.read_condition(texts.condition_text(condition)) == condition


WRONG: tuple[tuple[Callable[[str], Any], str], ...] = (
    (texts.read_given, "shop"),
    (texts.read_given, "shop ="),
    (texts.read_given, "a = 1\na = 2"),
    (texts.read_given, "{"),
    (texts.read_given, "a = $list..x"),
    (texts.read_given, 'a = "open'),
    (texts.read_each, "two words"),
    (texts.read_each, "[1"),
    (texts.read_condition, "list.public"),
    (texts.read_condition, "= 1"),
    (texts.read_least, "many"),
    (texts.read_least, "-1"),
)


@pytest.mark.parametrize(("read", "text"), WRONG)
def test_what_means_nothing_is_refused(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError):
        read(text)


def test_changes_are_said_in_the_words_of_the_form() -> None:
    old = {"steps": [job("a"), jobs("b", [1], at_least=2), task("c", quota=2), wait("d")]}
    new = {
        "steps": [
            job("a", context={"token": "s3cret"}, within=5400),
            jobs("b", ref("a", "photos"), at_least=50, unit="percent"),
            wait("d", needs=["b"]),
            job("c"),
        ]
    }
    assert [*map(str, changes(old, new, shown=dict))] == [
        "a is given something else.",
        "a, time limit: now 1 h 30 min.",
        "b, for each of: [1] becomes $a.photos.",
        "b, at least: 2 becomes 50 %.",
        "d, waits for: now b.",
        "c: people becomes one job.",
        "Puts the steps in another order.",
    ]
    assert changes(old, old, shown=dict) == []


def test_words_of_ways_fit_between_two_boxes() -> None:
    for text, shown in (
        ("on failure", "on failure"),
        ("if public = true", "if public…"),
        ("if result.is_public", "if result…"),
        ("如果照片质量", "如果照…"),
        ("不论结果", "不论结果"),
    ):
        assert fitted(text, 52) == shown
    # In letters of 11 pixels, of which a Chinese one is as wide as high.
    assert all(len(fitted("照" * count, 60)) * 11 <= 60 for count in range(1, 20))
