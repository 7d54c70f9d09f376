"""S0.2: templates declare the params of a task, and every misfit is named."""

from __future__ import annotations

import enum
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jsonschema_rs
import pytest
from django.utils.safestring import SafeString

from apps.common import json_schema
from apps.common.errors import Invalid
from apps.common.json_schema import (
    FORMATS,
    MAX_ERRORS,
    MAX_SHOWN,
    Checker,
    check_params,
    check_schema,
)
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


def fits(schema: dict[str, Any], value: Any) -> bool:
    """Whether the value fits below a property."""
    return not Checker({"properties": {"it": schema}}).faults({"it": value})


@contextmanager
def within_a_second() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < 1


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


def test_good_schema_and_params_pass() -> None:
    check_schema(SCHEMA)
    check_params(SCHEMA, {"shop": "A", "shelves": [1, 2], "day": "2026-03-02"})
    check_params(None, {"anything": 1})


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
    ({"anyOf": [{"type": "string"}]}, 1, "1 fits none of the allowed schemas"),
    ({"const": {"a": [1]}}, 1, '1 is not {"a": [1]}'),
    ({"const": ["a"]}, 1, '1 is not ["a"]'),
    ({"contains": {"const": 1}}, [2], "[2] has no item of the kind that it needs"),
    (
        {"contains": {"const": 1}, "minContains": 2},
        [1],
        "[1] has too few items of the kind that it needs",
    ),
    (
        {"contains": {"const": 1}, "maxContains": 1},
        [1, 1],
        "[1, 1] has too many items of the kind that it needs",
    ),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, 'Missing: "b"'),
    ({"enum": ["a", None, 2]}, "c", '"c" is not one of "a", null, 2'),
    ({"exclusiveMaximum": 3}, 3, "3 is not less than 3"),
    ({"exclusiveMinimum": 3}, 3, "3 is not greater than 3"),
    ({"format": "date"}, "2.3.", '"2.3." does not have the format "date"'),
    ({"items": False}, [1], "1 is not allowed here; leave it out"),
    (False, {"a": 1}, '{"a": 1} is not allowed here; leave it out'),
    ({"maxItems": 1}, [1, 2], "[1, 2] has more than 1 items"),
    ({"maxLength": 1}, "ab", '"ab" is longer than 1 characters'),
    ({"maxProperties": 0}, {"a": 1}, '{"a": 1} has more than 0 properties'),
    ({"maximum": 1}, 2, "2 is greater than 1"),
    ({"minItems": 1}, [], "[] has fewer than 1 items"),
    ({"minLength": 1}, "", '"" is shorter than 1 characters'),
    ({"minProperties": 1}, {}, "{} has fewer than 1 properties"),
    ({"minimum": 2}, 1, "1 is less than 2"),
    ({"multipleOf": 2}, 3, "3 is not a multiple of 2"),
    ({"not": True}, 3, "3 fits a schema that is not allowed"),
    ({"oneOf": [True, True]}, 3, "3 must fit exactly one of the allowed schemas"),
    ({"oneOf": [False]}, 3, "3 must fit exactly one of the allowed schemas"),
    ({"pattern": "^a"}, "b", '"b" does not match "^a"'),
    ({"properties": {"additionalProperties": False}}, {"additionalProperties": 1}, "1 is not all"),
    ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, '"b" does not match "^a"'),
    ({"required": ["a"]}, {"b": 1}, 'Missing: "a"'),
    ({"type": ["string", "null"]}, True, 'true is not of type "null", "string"'),
    ({"unevaluatedItems": False}, [1], "[1] has items that no part of the schema allows"),
    ({"unevaluatedProperties": False}, {"a": 1}, 'No part of the schema allows: "a"'),
    ({"uniqueItems": True}, [1, 1], "[1, 1] has items that are equal"),
    ({"type": "integer"}, "x" * 300, '"' + "x" * (MAX_SHOWN - 2) + "…"),
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
ROWS = {"type": "object", "properties": {"rows": {"items": {"type": "string"}}}}
NAMES = [f"name{n}" for n in range(300)]


def rows(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"rows": items}}


