"""Checks of params and contexts by JSON Schema 2020-12.

The only module that knows the library behind it, which needs settings: that it fetches nothing,
that it asserts formats, how large a pattern may be. The library collects all errors before it
gives the first one, so it is asked for all of them only where they are few.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from jsonschema_rs import (
    Draft202012Validator,
    EmailOptions,
    FancyRegexOptions,
    RegexOptions,
    ValidationError,
)

from apps.common.errors import FieldError, Invalid
from apps.common.json.references import DIALECT, Paths, check_references
from apps.common.json_rules import canonical, count_members, members_by_level
from apps.common.masking.kept import Kept
from apps.common.masking.patterns import MASK
from apps.common.masking.quoting import kind_of, quote_key
from apps.common.messages import Message
from apps.common.messages import Message as _

MAX_ERRORS = 20
MAX_SHOWN = 200
# The cost of a check up to which all errors are made; each takes some 5 µs.
MAX_LISTED = 10_000
# The same where alternatives are tried: even the first error has all errors of each alternative.
MAX_COST = 100_000
# Bytes of one pattern made ready, and of all patterns of a schema.
MAX_PATTERN = 4 << 20
MAX_PATTERNS = 32 << 20
# By how many letters the repetitions of a pattern lengthen it, nested ones multiplied. A text of
# 250,000 letters then takes less than a second, and with three times as many half a minute.
MAX_REPETITIONS = 1000
FORMATS = frozenset(
    "date time date-time duration email idn-email hostname idn-hostname ipv4 ipv6 uri "
    "uri-reference iri iri-reference uri-template uuid regex json-pointer "
    "relative-json-pointer".split()
)

# The messages by the name of the error; `wanted` is the value of the keyword.
_MESSAGES = {
    "$ref": _("A reference leads to nothing that can be used"),
    "additionalProperties": _("Unknown: {wanted}"),
    "anyOf": _("{value} fits none of the allowed schemas"),
    "const": _("{value} is not {wanted}"),
    "contains": _("{value} has no item of the kind that it needs"),
    "enum": _("{value} is not one of {wanted}"),
    "exclusiveMaximum": _("{value} is not less than {wanted}"),
    "exclusiveMinimum": _("{value} is not greater than {wanted}"),
    "falseSchema": _("{value} is not allowed here; leave it out"),
    "format": _("{value} does not have the format {wanted}"),
    "maxContains": _("{value} has too many items of the kind that it needs"),
    "maxItems": _("{value} has more than {wanted} items"),
    "maxLength": _("{value} is longer than {wanted} characters"),
    "maxProperties": _("{value} has more than {wanted} properties"),
    "maximum": _("{value} is greater than {wanted}"),
    "minContains": _("{value} has too few items of the kind that it needs"),
    "minItems": _("{value} has fewer than {wanted} items"),
    "minLength": _("{value} is shorter than {wanted} characters"),
    "minProperties": _("{value} has fewer than {wanted} properties"),
    "minimum": _("{value} is less than {wanted}"),
    "multipleOf": _("{value} is not a multiple of {wanted}"),
    "not": _("{value} fits a schema that is not allowed"),
    "oneOf": _("{value} must fit exactly one of the allowed schemas"),
    "pattern": _("{value} does not match {wanted}"),
    "required": _("Missing: {wanted}"),
    "type": _("{value} is not of type {wanted}"),
    "unevaluatedItems": _("{value} has items that no part of the schema allows"),
    "unevaluatedProperties": _("No part of the schema allows: {wanted}"),
    "uniqueItems": _("{value} has items that are equal"),
}
# Keywords whose value is a list of alternatives or names.
_LISTED = frozenset({"additionalProperties", "enum", "type", "unevaluatedProperties"})
# Keywords whose value is names in the checked value.
_NAMES = frozenset({"additionalProperties", "unevaluatedProperties"})
_UNPLACED = _("It does not fit its schema; send a smaller part of it to learn where.")

_LOOKS = _(
    "The pattern {pattern} cannot be matched in bounded time; do without look-around and "
    "back-references."
)
_TOO_LARGE = _(
    "The pattern {pattern} is too large to be matched in bounded time; use maxLength for the "
    "length, and repetitions of at most 1000 in all, nested ones multiplied."
)
_WRONG = _(
    "The pattern {pattern} is no regular expression; look at its brackets, and write \\{{ for a "
    "brace."
)

_OPTIONS: dict[str, Any] = {
    "offline": True,
    "validate_formats": True,
    "pattern_options": RegexOptions(size_limit=MAX_PATTERN),
    "email_options": EmailOptions(allow_display_text=False, allow_domain_literal=False),
    # Its own texts would quote the value; they are not shown.
    "mask": "…",
}
# Patterns are checked apart, with advice. The library's own check of schemas would fetch `$schema`.
_META = Draft202012Validator({"$ref": DIALECT}, **_OPTIONS, formats={"regex": lambda _text: True})


# --- schemas ------------------------------------------------------------------------------------
def check_schema(schema: Any, *, field: str = "schema") -> None:
    """Invalid unless the value, a JSON value, is a JSON Schema of type object that works."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise Invalid.field(field, _('It must be a JSON Schema whose "type" is "object".'))
    plain = _plain(schema)
    if not _META.is_valid(plain):
        first = min(_META.iter_errors(plain), key=_order)
        # In the schema of schemas only `type` has branches.
        is_type = first.kind.name == "anyOf"
        what = _bad_type(first.instance) if is_type else _message(first, plain, _shown)
        raise Invalid.field(_path(field, first), _("Not a JSON Schema 2020-12: {what}", what=what))
    try:
        parts = check_references(plain)
        _check_formats(parts)
        _check_patterns(parts)
    except Invalid as error:
        raise Invalid.field(field, error.detail) from error
    if trouble := Checker(plain).trouble:
        raise Invalid.field(field, trouble)


