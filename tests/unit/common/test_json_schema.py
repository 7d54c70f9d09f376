"""S0.2: templates declare the params of a task, and every misfit is named."""

from __future__ import annotations

import enum
import socket
import time
from contextlib import nullcontext
from typing import Any

import jsonschema_rs
import pytest
from django.utils.safestring import SafeString

from apps.common.errors import Invalid
from apps.common.json.schema import (
    MAX_ERRORS,
    MAX_SHOWN,
    Checker,
    check_params,
    check_schema,
)
from apps.common.masking.names import secret_properties
from apps.common.messages import Message
from tests.benchmark import costly

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


def fits(schema: dict[str, Any], value: Any) -> bool:
    """Whether the value fits below a property."""
    return not Checker({"properties": {"it": schema}}).faults({"it": value})


# --- schemas --------------------------------------------------------------------------------------
def test_bad_schema_is_refused_with_its_fault_and_place(subtests: pytest.Subtests) -> None:
    for schema, field, word in (
        ([], "schema", "object"),
        ({"type": "array"}, "schema", "object"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, ".properties.a.type", "2020"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.org/a"}}}, "", "refers"),
        ({"type": "object", "allOf": [{"$ref": 7}]}, ".allOf[0].$ref", "2020-12"),
        ({"type": "object", "$id": "http://["}, ".$id", "uri-reference"),
        ({"type": "object", "required": [1] * 9000}, ".required", "items that are equal"),
        ({"type": "object", "items": {"format": "tme"}}, "", 'no format "tme"; use one of date'),
        ({"type": "object", "$defs": {"a": {"format": "color"}}}, "", "no format"),
    ):
        with subtests.test(str(schema)[:80]), pytest.raises(Invalid, match=word) as caught:
            check_schema(schema)
        (error,) = caught.value.errors
        assert error.field.startswith("schema")
        assert error.field.endswith(field)


def test_reference_is_a_keyword_only_where_schemas_stand() -> None:
    """A property may have any name, and data any content."""
    schema = {
        "type": "object",
        "properties": {
            "$ref": {"type": "string"},
            "a": {"const": {"$ref": "https://example.org/"}},
            "b": {"default": {"$ref": 1}, "examples": [{"$ref": 2}], "enum": [{"$ref": 3}]},
        },
    }

    check_schema(schema)

    check_params(schema, {"$ref": "x", "a": {"$ref": "https://example.org/"}, "b": {"$ref": 3}})


# Keywords that another place than a property would have.
KEYWORDS = (
    *("$schema", "$id", "$ref", "$anchor", "$defs", "$dynamicRef", "$dynamicAnchor", "$comment"),
    *("$vocabulary", "properties", "items", "prefixItems", "allOf", "not", "if", "required"),
    *("type", "enum", "const", "pattern", "format", "multipleOf", "uniqueItems", "maxLength"),
    *("unevaluatedProperties", "additionalProperties", "title", "default", "secret"),
)


def test_property_is_named_like_any_keyword(subtests: pytest.Subtests) -> None:
    for name in KEYWORDS:
        with subtests.test(name):
            inner = {"type": "object", "properties": {name: {"type": "string"}}}
            schema = {"type": "object", "properties": {"a": inner, name: {"type": "string"}}}
            check_schema(schema)
            check_params(schema, {name: "x", "a": {name: "x"}})
            for wrong, field in (({name: 5}, name), ({"a": {name: 5}}, f"a.{name}")):
                with pytest.raises(Invalid) as caught:
                    check_params(schema, wrong)
                assert [error.field for error in caught.value.errors] == [f"params.{field}"]
            assert secret_properties(schema) == set()


def test_nothing_is_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
        for keywords in (
            {"$ref": address},
            {"$schema": address},
            {"$id": address, "allOf": [{"$ref": "other"}]},
            {"$dynamicRef": address},
            {"properties": {"a": {"$schema": address}}},
        ):
            with pytest.raises(Invalid):
                check_schema({"type": "object", **keywords})
            Checker({"type": "object", **keywords}).faults({"a": 1})

        with pytest.raises(BlockingIOError):
            server.accept()


def test_stored_schema_that_no_longer_works_says_so() -> None:
    """Earlier versions took other patterns."""
    schema = {"type": "object", "properties": {"a": {"pattern": "a{"}}}

    with pytest.raises(Invalid) as caught:
        check_params(schema, {"a": "a"})

    (error,) = caught.value.errors
    assert error.field == "params"
    assert error.message == (
        "The schema itself does not work and must be saved anew: "
        'schema.properties.a.pattern: "a{" does not have the format "regex"'
    )
    assert Checker({"$ref": "#/nowhere"}).trouble
    assert Checker(SCHEMA).trouble is None


# --- errors ---------------------------------------------------------------------------------------
MISFITS: list[tuple[Any, Any, str]] = [
    ({"additionalProperties": False}, {"a": 1, "b": 2}, 'Unknown: "a", "b"'),
    (
        {"properties": {"c": True}, "additionalProperties": False},
        {"a": 1, "b": 2},
        'Unknown: "a", "b"',
    ),
    (
        {"patternProperties": {"^x": True}, "additionalProperties": False},
        {"x": 1, "a": 1},
        'Unknown: "a"',
    ),
    ({"anyOf": [{"type": "string"}]}, 1, "The number fits none of the allowed schemas"),
    ({"const": {"a": [1]}}, 1, 'The number is not {"a": [1]}'),
    ({"const": ["a"]}, 1, 'The number is not ["a"]'),
    ({"contains": {"const": 1}}, [2], "The list has no item of the kind that it needs"),
    (
        {"contains": {"const": 1}, "minContains": 2},
        [1],
        "The list has too few items of the kind that it needs",
    ),
    (
        {"contains": {"const": 1}, "maxContains": 1},
        [1, 1],
        "The list has too many items of the kind that it needs",
    ),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, 'Missing: "b"'),
    ({"enum": ["a", None, 2]}, "c", 'The text is not one of "a", null, 2'),
    ({"exclusiveMaximum": 3}, 3, "The number is not less than 3"),
    ({"exclusiveMinimum": 3}, 3, "The number is not greater than 3"),
    ({"format": "date"}, "2.3.", 'The text does not have the format "date"'),
    ({"items": False}, [1], "The number is not allowed here; leave it out"),
    (False, {"a": 1}, "The object is not allowed here; leave it out"),
    ({"maxItems": 1}, [1, 2], "The list has more than 1 items"),
    ({"maxLength": 1}, "ab", "The text is longer than 1 characters"),
    ({"maxProperties": 0}, {"a": 1}, "The object has more than 0 properties"),
    ({"maximum": 1}, 2, "The number is greater than 1"),
    ({"minItems": 1}, [], "The list has fewer than 1 items"),
    ({"minLength": 1}, "", "The text is shorter than 1 characters"),
    ({"minProperties": 1}, {}, "The object has fewer than 1 properties"),
    ({"minimum": 2}, 1, "The number is less than 2"),
    ({"multipleOf": 2}, 3, "The number is not a multiple of 2"),
    ({"not": True}, 3, "The number fits a schema that is not allowed"),
    ({"oneOf": [True, True]}, 3, "The number must fit exactly one of the allowed schemas"),
    ({"oneOf": [False]}, 3, "The number must fit exactly one of the allowed schemas"),
    ({"pattern": "^a"}, "b", 'The text does not match "^a"'),
    (
        {"properties": {"additionalProperties": False}},
        {"additionalProperties": 1},
        "The number is not all",
    ),
    ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, 'The text does not match "^a"'),
    ({"required": ["a"]}, {"b": 1}, 'Missing: "a"'),
    ({"type": ["string", "null"]}, True, 'The boolean is not of type "null", "string"'),
    ({"unevaluatedItems": False}, [1], "The list has items that no part of the schema allows"),
    ({"unevaluatedProperties": False}, {"a": 1}, 'No part of the schema allows: "a"'),
    ({"uniqueItems": True}, [1, 1], "The list has items that are equal"),
    ({"type": "integer"}, "x" * 300, 'The text is not of type "integer"'),
    ({"const": "x" * 300}, 1, 'The number is not "' + "x" * (MAX_SHOWN - 2) + "…"),
]
# What the dialect, the kind of patterns and the lack of own formats leave no way to.
NEVER = {
    "AdditionalItems",
    "BacktrackLimitExceeded",
    "ContentEncoding",
    "ContentMediaType",
    "Custom",
    "FromUtf8",
    "Referencing",
    "RegexEngineFailure",
}


