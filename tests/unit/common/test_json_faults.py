"""What does not fit a schema is told in the words of the package, which a page can translate."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError

from apps.common.json_faults import MAX_SHOWN, told
from apps.common.messages import Message

# By keyword, schemas and what does not fit them.
MISFITS: dict[str, list[tuple[Any, Any]]] = {
    "None": [(False, 1)],
    "additionalProperties": [
        ({"additionalProperties": False}, {"a": 1}),
        ({"additionalProperties": False}, {"a": 1, "b": 2}),
        ({"patternProperties": {"^x": True}, "additionalProperties": False}, {"a": 1}),
        ({"patternProperties": {"^x": True}, "additionalProperties": False}, {"a": 1, "b": 2}),
    ],
    "anyOf": [({"anyOf": [{"type": "string"}]}, 1)],
    "const": [({"const": {"a": [1]}}, 1)],
    "contains": [({"contains": {"type": "string"}}, [1])],
    "dependentRequired": [({"dependentRequired": {"a": ["b"]}}, {"a": 1})],
    "enum": [({"enum": ["a", "b"]}, "c is not one of d")],
    "exclusiveMaximum": [({"exclusiveMaximum": 3}, 3)],
    "exclusiveMinimum": [({"exclusiveMinimum": 3}, 3)],
    "format": [({"format": "date"}, "2.3.")],
    "items": [
        ({"prefixItems": [True], "items": False}, [1, 2]),
        ({"prefixItems": [True, True], "items": False}, [1, 2, 3, " extra: "]),
    ],
    "maxContains": [({"contains": {"type": "integer"}, "maxContains": 1}, [1, 2])],
    "maxItems": [({"maxItems": 0}, [1]), ({"maxItems": 1}, [1, 2])],
    "maxLength": [({"maxLength": 0}, "a"), ({"maxLength": 1}, "a\n is too long")],
    "maxProperties": [({"maxProperties": 0}, {"a": 1}), ({"maxProperties": 1}, {"a": 1, "b": 2})],
    "maximum": [({"maximum": 1}, 2)],
    "minContains": [({"contains": {"type": "integer"}, "minContains": 2}, [1])],
    "minItems": [({"minItems": 1}, []), ({"minItems": 2}, [1])],
    "minLength": [({"minLength": 1}, ""), ({"minLength": 2}, "a")],
    "minProperties": [({"minProperties": 1}, {}), ({"minProperties": 2}, {"a": 1})],
    "minimum": [({"minimum": 2}, 1)],
    "multipleOf": [({"multipleOf": 2}, 3)],
    "not": [({"not": {"type": "integer"}}, 3)],
    "oneOf": [({"oneOf": [{"type": "string"}]}, 3), ({"oneOf": [True, True]}, 3)],
    "pattern": [({"pattern": "^a"}, "b")],
    "required": [({"required": ["a"]}, {})],
    "type": [({"type": ["string", "null"]}, 3)],
    "unevaluatedItems": [
        ({"prefixItems": [True], "unevaluatedItems": False}, [1, 2]),
        ({"prefixItems": [True], "unevaluatedItems": False}, [1, 2, 3]),
    ],
    "unevaluatedProperties": [
        ({"unevaluatedProperties": False}, {"a": 1}),
        ({"unevaluatedProperties": False}, {"a": 1, "b": 2}),
        ({"unevaluatedProperties": {"type": "string"}}, {"a": 1}),
        ({"unevaluatedProperties": {"type": "string"}}, {"a": 1, "b": 2}),
    ],
    "uniqueItems": [({"uniqueItems": True}, [1, 1])],
}
# These lead on to other schemas, or only say how another keyword is meant.
SILENT = {"$ref", "$dynamicRef", "allOf", "dependentSchemas", "if", "patternProperties"} | {
    "prefixItems",
    "properties",
    "propertyNames",
}
CASES = [(keyword, *case) for keyword, cases in MISFITS.items() for case in cases]


def fault(schema: Any, value: Any) -> ValidationError:
    (error,) = Draft202012Validator(schema, format_checker=FormatChecker()).iter_errors(value)
    return error


def test_every_keyword_that_refuses_is_known_here() -> None:
    missing = Draft202012Validator.VALIDATORS.keys() - MISFITS.keys() - SILENT

    assert missing == set()


@pytest.mark.parametrize(("keyword", "schema", "value"), CASES)
def test_words_are_those_of_the_package_and_can_be_translated(
    keyword: str, schema: Any, value: Any
) -> None:
    error = fault(schema, value)
    sentence = told(error)

    assert str(error.validator) == keyword
    assert sentence == error.message
    assert isinstance(sentence, Message)


def test_what_is_quoted_is_cut() -> None:
    sentence = told(fault({"type": "integer"}, "x" * 300_000))

    assert sentence == "'" + "x" * (MAX_SHOWN - 2) + "… is not of type 'integer'"


def test_words_that_are_not_known_are_told_as_they_are() -> None:
    assert told(ValidationError("It glows. " * 100, validator="type")) == ("It glows. " * 50)