def _bad_type(value: Any) -> Message:
    return _(
        "{value} is no type; use one of {known}, or a list of some of them.",
        value=_shown(value),
        known="array, boolean, integer, null, number, object, string",
    )


def _check_formats(parts: Iterable[Mapping[str, Any]]) -> None:
    for part in parts:
        if part.get("format", "date") not in FORMATS:
            raise Invalid(
                _(
                    "There is no format {given}; use one of {known}, or leave it out.",
                    given=_shown(part["format"]),
                    known=", ".join(sorted(FORMATS)),
                )
            )


def _check_patterns(parts: Iterable[Mapping[str, Any]]) -> None:
    patterns: set[str] = set()
    for part in parts:
        patterns.update(part.get("patternProperties", ()))
        if "pattern" in part:
            patterns.add(part["pattern"])
    total = 0
    for pattern in sorted(patterns):
        total += _size(pattern)
        if total > MAX_PATTERNS:
            raise Invalid(
                _(
                    "The patterns of the schema are too large together; use maxLength for the "
                    "length, and fewer classes of letters such as \\p."
                )
            )


def _size(pattern: str) -> int:
    """The bytes that a pattern takes when it is made ready, rounded up; Invalid for a bad one."""
    if not _is_made(pattern, MAX_PATTERN):
        raise _bad_pattern(pattern, _fault_of(pattern))
    if _repetitions(pattern) > MAX_REPETITIONS:
        raise _bad_pattern(pattern, _TOO_LARGE)
    sizes = (MAX_PATTERN >> 10, MAX_PATTERN >> 6, MAX_PATTERN >> 3)
    return next((size for size in sizes if _is_made(pattern, size)), MAX_PATTERN)


def _fault_of(pattern: str) -> str:
    """The message about a pattern that cannot be made: too large, with look-around, or wrong."""
    if len(pattern) > MAX_REPETITIONS or _is_made(pattern, MAX_PATTERN << 4):
        return _TOO_LARGE
    return _LOOKS if _is_made(pattern, None) else _WRONG


def _bad_pattern(pattern: str, template: str) -> Invalid:
    return Invalid(Message(template, pattern=_shown(pattern)))


def _is_made(pattern: str, size: int | None) -> bool:
    """Whether the text is a pattern of at most that many bytes; None: also one with look-around."""
    options = RegexOptions(size_limit=size) if size else FancyRegexOptions()
    try:
        Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except ValidationError:
        return False
    return True


# One atom, the begin of a group, or a repetition with its numbers.
_TOKEN = re.compile(
    r"\\[pPux]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[[^\]]*\]|[^\]\\])*\]"
    r"|\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:?))?|\{(?P<least>\d+)(?:,(?P<most>\d*))?\}|.",
    re.DOTALL,
)


def _repetitions(pattern: str) -> int:
    """The atoms by which a pattern grows when its counted repetitions are written out."""
    open_groups, atoms, last = [0], 0, 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if token["least"]:
            times = max(1, int(token["most"] or token["least"]))
            open_groups[-1] += last * (times - 1)
            last *= times
        elif text.startswith("("):
            open_groups.append(0)
        elif text == ")":
            last = open_groups.pop()
            open_groups[-1] += last
        elif text not in "^$|*+?":
            atoms, last = atoms + 1, 1
            open_groups[-1] += 1
    return open_groups[0] - atoms


# --- values -------------------------------------------------------------------------------------
def check_params(
    schema: Mapping[str, Any] | None, params: Mapping[str, Any], *, field: str = "params"
) -> None:
    """Invalid with every error and its path when the params do not fit; no schema fits all."""
    if schema is None:
        return
    errors = Checker(schema).faults(params, field=field)
    if errors:
        raise Invalid(
            _(
                "The {field} do not fit their schema: {what}",
                field=field,
                what=errors[0].message,
            ),
            errors=errors,
        )