def test_misfit_is_one_message_that_can_be_translated(subtests: pytest.Subtests) -> None:
    for schema, value, message in MISFITS:
        with subtests.test(str(schema)[:80]):
            (error,) = Checker({"properties": {"it": schema}}).faults({"it": value})
            assert error.message.startswith(message)
            assert isinstance(error.message, Message)
            assert error.field.startswith("params.it")


def test_every_kind_of_error_of_the_library_has_a_text() -> None:
    """And its ways to judge agree, which they did not in every version."""
    seen = set()
    for schema, value, _message in MISFITS:
        validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
        seen |= {type(error.kind).__name__ for error in validator.iter_errors(value)}
        assert not validator.is_valid(value)
        with pytest.raises(jsonschema_rs.ValidationError):
            validator.validate(value)

    kinds = {n for n, each in vars(jsonschema_rs.ValidationErrorKind).items() if n[0].isupper()}
    assert seen == kinds - NEVER


def test_every_misfit_is_named_with_its_path() -> None:
    with pytest.raises(Invalid) as caught:
        check_params(SCHEMA, {"shelves": [1, *"abc", *range(6), "x"], "day": "2.3.", "more": 1})

    assert [error.field for error in caught.value.errors] == [
        "params",
        "params.day",
        "params.shelves[1]",
        "params.shelves[2]",
        "params.shelves[3]",
        "params.shelves[10]",
        "params.shop",
    ]


