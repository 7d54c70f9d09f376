"""S0.2: templates declare the params of a task, and every misfit is named."""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ([], "object"),
        ({"type": "array"}, "object"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "2020-12"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.org/a"}}}, "refers"),
        ({"type": "object", "allOf": [{"$ref": 7}]}, "refers"),
    ],
)
def test_bad_schema_is_refused_with_its_fault(schema: Any, word: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_schema(schema)
    assert word in caught.value.detail
    assert caught.value.errors[0].field.startswith("schema")


def test_good_schema_and_params_pass() -> None:
    check_schema(SCHEMA)
    check_params(SCHEMA, {"shop": "A", "shelves": [1, 2], "day": "2026-03-02"})
    check_params(None, {"anything": 1})


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
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
    ],
)
def test_misfit_is_one_message_that_can_be_translated(
    schema: Any, value: Any, message: str
) -> None:
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
