"""S0.2: templates declare the params of a task, and every misfit is named."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from jsonschema import FormatChecker

from apps.common.errors import Invalid
from apps.common.json_schema import MAX_SHOWN, check_params, check_schema
from apps.common.messages import Message

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "shop": {"type": "string", "minLength": 1},
        "shelves": {"type": "array", "items": {"type": "integer"}},
        "day": {"type": "string", "format": "date"},
    },
    "required": ["shop"],
    "additionalProperties": False,
}


def test_bad_schema_is_refused_with_its_fault(subtests: pytest.Subtests) -> None:
    for schema, word in (
        ([], "object"),
        ({"type": "array"}, "object"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "2020-12"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.org/a"}}}, "refers"),
        ({"type": "object", "allOf": [{"$ref": 7}]}, "refers"),
    ):
        with subtests.test(schema=schema):
            with pytest.raises(Invalid) as caught:
                check_schema(schema)
            assert word in caught.value.detail
            assert caught.value.errors[0].field.startswith("schema")


def test_good_schema_and_params_pass() -> None:
    check_schema(SCHEMA)
    check_params(SCHEMA, {"shop": "A", "shelves": [1, 2], "day": "2026-03-02"})
    check_params(None, {"anything": 1})


def test_misfit_is_one_message_that_can_be_translated(subtests: pytest.Subtests) -> None:
    for schema, value, message in (
        ({"additionalProperties": False}, {"a": 1, "b": 2}, 'Unknown: "a", "b"'),
        (
            {"patternProperties": {"^x": True}, "additionalProperties": False},
            {"x": 1, "a": 1},
            'Unknown: "a"',
        ),
        ({"anyOf": [{"type": "string"}]}, 1, "1 fits none of the allowed schemas"),
        ({"const": {"a": [1]}}, 1, '1 is not {"a": [1]}'),
        ({"enum": ["a", None, 2]}, "c", '"c" is not one of "a", null, 2'),
        ({"exclusiveMaximum": 3}, 3, "3 is not less than 3"),
        ({"exclusiveMinimum": 3}, 3, "3 is not greater than 3"),
        ({"format": "date"}, "2.3.", '"2.3." does not have the format "date"'),
        ({"maxItems": 1}, [1, 2], "[1, 2] has more than 1 items"),
        ({"maxLength": 1}, "ab", '"ab" is longer than 1 characters'),
        ({"maxProperties": 0}, {"a": 1}, '{"a": 1} has more than 0 properties'),
        ({"maximum": 1}, 2, "2 is greater than 1"),
        ({"minItems": 1}, [], "[] has fewer than 1 items"),
        ({"minLength": 1}, "", '"" is shorter than 1 characters'),
        ({"minProperties": 1}, {}, "{} has fewer than 1 properties"),
        ({"minimum": 2}, 1, "1 is less than 2"),
        ({"multipleOf": 2}, 3, "3 is not a multiple of 2"),
        ({"oneOf": [True, True]}, 3, "3 must fit exactly one of the allowed schemas"),
        ({"pattern": "^a"}, "b", '"b" does not match "^a"'),
        ({"required": ["a", "b", "c"]}, {"b": 1}, 'Missing: "a", "c"'),
        ({"type": ["string", "null"]}, True, 'true is not of type "string", "null"'),
        ({"uniqueItems": True}, [1, 1], "[1, 1] has items that are equal"),
    ):
        with subtests.test(schema=schema):
            with pytest.raises(Invalid) as caught:
                check_params({"properties": {"it": schema}}, {"it": value})
            (error,) = caught.value.errors
            assert error.message == message
            assert isinstance(error.message, Message)


def test_misfit_of_a_rare_keyword_has_the_text_of_jsonschema_cut() -> None:
    with pytest.raises(Invalid) as caught:
        check_params({"properties": {"it": {"contains": {"const": 1}}}}, {"it": ["x" * 300]})

    (error,) = caught.value.errors
    assert error.message == "['" + "x" * (MAX_SHOWN - 3) + "…"


def test_every_misfit_is_named_with_its_path() -> None:
    with pytest.raises(Invalid) as caught:
        check_params(SCHEMA, {"shelves": [1, "x"], "day": "2.3.", "more": 1})
    fields = {error.field for error in caught.value.errors}
    assert fields == {"params", "params.shop", "params.shelves[1]", "params.day"}


# --- Patterns -------------------------------------------------------------------------------------


def with_pattern(pattern: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, **more}


def test_no_pattern_takes_long(subtests: pytest.Subtests) -> None:
    """S0.2: forty letters kept `re` busy for hours."""
    for schema, params in (
        (with_pattern("^(a+)+$"), {"a": "a" * 40 + "!"}),
        (with_pattern("(x+x+)+y"), {"a": "x" * 200_000}),
        (with_pattern("^([a-z]*)*[0-9]$"), {"a": "a" * 40}),
        (
            {
                "type": "object",
                "patternProperties": {"^(a+)+$": True},
                "additionalProperties": False,
            },
            {"a" * 40 + "!": 1},
        ),
        ({"type": "object", "propertyNames": {"pattern": "^(a|a)*$"}}, {"a" * 40 + "!": 1}),
    ):
        with subtests.test(schema=schema):
            check_schema(schema)
            began = time.monotonic()
            with pytest.raises(Invalid):
                check_params(schema, params)
            assert time.monotonic() - began < 1


def test_pattern_without_bounds_is_refused_with_its_schema(subtests: pytest.Subtests) -> None:
    for pattern in (r"^(a)\1$", "^(?=a)b", "a{1,1001}", "(" * 5000, "(a", "a**"):
        with subtests.test(pattern=pattern):
            for schema in (
                with_pattern(pattern),
                {"type": "object", "patternProperties": {pattern: True}},
                {"type": "object", "$defs": {"b": {"pattern": pattern}}},
            ):
                with pytest.raises(Invalid, match="cannot be matched in bounded time") as caught:
                    check_schema(schema)
                assert caught.value.errors[0].field == "schema"


def test_patterns_that_another_keyword_would_match_are_refused() -> None:
    schema = {
        "type": "object",
        "allOf": [{"patternProperties": {"^a": True}}],
        "unevaluatedProperties": False,
    }

    with pytest.raises(Invalid, match="cannot be used together"):
        check_schema(schema)


def test_pattern_means_what_json_schema_says(subtests: pytest.Subtests) -> None:
    for pattern, fitting, other in (
        (r"^\d{4}-\d\d$", "2026-11", "2026-1"),
        (r"^[\u4e00-\u9fff]+$", "任务", "task"),
        (r"^C:\\users$", r"C:\users", "C:"),
        (r"b", "abc", "acd"),
        (r"^(?<year>\d+)/(?i:x)$", "7/X", "x/7"),
        (r"^\p{Lu}", "Ä", "ä"),
        (r"^a$", "a", "a\n"),
    ):
        with subtests.test(pattern=pattern):
            schema = with_pattern(pattern)
            check_schema(schema)
            check_params(schema, {"a": fitting})
            with pytest.raises(Invalid, match="does not match"):
                check_params(schema, {"a": other})


def test_unknown_properties_may_have_a_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"a": True},
        "patternProperties": {"^x": {"type": "string"}},
        "additionalProperties": {"type": "integer"},
    }

    check_params(schema, {"a": None, "x1": "text", "b": 1})
    with pytest.raises(Invalid) as caught:
        check_params(schema, {"x1": 1, "b": "text"})
    assert [each.field for each in caught.value.errors] == ["params.b", "params.x1"]


def test_no_format_takes_long(subtests: pytest.Subtests) -> None:
    for name in sorted(FormatChecker.checkers):
        with subtests.test(name=name):
            schema = {"type": "object", "properties": {"a": {"type": "string", "format": name}}}
            began = time.monotonic()
            for piece in "a 0 . : % ( { /~0 a. 1: P1Y - é [ @".split():
                params = {"a": piece * (40_000 // len(piece)) + "!"}
                with suppress(Invalid):
                    check_params(schema, params)
            assert time.monotonic() - began < 3