def test_members_of_enumerations_and_safe_texts_are_their_values() -> None:
    number = enum.IntEnum("number", {"ONE": 1})
    params = {"shop": SafeString("A"), "shelves": [number.ONE]}  # type: ignore[attr-defined]

    check_params(SCHEMA, params)
    with pytest.raises(Invalid, match="is longer than 0"):
        check_params({"properties": {"shop": {"maxLength": 0}}}, params)


# --- cost -----------------------------------------------------------------------------------------
# Of a core: twenty times what the costliest check takes here.
MOST_SECONDS = 0.5


def test_costly_check_names_few_errors(subtests: pytest.Subtests) -> None:
    """And costs little, of which `manage.py benchmark api` measures more."""
    for check in (*costly.CHECKS, *costly.FORMAT_CHECKS):
        with subtests.test(check.name):
            check_schema(check.schema)
            began = time.thread_time()
            faults = Checker(check.schema).faults({"rows": check.value})
            assert time.thread_time() - began < MOST_SECONDS
            assert 1 <= len(faults) <= MAX_ERRORS


def test_of_many_errors_the_first_is_named_and_of_many_alternatives_none() -> None:
    (first,) = Checker(costly.ROWS).faults({"rows": [*["a"] * 5000, *[1] * 4000]})
    alternatives = {"anyOf": [costly.ROWS] * 3, "type": "object"}
    (other,) = Checker(alternatives).faults({"rows": [1] * 9000})

    assert first.field == "params.rows[5000]"
    assert (other.field, other.message) == (
        "params",
        "It does not fit its schema; send a smaller part of it to learn where.",
    )


def test_costly_schema_is_made_or_refused(subtests: pytest.Subtests) -> None:
    for name, schema, word in costly.MADE:
        with (
            subtests.test(name),
            pytest.raises(Invalid, match=word) if word else nullcontext(),
        ):
            check_schema({"type": "object", **schema})


# --- numbers --------------------------------------------------------------------------------------
def test_numbers_are_compared_exactly(subtests: pytest.Subtests) -> None:
    """19.99 is a multiple of 0.01, though its binary form is not."""
    for schema, fitting, other in (
        ({"multipleOf": 0.01}, (19.99, 0.07, 1, 1e6, 64.1), (0.015, 19.990000000000002, 1 / 3)),
        ({"multipleOf": 0.001}, (1.001, 4.35), (0.0005,)),
        ({"multipleOf": 0.05}, (0.15, 1.1), (0.12,)),
        ({"maximum": 2**53}, (2**53,), (2**53 + 1,)),
        ({"const": 2**63 - 1}, (2**63 - 1,), (2**63 - 2, float(2**63))),
        ({"const": 1}, (1, 1.0), (True, "1")),
        ({"uniqueItems": True}, ([1, True, "1", [1], 1.5],), ([1, 1.0], [{"a": 1}, {"a": 1.0}])),
    ):
        with subtests.test(str(schema)):
            assert [value for value in fitting if not fits(schema, value)] == []
            assert [value for value in other if fits(schema, value)] == []


_AGAIN: dict[str, Any] = {"properties": {"n": {"$ref": "#/$defs/n"}}}
_DOUBLING: dict[str, dict[str, Any]] = {
    "anyOf": {"anyOf": [_AGAIN, _AGAIN]},
    "oneOf": {"oneOf": [_AGAIN, {**_AGAIN, "required": ["n"]}]},
    "allOf": {"allOf": [_AGAIN, _AGAIN, _AGAIN]},
    "if": {**_AGAIN, "if": _AGAIN, "then": _AGAIN},
    "dependentSchemas": {**_AGAIN, "dependentSchemas": {"n": _AGAIN}},
    "patternProperties": {
        "patternProperties": dict.fromkeys(("n", "^n", "n$"), _AGAIN["properties"]["n"])
    },
}


@pytest.mark.parametrize("name", _DOUBLING)
def test_errors_of_values_that_are_reached_on_many_paths_are_few(name: str) -> None:
    """An expression within expressions, 17 deep, kept the web process busy until it was killed."""
    node = {"type": ["object"], **_DOUBLING[name]}
    schema = {"type": "object", "$defs": {"n": node}, **_AGAIN}
    check_schema(schema)

    def faults(depth: int) -> tuple[list[str], float]:
        value: Any = "bad"
        for _level in range(depth):
            value = {"n": value}
        begin = time.perf_counter()
        found = Checker(schema).faults({"n": value, "m": {"n": {"n": {}}}})
        return [each.field for each in found], time.perf_counter() - begin

    places, _seconds = faults(2)
    assert places[0].startswith("params.n"), "near ones are still placed"
    places, seconds = faults(17)
    assert (places, seconds < 1) == (["params"], True)


def test_one_path_through_a_deep_value_is_no_reason_to_hide_the_place() -> None:
    """A tree of one kind of node, with a list and a map of them."""
    again = {"$ref": "#/$defs/n"}
    kinds = {"items": again, "additionalProperties": again, "type": ["object", "array"]}
    schema = {"type": "object", "$defs": {"n": kinds}, "properties": {"n": again}}
    value: Any = "bad"
    for _level in range(8):
        value = {"n": [value]}
    assert [each.field for each in Checker(schema).faults(value)] == ["params" + ".n[0]" * 8]
