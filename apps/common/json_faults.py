"""What keeps a value from fitting a JSON Schema, in sentences that a page can translate."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from jsonschema.exceptions import SchemaError, ValidationError

from apps.common.messages import Message
from apps.common.messages import Message as _

MAX_SHOWN = 200

_EMPTY, _NOT_EMPTY = _("{value} should be non-empty"), _("{value} is expected to be empty")
_SHORT, _LONG = _("{value} is too short"), _("{value} is too long")
_NONE_FITS = _("{value} is not valid under any of the given schemas")
# By keyword, what the package says of it.
_TEMPLATES: Mapping[object, tuple[str, ...]] = {
    None: (_("False schema does not allow {value}"),),
    "additionalProperties": (
        _("Additional properties are not allowed ({names} was unexpected)"),
        _("Additional properties are not allowed ({names} were unexpected)"),
        _("{names} does not match any of the regexes: {patterns}"),
        _("{names} do not match any of the regexes: {patterns}"),
    ),
    "anyOf": (_NONE_FITS,),
    "const": (_("{value} was expected"),),
    "contains": (_("{value} does not contain items matching the given schema"),),
    "dependentRequired": (_("{name} is a dependency of {other}"),),
    "enum": (_("{value} is not one of {values}"),),
    "exclusiveMaximum": (_("{value} is greater than or equal to the maximum of {most}"),),
    "exclusiveMinimum": (_("{value} is less than or equal to the minimum of {least}"),),
    "format": (_("{value} is not a {format}"),),
    "items": (
        _("Expected at most {most} item but found {count} extra: {values}"),
        _("Expected at most {most} items but found {count} extra: {values}"),
    ),
    "maxContains": (_("Too many items match the given schema (expected at most {most})"),),
    "maxItems": (_NOT_EMPTY, _LONG),
    "maxLength": (_NOT_EMPTY, _LONG),
    "maxProperties": (_NOT_EMPTY, _("{value} has too many properties")),
    "maximum": (_("{value} is greater than the maximum of {most}"),),
    "minContains": (
        _(
            "Too few items match the given schema "
            "(expected at least {least} but only {count} matched)"
        ),
    ),
    "minItems": (_EMPTY, _SHORT),
    "minLength": (_EMPTY, _SHORT),
    "minProperties": (_EMPTY, _("{value} does not have enough properties")),
    "minimum": (_("{value} is less than the minimum of {least}"),),
    "multipleOf": (_("{value} is not a multiple of {step}"),),
    "not": (_("{value} should not be valid under {schema}"),),
    "oneOf": (_NONE_FITS, _("{value} is valid under each of {schemas}")),
    "pattern": (_("{value} does not match {pattern}"),),
    "required": (_("{name} is a required property"),),
    "type": (_("{value} is not of type {types}"),),
    "unevaluatedItems": (
        _("Unevaluated items are not allowed ({values} was unexpected)"),
        _("Unevaluated items are not allowed ({values} were unexpected)"),
    ),
    "unevaluatedProperties": (
        _("Unevaluated properties are not allowed ({names} was unexpected)"),
        _("Unevaluated properties are not allowed ({names} were unexpected)"),
        _(
            "Unevaluated properties are not valid under the given schema "
            "({names} was unevaluated and invalid)"
        ),
        _(
            "Unevaluated properties are not valid under the given schema "
            "({names} were unevaluated and invalid)"
        ),
    ),
    "uniqueItems": (_("{value} has non-unique elements"),),
}


def told(error: ValidationError | SchemaError) -> str:
    """The package's own words, made anew from their template; what they quote, 200 characters long
    at most."""
    # It makes its errors in the middle of a check, each with a finished text and none with all that
    # the text names.
    for template in _TEMPLATES.get(error.validator, ()):
        if found := _pattern(template).fullmatch(error.message):
            quoted = {name: _cut(text) for name, text in found.groupdict().items()}
            return Message(template, **quoted)
    return error.message[:500]


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    first, *rest = re.split(r"\{(\w+)\}", template)
    steps = [
        f"(?P<{name}>.*?){re.escape(words)}"
        for name, words in zip(rest[::2], rest[1::2], strict=True)
    ]
    # Never going back bounds the time, however often a value repeats the words.
    steps[:-1] = [f"(?>{step})" for step in steps[:-1]]
    return re.compile(re.escape(first) + "".join(steps), re.DOTALL)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