class Checker:
    """A schema made ready for many values, each of which `check_tree` has passed.

    A schema that was stored by an earlier version may not work any more; then no value fits it.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema

    @cached_property
    def trouble(self) -> Message | None:
        """Why the schema does not work, if so."""
        return self._made if isinstance(self._made, Message) else None

    def faults(
        self, params: Mapping[str, Any], *, field: str = "params", is_brief: bool = False
    ) -> list[FieldError]:
        """Why the params do not fit, each error with its path, at most 20. With `is_brief` only
        that they do not, which costs the least. Secrets that were kept fit in any case."""
        validator = self._made
        if isinstance(validator, Message):
            return [FieldError(field, "invalid", validator)]
        is_kept = isinstance(params, Kept)
        # The library refuses some subclasses of text and numbers, and lets others pass unchecked.
        params = _plain(params.shown if isinstance(params, Kept) else params)
        if validator.is_valid(params):
            return []
        errors = [] if is_brief and not is_kept else self._errors(validator, params)
        if is_kept and errors:
            errors = [each for each in errors if not _is_mask(each.instance)]
            if not errors:
                return []
        errors = errors[:MAX_ERRORS]
        found = [FieldError(_path(field, e), "invalid", _message(e, params)) for e in errors]
        # An error of several branches is one.
        return [*dict.fromkeys(found)] or [FieldError(field, "invalid", _UNPLACED)]

    def cost(self, params: Mapping[str, Any]) -> int:
        """The number of errors that a check of these params may make, roughly."""
        return (1 + count_members(params)) * max(self._size, self._repeats(params))

    @cached_property
    def _made(self) -> Draft202012Validator | Message:
        try:
            return Draft202012Validator(canonical(self._schema), **_OPTIONS)
        except ValidationError as error:
            what = FieldError(
                _path("schema", error), "", _message(error, self._schema, _shown)
            ).named
            return _("The schema itself does not work and must be saved anew: {what}", what=what)

    @cached_property
    def _size(self) -> int:
        return 1 + count_members(self._schema)

    def _repeats(self, params: Mapping[str, Any]) -> int:
        """How many subschemas one value meets where it meets some again and again; else 0."""
        if self._paths is None:
            return 0
        levels = len(members_by_level(params))
        count = self._paths.count(levels)
        return count if count > self._size * (levels + 1) else 0

    @cached_property
    def _paths(self) -> Paths | None:
        return Paths(self._schema) if '"$ref":' in canonical(self._schema) else None

    @cached_property
    def _has_branches(self) -> bool:
        text = canonical(self._schema)
        return '"anyOf":' in text or '"oneOf":' in text

    def _errors(
        self, validator: Draft202012Validator, params: Mapping[str, Any]
    ) -> list[ValidationError]:
        """The first errors, or the first one where all would take long, or none."""
        cost = self.cost(params)
        if cost <= MAX_LISTED:
            return sorted(validator.iter_errors(params), key=_order)
        if cost > MAX_COST and (self._has_branches or self._repeats(params)):
            return []
        try:
            validator.validate(params)
        except ValidationError as error:
            return [error]
        return []


def _plain(value: Any) -> Any:
    """The JSON value in the plain types of Python."""
    return json.loads(canonical(value))


# --- texts --------------------------------------------------------------------------------------
def _message(
    error: ValidationError, root: Any, shown: Callable[[Any], str | Message] = kind_of
) -> Message:
    """The text of an error in the value `root`; `shown` is the text that it has for a value.

    By default that is only the kind of the value; schemas are shown to all who may read them.
    """
    name, value, wanted = error.kind.name, error.instance, error.kind.value
    keyword = error.schema_path[-1] if error.schema_path else ""
    if name == "propertyNames":
        return _message(wanted, root, shown)
    if name == "contains":
        # The library says which keyword it is only by the place.
        name = str(keyword)
    elif name == "falseSchema" and keyword == "additionalProperties":
        # Without `properties` beside it the error has one of the values, with the place of all.
        parent = _at(root, error)
        if parent != value:
            name, wanted = str(keyword), list(parent)
    template = _MESSAGES.get(name)
    if template is None:
        return _UNPLACED
    if name in _NAMES:
        wanted = [*map(quote_key, wanted)]
    return Message(
        template,
        value=shown(value),
        wanted=_shown(*wanted) if name in _LISTED else _shown(wanted),
    )


def _at(root: Any, error: ValidationError) -> Any:
    for part in error.instance_path:
        root = root[part]
    return root


def _shown(*values: Any) -> str:
    text = ", ".join(json.dumps(each, ensure_ascii=False, default=str) for each in values)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def _path(root: str, error: ValidationError) -> str:
    """The path of the error: `params.shop.floor`, `params.items[2]`."""
    path = root
    for part in _place(error):
        path += f"[{part}]" if isinstance(part, int) else f".{quote_key(part)}"
    return path


def _place(error: ValidationError) -> list[str | int]:
    place = error.instance_path
    return [*place, error.kind.value] if error.kind.name == "required" else place


def _is_mask(value: Any) -> bool:
    return isinstance(value, str) and MASK in value


def _order(error: ValidationError) -> list[tuple[bool, str | int]]:
    """The key that sorts errors by their places."""
    return [(isinstance(part, int), part) for part in _place(error)]