def test_check_costs_little_whatever_is_wrong(subtests: pytest.Subtests) -> None:
    """Each took between two seconds and a minute, or gigabytes, of the library before or of this
    one when it is asked for all errors."""
    alternatives = [{"properties": {"rows": {"items": {"type": "string"}}}} for _ in range(10)]
    for name, schema, value in (
        ("every item", ROWS, [1] * 9999),
        ("every name of every item", rows({"items": {"required": NAMES}}), [{}] * 9999),
        ("every alternative", {"anyOf": alternatives, "type": "object"}, [1] * 9999),
        ("alternatives of items", rows({"items": {"oneOf": [False] * 300}}), [1] * 9999),
        ("unique", rows({"uniqueItems": True}), [*range(4000), *map(str, range(5000)), "1"]),
        ("unique lists", rows({"uniqueItems": True}), [*([n] for n in range(4990)), [1]]),
        ("enum", rows({"items": {"enum": NAMES}}), ["other"] * 9999),
        ("enum of objects", rows({"items": {"enum": [{"a": n} for n in NAMES]}}), [{"a": 1}] * 999),
        ("unevaluated", rows({"prefixItems": [True], "unevaluatedItems": False}), [1] * 9999),
        ("pattern", rows({"items": {"pattern": "(x+x+)+y"}}), ["x" * 200_000]),
        ("repetitions", rows({"items": {"pattern": r"(a{1,30}){1,30}b"}}), ["a" * 250_000]),
    ):
        with subtests.test(name):
            check_schema(schema)
            with within_a_second():
                errors = Checker(schema).faults({"rows": value})
            assert 1 <= len(errors) <= MAX_ERRORS


def test_of_many_errors_the_first_is_named_and_of_many_alternatives_none() -> None:
    (first,) = Checker(ROWS).faults({"rows": [*["a"] * 5000, *[1] * 4000]})
    alternatives = {"anyOf": [ROWS, ROWS, ROWS], "type": "object"}
    (other,) = Checker(alternatives).faults({"rows": [1] * 9000})

    assert first.field == "params.rows[5000]"
    assert (other.field, other.message) == (
        "params",
        "It does not fit its schema; send a smaller part of it to learn where.",
    )


def test_schema_costs_little_to_check_and_to_make(subtests: pytest.Subtests) -> None:
    large = r"\p{L}{1,64}"
    for name, schema, word in (
        ("patterns", {"allOf": [{"pattern": f"{large}{n}"} for n in range(300)]}, "together"),
        ("patterns that fit", {"allOf": [{"pattern": f"{large}{n}"} for n in range(8)]}, None),
        ("small patterns", {"allOf": [{"pattern": f"a{{1,900}}{n}"} for n in range(300)]}, None),
        ("members", {"enum": [*range(9000)], "items": {"$ref": "#"}}, None),
        ("parts", {"prefixItems": [{}] * 4000, "items": {"$ref": "#"}}, None),
        ("alternatives", {"anyOf": [{"minimum": "1"}] * 900}, "2020-12"),
    ):
        with subtests.test(name), within_a_second():
            with suppress(Invalid) if word is None else pytest.raises(Invalid, match=word):
                check_schema({"type": "object", **schema})
            Checker({"type": "object", **schema} if word is None else {}).faults({"a": 1})


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


# --- formats --------------------------------------------------------------------------------------
def test_formats_are_those_that_the_library_knows() -> None:
    for name in FORMATS:
        jsonschema_rs.Draft202012Validator({"format": name}, ignore_unknown_formats=False)
        check_schema({"type": "object", "items": {"format": name}})
    assert set(FORMAT_CASES) == FORMATS


FORMAT_CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "date": (("2026-02-28",), ("2026-02-29", "2.3.", "٢٠٢٦-01-01", "2026-02-28\n")),
    "time": (("08:30:06Z", "10:00:00.5+08:00"), ("10:00:00", "12:00", "10:00:00Z\n", "25:00:00Z")),
    "date-time": (
        ("2026-11-20T09:30:00Z", "2026-11-20T09:30:00.5+08:00"),
        ("2026-11-20 09:30:00Z", "2026-11-20T09:30:00", "2026-11-20T09:30:00+24:00", "2026-11-20"),
    ),
    "duration": (("P1D", "PT30M", "P1W"), ("PT0.5S", "1D", "P", "-P1D", "P1Y2D", "P1D\n")),
    "email": (("a@b.de", "a@b"), ("a@", "@b", "a b@c.de", "Joe <a@b.de>", "a@[127.0.0.1]")),
    "idn-email": (("ä@ö.de",), ("ä", "ä@")),
    "hostname": (("shop-7.example",), ("a_b.c", "a.", "-a", "")),
    "idn-hostname": (("bücher.example", "任务.cn"), ("a b", "")),
    "ipv4": (("10.0.0.1",), ("01.2.3.4", "10.0.0", "10.0.0.256")),
    "ipv6": (("::1", "2001:db8::1"), ("::1%eth0", ":::", "10.0.0.1")),
    "uri": (("https://example.org/a?b#c", "urn:a:b"), ("/a", "http://ä.de", "a b", "http://%zz")),
    "uri-reference": (("/a", "#b", "../c"), ("http://[", "a b", "/ä")),
    "iri": (("https://bücher.example/ä",), ("/ä", "a b")),
    "iri-reference": (("/ä", "#任"), ("http://[", "a b")),
    "uri-template": (("/a/{b}",), ("/a/{b",)),
    "uuid": (("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",), ("0f1e2d3c4b5a69788796a5b4c3d2e1f0", "x")),
    "regex": (("^a+$",), ("(a",)),
    "json-pointer": (("", "/a/b~1c"), ("a", "/a~2")),
    "relative-json-pointer": (("0", "1/a", "0#"), ("/a", "-1")),
}


