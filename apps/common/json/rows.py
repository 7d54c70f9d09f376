"""A schema of type object as rows, one for each property, that people can edit.

Rows say the usual; what else stands in the schema is kept where it stands. A schema of whose fields
rows would give a wrong idea has none: `why_not_rows` says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from apps.common.messages import Message
from apps.common.messages import Message as _

Schema: TypeAlias = Mapping[str, Any]

# A form sends at most 1,000 values.
MAX_ROWS = 100
TEXT, NUMBER, WHOLE, TRUTH, CHOICE, DAY, TIME, LINK, PICTURE, LINES, OTHER = (
    *("text", "number", "integer", "boolean", "choice", "date", "date-time", "link", "picture"),
    *("lines", "other"),
)
KINDS = {
    TEXT: _("text"),
    NUMBER: _("any number"),
    WHOLE: _("whole number"),
    TRUTH: _("yes or no"),
    CHOICE: _("one of several"),
    DAY: _("day"),
    TIME: _("date and time"),
    LINK: _("web link"),
    PICTURE: _("link to a picture"),
    LINES: _("list of texts"),
    OTHER: _("as the JSON says"),
}
# The keywords that make a kind; choices have theirs besides.
_MADE_OF: Mapping[str, Mapping[str, Any]] = {
    TEXT: {"type": "string"},
    NUMBER: {"type": "number"},
    WHOLE: {"type": "integer"},
    TRUTH: {"type": "boolean"},
    CHOICE: {"type": "string"},
    DAY: {"type": "string", "format": "date"},
    TIME: {"type": "string", "format": "date-time"},
    LINK: {"type": "string", "format": "uri"},
    PICTURE: {"type": "string", "format": "uri", "x-kind": "picture"},
    LINES: {"type": "array", "items": {"type": "string"}},
}
# The keywords of the lowest and of the highest value, length or number.
LIMITS: Mapping[str, tuple[str, str]] = {
    TEXT: ("minLength", "maxLength"),
    NUMBER: ("minimum", "maximum"),
    WHOLE: ("minimum", "maximum"),
    LINES: ("minItems", "maxItems"),
}
# Keywords about values of one kind, which another kind has not.
OF_KINDS = frozenset(
    "type format enum const default examples x-kind items prefixItems contains minContains "
    "maxContains minItems maxItems uniqueItems minLength maxLength pattern minimum maximum "
    "exclusiveMinimum exclusiveMaximum multipleOf properties required additionalProperties "
    "patternProperties propertyNames minProperties maxProperties contentEncoding contentMediaType "
    "unevaluatedItems unevaluatedProperties dependentRequired dependentSchemas "
    "allOf anyOf oneOf not if then else $ref $dynamicRef".split()
)
# Keywords that judge several properties at once, or one by another.
_SEVERAL = (
    *("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    *("dependentRequired", "dependentSchemas"),
)
_COMBINING = {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "const"}
_LINE_END = re.compile(r"[\r\n]")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A property; `was` is its name in the schema that is being changed, None of a new one."""

    name: str
    was: str | None = None
    label: str = ""
    kind: str = TEXT
    is_needed: bool = False
    is_secret: bool = False
    least: int | float | None = None
    most: int | float | None = None
    choices: tuple[str, ...] = ()


def why_not_rows(schema: Schema) -> Message | None:
    """Why rows cannot say this schema, which `check_schema` takes; None when they can."""
    properties = schema.get("properties", {})
    if several := [name for name in _SEVERAL if name in schema]:
        return _(
            "{keyword} judges several fields at once, which rows cannot say.", keyword=several[0]
        )
    if len(properties) > MAX_ROWS:
        return _("It has more than {limit} fields, the most that rows show.", limit=MAX_ROWS)
    for name, declared in properties.items():
        if not name or _LINE_END.search(name):
            return _("The name of a field is empty or has several lines: {name}.", name=repr(name))
        if not isinstance(declared, Mapping):
            return _("{name} is true or false in place of a description.", name=name)
        if _LINE_END.search(declared.get("title", "")):
            return _("The label of {name} has several lines.", name=name)
    if unknown := [name for name in schema.get("required", ()) if name not in properties]:
        return _("{name} is required and not among the fields.", name=repr(unknown[0]))
    return None


def rows_of(schema: Schema) -> list[Row]:
    """The rows of a schema that rows can say."""
    required = schema.get("required", ())
    return [
        _row(name, declared, is_needed=name in required)
        for name, declared in schema.get("properties", {}).items()
    ]


def _row(name: str, declared: Schema, *, is_needed: bool) -> Row:
    kind = kind_of(declared)
    low, high = LIMITS.get(kind, ("", ""))
    return Row(
        name=name,
        was=name,
        label=declared.get("title", ""),
        kind=kind,
        is_needed=is_needed,
        is_secret=declared.get("secret") is True,
        least=declared.get(low),
        most=declared.get(high),
        choices=tuple(declared["enum"]) if kind == CHOICE else (),
    )


def kind_of(declared: Schema) -> str:
    """The kind of a property."""
    if _COMBINING & declared.keys():
        return OTHER
    if "enum" in declared:
        is_text = declared.get("type", "string") == "string" and "format" not in declared
        return CHOICE if is_text and _are_plain(declared["enum"]) else OTHER
    if declared.get("type") == "array":
        items = declared.get("items")
        return LINES if isinstance(items, Mapping) and items.get("type") == "string" else OTHER
    made = {name: declared[name] for name in ("type", "format", "x-kind") if name in declared}
    return next((kind for kind, of in _MADE_OF.items() if made == of and kind != CHOICE), OTHER)


def _are_plain(options: Any) -> bool:
    """Whether these are texts, each of which can stand in a line."""
    texts = {each for each in options if isinstance(each, str)}
    return len(texts) == len(options) > 0 and all(
        each and each == each.strip() and each.splitlines() == [each] for each in texts
    )


def schema_of(rows: Sequence[Row], base: Schema) -> dict[str, Any]:
    """The schema with these rows in place of those that it has."""
    was = base.get("properties", {})
    made = {**base}
    if rows or "properties" in base:
        made["properties"] = {row.name: _property(row, was.get(row.was)) for row in rows}
    required = _required(rows, base)
    if required or "required" in base:
        made["required"] = required
    return made


def _required(rows: Iterable[Row], base: Schema) -> list[str]:
    """The names of the rows that are needed, those that were in the order that they had."""
    needed = {row.was: row.name for row in rows if row.is_needed and row.was is not None}
    kept = [needed[name] for name in base.get("required", ()) if name in needed]
    return kept + [row.name for row in rows if row.is_needed and row.name not in kept]


def _property(row: Row, declared: Schema | None) -> dict[str, Any]:
    made = {**(declared or {})}
    had = _row(row.name, made, is_needed=False)
    if declared is None or row.kind not in (had.kind, OTHER):
        made = {name: value for name, value in made.items() if name not in OF_KINDS}
        made = {**_MADE_OF[row.kind], **made}
        had = Row(name=row.name, kind=row.kind, label=had.label, is_secret=had.is_secret)
    if row.label != had.label:
        _put(made, "title", row.label or None)
    if row.kind == CHOICE and row.choices != had.choices:
        made["enum"] = [*row.choices]
    if row.kind in LIMITS:
        low, high = LIMITS[row.kind]
        if row.least != had.least:
            _put(made, low, row.least)
        if row.most != had.most:
            _put(made, high, row.most)
    if row.is_secret != had.is_secret:
        _put(made, "secret", row.is_secret or None)
    return made


def _put(made: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        del made[name]
    else:
        made[name] = value
