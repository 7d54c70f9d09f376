"""The drawing of a flow: boxes that do not overlap, ways that lead from one to the next."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from apps.flows.rules.definition import Definition
from apps.flows.rules.picture import ALL, ALWAYS, EACH, FAILURE, HEIGHT, IF, picture
from tests.flows import job, jobs, ref, task, wait


def drawn(*steps: dict[str, Any]) -> Any:
    return picture(Definition({"steps": [*steps]}))


def test_ways_say_what_a_step_makes_of_its_needs() -> None:
    found = drawn(
        job("list"),
        jobs("resize", ref("list", "photos")),
        jobs("some", [1, 2], at_least=1, needs=["list"]),
        task("check", quota=None, needs=["resize"]),
        wait("rest", needs=["check", "some"]),
        job("alarm", needs=["rest"], when="failure"),
        job("last", needs=["alarm"], when="always"),
        {**job("publish", needs=["rest"]), "if": {"step": "list", "path": "ok", "equals": True}},
    )
    words = {(way.source, way.target): way.word for way in found.ways}
    assert words == {
        ("list", "resize"): EACH,
        ("list", "some"): "",
        ("resize", "check"): ALL,
        ("check", "rest"): ALL,
        ("some", "rest"): "",
        ("rest", "alarm"): FAILURE,
        ("alarm", "last"): ALWAYS,
        ("rest", "publish"): "",
        ("list", "publish"): IF,
    }
    [condition] = [way.condition for way in found.ways if way.condition]
    assert condition == "ok = true"


def test_need_that_follows_from_another_has_no_way_of_its_own() -> None:
    found = drawn(wait("a"), wait("b", needs=["a"]), wait("c", needs=["a", "b"]))
    assert [(way.source, way.target) for way in found.ways] == [("a", "b"), ("b", "c")]


def test_five_levels_fit_beside_the_menu_of_a_usual_screen() -> None:
    widths = [
        drawn(*(wait(f"s{n}", needs=[f"s{n - 1}"] if n else []) for n in range(levels))).width
        for levels in (3, 4, 5, 6)
    ]
    assert widths[1] <= 918 and widths[2] <= 918 < widths[3]
    assert widths == sorted(widths)


@pytest.mark.parametrize("seed", range(5))
def test_boxes_do_not_overlap_and_lie_within_the_drawing(seed: int) -> None:
    dice = random.Random(seed)
    names = [f"s{number}" for number in range(100)]
    found = drawn(
        *(
            wait(name, needs=dice.sample(names[:number], min(number, dice.randrange(4))))
            for number, name in enumerate(names)
        )
    )
    assert found.places.keys() == {*names}
    for place in found.places.values():
        assert 0 <= place.x <= found.width - found.box
        assert 0 <= place.y <= found.height - HEIGHT
    for one, other in combinations(found.places.values(), 2):
        assert one.level != other.level or abs(one.y - other.y) >= HEIGHT
    for way in found.ways:
        source, target = found.places[way.source], found.places[way.target]
        assert source.level < target.level
        assert way.path.startswith(f"M{source.x + found.box:g} {source.y + HEIGHT / 2:.1f}")
        assert way.path.endswith(f"{target.x:g} {target.y + HEIGHT / 2:.1f}")
