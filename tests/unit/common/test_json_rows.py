"""Schemas as rows, and what one changes against another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.errors import Invalid
from apps.common.json.diff import diff
from apps.common.json.rows import KINDS, OTHER, Row, rows_of, schema_of, why_not_rows
from apps.common.json.schema import check_schema
from apps.common.json_rules import canonical

SHOP = {"type": "string", "title": "Shop", "minLength": 1, "pattern": "^[A-Z]"}
BASE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "shop": SHOP,
        "photos": {"type": "integer", "minimum": 1, "maximum": 20, "default": 2},
        "angle": {"enum": ["front", "left"]},
        "pin": {"type": "string", "secret": True, "x-owner": "ops"},
        "boxes": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["photos", "shop"],
}

_NAMES = st.sampled_from(["shop", "a b", "", "é\n", "价格", "“", "x" * 150, "🎉", "%s {0}"])
_NUMBERS = st.sampled_from([0, 1, 1.0, 2.5, 7])
_KEYWORDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "array", ["string"]]),
        "format": st.sampled_from(["uri", "date", "date-time", "email"]),
        "x-kind": st.sampled_from(["picture", 5]),
        "title": st.sampled_from(["Shop", "", " two ", "a\nb"]),
        "secret": st.sampled_from([True, False, "yes"]),
        "enum": st.sampled_from([["a", "b"], [], ["a", " b"], [1], ["a", "a"], ["a\u2028b"]]),
        "items": st.sampled_from([{"type": "string"}, {"type": "string", "minLength": 2}, True]),
        "minLength": st.sampled_from([0, 3, 3.0]),
        "maxItems": st.sampled_from([0, 3]),
        "minimum": _NUMBERS,
        "maximum": _NUMBERS,
        "const": st.sampled_from([None, "a"]),
        "anyOf": st.just([{"type": "string"}]),
        "description": st.just("why"),
    },
)
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(_NAMES, st.one_of(_KEYWORDS, st.booleans()), max_size=4),
        "required": st.lists(_NAMES, unique=True, max_size=3),
        "additionalProperties": st.booleans(),
        "allOf": st.just([{"minProperties": 1}]),
        "x-summary": st.just(["shop"]),
    },
)


def is_accepted(schema: Any) -> bool:
    try:
        check_schema(schema)
    except Invalid:
        return False
    return True


@given(SCHEMAS)
def test_a_schema_comes_back_equal_from_its_rows_or_has_none(schema: Any) -> None:
    if is_accepted(schema) and why_not_rows(schema) is None:
        back = schema_of(rows_of(schema), schema)
        assert canonical(back) == canonical(schema)
        assert [*back.get("properties", ())] == [*schema.get("properties", ())]
        assert {row.kind for row in rows_of(schema)} <= KINDS.keys()


@given(SCHEMAS, SCHEMAS)
def test_a_difference_is_said_exactly_where_there_is_one(old: Any, new: Any) -> None:
    def meaning(schema: Any) -> Any:
        # The order of the names in "required" means nothing, and none are needed by an empty list.
        plain = {**schema, "required": sorted(schema.get("required", ()))}
        return canonical({"properties": {}, **plain}), [*schema.get("properties", ())]

    if is_accepted(old) and is_accepted(new):
        assert diff(old, old) == []
        assert bool(diff(old, new)) == (meaning(old) != meaning(new))


def test_what_rows_cannot_say_has_a_sentence(subtests: pytest.Subtests) -> None:
    for more, said in (
        ({"allOf": [{"minProperties": 1}]}, "allOf judges several fields at once"),
        ({"dependentRequired": {"shop": ["pin"]}}, "dependentRequired judges"),
        ({"properties": {"shop": True}}, "shop is true or false"),
        ({"properties": {"": {}}}, "empty or has several lines: ''"),
        ({"properties": {"shop": {"title": "a\nb"}}}, "label of shop has several lines"),
        ({"required": ["else"]}, "'else' is required and not among the fields"),
        ({"properties": {f"n{n}": {} for n in range(101)}}, "more than 100 fields"),
    ):
        with subtests.test(more=more):
            assert said in (why_not_rows({"type": "object", **more}) or "")
    assert why_not_rows(BASE) is None


def test_rows_change_what_they_say_and_keep_the_rest() -> None:
    shop, photos, angle, pin, boxes = rows_of(BASE)
    assert [row.kind for row in rows_of(BASE)] == ["text", "integer", "choice", "text", OTHER]
    changed = schema_of(
        [
            replace(pin, kind="picture", is_secret=False),
            replace(shop, name="store", least=None, most=80),
            replace(photos, most=6, is_needed=False),
            replace(angle, choices=("front", "above"), is_needed=True),
            replace(boxes, label="Boxes"),
            Row(name="price", kind="number", label="Price", is_needed=True, least=0.5),
        ],
        BASE,
    )
    check_schema(changed)
    assert changed == {
        **BASE,
        "properties": {
            "pin": {"type": "string", "format": "uri", "x-kind": "picture", "x-owner": "ops"},
            "store": {"type": "string", "title": "Shop", "maxLength": 80, "pattern": "^[A-Z]"},
            "photos": {"type": "integer", "minimum": 1, "maximum": 6, "default": 2},
            "angle": {"enum": ["front", "above"]},
            "boxes": {"type": "array", "items": {"type": "object"}, "title": "Boxes"},
            "price": {"type": "number", "title": "Price", "minimum": 0.5},
        },
        "required": ["store", "angle", "price"],
    }
    assert next(iter(changed["properties"])) == "pin"
    assert diff(BASE, changed) == [
        "pin: text becomes link to a picture.",
        "pin is no longer secret.",
        "Adds the field Shop (text), needed.",
        "photos is no longer needed.",
        "photos: at most 20 → 6.",
        "angle is needed now.",
        "angle: adds above.",
        "angle: removes left.",
        "boxes: the label – becomes Boxes.",
        "Adds the field Price (any number), needed.",
        "Removes the field Shop.",
        "Puts the fields in another order.",
    ]


def test_other_differences_are_named_by_their_keywords(subtests: pytest.Subtests) -> None:
    def of(**keywords: Any) -> dict[str, Any]:
        return {"type": "object", "properties": {"shop": {**SHOP, **keywords}}}

    for old, new, said in (
        (of(), of(pattern="^x"), "Shop: changes pattern."),
        (of(), of(secret=True), "Shop is secret now."),
        (of(), of(minLength=1.0), "Shop: at least 1 → 1.0."),
        (of(), {**of(), "title": "Photo"}, "Changes title of the whole."),
        (of(enum=["a", "b"]), of(enum=["b", "a"]), "Shop: puts the choices in another order."),
        (of(type="array"), of(type="array", minItems=1), "Shop: changes minItems."),
    ):
        with subtests.test(said):
            assert diff(old, new) == [said]