def test_formats_are_asserted(subtests: pytest.Subtests) -> None:
    for name, (fitting, other) in FORMAT_CASES.items():
        with subtests.test(name):
            assert [text for text in fitting if not fits({"format": name}, text)] == []
            assert [text for text in other if fits({"format": name}, text)] == []


def test_no_format_takes_long() -> None:
    checker = Checker({"properties": {name: {"format": name} for name in FORMATS}})

    for piece in ("a", "0", ".", ":", "%", "(", "{", "/~0", "a.", "1:", "P1Y", "-", "é", "[", "@"):
        text = piece * (40_000 // len(piece)) + "!"
        with within_a_second():
            checker.faults(dict.fromkeys(FORMATS, text))


# --- patterns -------------------------------------------------------------------------------------
def with_pattern(pattern: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}


def test_pattern_that_has_no_bounds_or_no_meaning_is_refused(subtests: pytest.Subtests) -> None:
    for pattern, reason in (
        (r"^(a)\1$", "look-around"),
        ("^(?=a)b", "look-around"),
        ("a{1,1002}", "too large"),
        (r"(\w{1,50}\s?){1,40}", "too large"),
        ("a{1,600}b{1,600}", "too large"),
        (r"\p{L}{1,100}", "too large"),
        ("(" * 5000, "too large"),
        ("(a", "no regular expression"),
        ("a{", r"write \\{ for a brace"),
    ):
        for schema in (
            with_pattern(pattern),
            {"type": "object", "patternProperties": {pattern: True}},
            {"type": "object", "propertyNames": {"pattern": pattern}},
            {"type": "object", "$defs": {"b": {"pattern": pattern}}},
        ):
            with subtests.test(pattern[:20]), pytest.raises(Invalid, match=reason) as caught:
                check_schema(schema)
            assert caught.value.errors[0].field == "schema"


def test_patterns_are_counted_as_they_are_written() -> None:
    for pattern, more in (
        (r"^\d{4}-\d\d$", 3),
        ("[0-9a-f]{8}-([0-9a-f]{4}-){3}", 20),
        (r"[^\]{9}]{3}", 2),
        ("[]a]{3}[[:alpha:]{9}]{2}", 3),
        ("(?<year>a{2}){3}(?:b)", 5),
        (r"(?i:\p{Letter}\{9)(c{2,})", 1),
    ):
        assert json_schema._repetitions(pattern) == more, pattern


def test_pattern_means_what_json_schema_says(subtests: pytest.Subtests) -> None:
    for pattern, fitting, other in (
        (r"^\d{4}-\d\d$", "2026-11", "2026-1"),
        (r"^[\u4e00-\u9fff]+$", "任务", "task"),
        (r"^C:\\users$", r"C:\users", "C:"),
        (r"b", "abc", "acd"),
        (r"^(?<year>\d+)/(?i:x)$", "7/X", "x/7"),
        (r"^\p{Lu}", "Ä", "ä"),
        (r"^\p{Letter}\p{Script=Han}$", "a任", "1任"),
        (r"^a\sb$", "a\u00a0b", "ab"),
        (r"^\d$", "1", "١"),
        (r"^a$", "a", "a\n"),
        ("^(a+)+$", "aa", "a" * 40 + "!"),
        (r"^\p{L}{1,64}$", "ä" * 64, "ä" * 65),
    ):
        with subtests.test(pattern):
            check_schema(with_pattern(pattern))
            check_params(with_pattern(pattern), {"a": fitting})
            with pytest.raises(Invalid, match="does not match"):
                check_params(with_pattern(pattern), {"a": other})


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
