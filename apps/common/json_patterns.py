"""Patterns of JSON Schemas, matched by RE2 in a time that grows with the text and no faster.

Python's `re` tries every way to match: forty letters can keep it busy for hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import re2
from jsonschema import Draft202012Validator, FormatChecker, validators
from jsonschema.exceptions import ValidationError

from apps.common.errors import Invalid
from apps.common.messages import Message as _

MAX_SHOWN = 100
# The check of uri-template takes a time that grows with the square of the length.
MAX_TEMPLATE = 2000

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
# JSON Schema writes a code point as \u4e00, RE2 as \x{4e00}. An escaped backslash is none.
_CODE_POINT = re.compile(r"(\\[^u])|\\u([0-9a-fA-F]{4})")


def check_patterns(schemas: Iterable[Any]) -> None:
    """Invalid unless RE2 knows each pattern of a schema, given with all its subschemas."""
    keywords: set[str] = set()
    for schema in schemas:
        if isinstance(schema, Mapping):
            keywords.update(schema)
            for pattern in schema.get("patternProperties", ()):
                _compiled(pattern)
            if "pattern" in schema:
                _compiled(schema["pattern"])
    # jsonschema would match the patterns by itself, wherever they stand.
    if {"patternProperties", "unevaluatedProperties"} <= keywords:
        raise Invalid(
            _(
                "patternProperties and unevaluatedProperties cannot be used together; use "
                "additionalProperties."
            )
        )


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text; Invalid when RE2 does not know it."""
    return _compiled(pattern).search(text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(_CODE_POINT.sub(_code_point, pattern), _OPTIONS)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise Invalid(
            _(
                "The pattern {pattern} cannot be matched in bounded time ({reason}); do without "
                "look-around, back-references and repetitions of more than 1000.",
                pattern=repr(pattern)[:MAX_SHOWN],
                reason=reason[:MAX_SHOWN],
            )
        ) from error


def _code_point(found: re.Match[str]) -> str:
    return found[1] or rf"\x{{{found[2]}}}"


def unknown(schema: Mapping[str, Any], instance: Mapping[str, Any]) -> list[str]:
    """The properties that neither `properties` nor `patternProperties` of the schema name."""
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [
        name
        for name in instance
        if name not in known and not any(matches(pattern, name) for pattern in patterns)
    ]


# --- The keywords of jsonschema that would use `re` -----------------------------------------------


def _pattern(
    validator: Any, wanted: str, instance: Any, _schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not matches(wanted, instance):
        yield ValidationError(f"{instance!r} does not match {wanted!r}")


def _pattern_properties(
    validator: Any, wanted: Mapping[str, Any], instance: Any, _schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for pattern, below in wanted.items():
            for name, value in instance.items():
                if matches(pattern, name):
                    yield from validator.descend(value, below, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, wanted: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    extras = unknown(schema, instance)
    if validator.is_type(wanted, "object"):
        for name in extras:
            yield from validator.descend(instance[name], wanted, path=name)
    elif not wanted and extras:
        yield ValidationError(f"Additional properties: {', '.join(extras)}")


Validator: Any = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    },
)
FORMATS = FormatChecker()
# Patterns are checked apart, with advice.
META_FORMATS = FormatChecker(name for name in FormatChecker.checkers if name != "regex")


_is_template = FormatChecker.checkers["uri-template"][0]


@FORMATS.checks("uri-template")
def _is_short_template(value: object) -> bool:
    return bool(not isinstance(value, str) or (len(value) <= MAX_TEMPLATE and _is_template(value)))


@FORMATS.checks("regex", raises=Invalid)
def _is_pattern(value: object) -> bool:
    return not isinstance(value, str) or bool(_compiled.__wrapped__(value))
