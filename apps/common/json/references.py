"""Checks that references of a JSON Schema resolve, and that validation with it ends soon.

Schemas that call themselves without end, or double their work at every step, would take down the
process that validates with them; so they are rejected before they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from apps.common.errors import Invalid
from apps.common.json_rules import MAX_DEPTH
from apps.common.messages import Message
from apps.common.messages import Message as _

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# A longer chain is hardly meant.
MAX_STEPS = 120
# The subschemas of one value, through references and keywords such as allOf.
MAX_SUBSCHEMAS = 1000

# Keywords whose subschemas apply to the same value, to values inside it, and to none.
_SAME_ONE = ("not", "if", "then", "else")
_SAME_LIST = ("allOf", "anyOf", "oneOf")
_SAME_MAP = ("dependentSchemas", "dependencies")
_INNER_ONE = (
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_INNER_LIST = ("prefixItems",)
_INNER_MAP = ("properties", "patternProperties")
# Of each group one applies to a value in an object, or in a list; but all patterns may.
_EACH_PATTERN = ("patternProperties",)
_TOGETHER = (
    (
        ("properties", "additionalProperties"),
        _EACH_PATTERN,
        ("propertyNames",),
        ("unevaluatedProperties",),
    ),
    (("prefixItems", "items"), ("contains",), ("unevaluatedItems",)),
)
_KEPT_ONE = ("contentSchema",)
_KEPT_MAP = ("$defs", "definitions")

_TOO_DEEP = _(
    "The schema's references are more than {limit} steps deep or endless; make it simpler."
)
_TOO_WIDE = _(
    "The schema's references are more than {limit} subschemas wide for a single value; "
    "make it simpler."
)


def check_references(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The schema and all schemas in it, which fits the meta-schema.

    Invalid unless every reference leads to one of them and a check by the schema ends soon.
    """
    parts = list(_parts(schema))
    for part in parts:
        _require_plain(part, is_root=part is schema)
    places = _Places(schema, parts)
    for part in parts:
        if "$ref" in part:
            places.find(part["$ref"])
    _Walk(places).measure(schema, level=0, steps=0)
    return parts


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        yield schema
        for below in (*_same(schema), *_inner(schema), *_below(schema, _KEPT_ONE, (), _KEPT_MAP)):
            yield from _parts(below)


def _require_plain(part: Mapping[str, Any], *, is_root: bool) -> None:
    given = part.get("$schema", DIALECT)
    if given != DIALECT:
        # Another dialect would change the meaning of what was checked as this one.
        raise _refusal(
            _(
                "The schema is written for {given}; write {dialect} or leave it out.",
                given=repr(given)[:200],
                dialect=DIALECT,
            )
        )
    if "$dynamicRef" in part:
        raise _refusal(_("$dynamicRef is not used here; write a $ref into the schema (#/…)."))
    if "$id" in part and not is_root:
        raise _refusal(
            _(
                "Only the schema as a whole has an $id, and {place} is further inside; name the "
                "part by $anchor.",
                place=repr(part["$id"])[:200],
            )
        )


def _refusal(message: str) -> Invalid:
    return Invalid.field("schema", message)


class _Places:
    """Where references of a schema lead: the schema itself, a pointer into it, or an anchor."""

    def __init__(self, schema: Mapping[str, Any], parts: list[Mapping[str, Any]]) -> None:
        self._schema = schema
        self._known = {id(part) for part in parts}
        self._anchors = {
            part[keyword]: part
            for part in parts
            for keyword in ("$anchor", "$dynamicAnchor")
            if keyword in part
        }

    def find(self, reference: str) -> Any:
        """The schema that the reference leads to, which may be true or false."""
        if not reference.startswith("#"):
            raise _refusal(
                _(
                    "The schema refers to {place}; only references into itself (#/…) work, "
                    "because nothing is fetched.",
                    place=repr(reference)[:200],
                )
            )
        try:
            found = self._at(unquote(reference[1:]))
        except (LookupError, ValueError, TypeError) as error:
            raise _refusal(
                _(
                    "The schema refers to {place}, and there is nothing at that place.",
                    place=repr(reference)[:200],
                )
            ) from error
        if not (isinstance(found, bool) or id(found) in self._known):
            raise _refusal(
                _("The schema refers to {what}, which is no schema itself.", what=str(found)[:80])
            )
        return found

    def _at(self, place: str) -> Any:
        if place and not place.startswith("/"):
            return self._anchors[place]
        found: Any = self._schema
        for part in place.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if isinstance(found, list) else found[name]
        return found


@dataclass(frozen=True)
class _Effort:
    """`steps`: the longest chain of subschemas from here; `subschemas`: those of the same value."""

    steps: int = 1
    subschemas: int = 1


_LEAST = _Effort()


class _Walk:
    """Measures each schema once for every depth of the values it applies to."""

    def __init__(self, places: _Places) -> None:
        self._places = places
        self._known: dict[tuple[int, int], _Effort] = {}
        self._found: dict[int, tuple[list[Any], list[Any]]] = {}

    def measure(self, schema: Any, *, level: int, steps: int) -> _Effort:
        """The effort from this schema on, `steps` deep and `level` values below the root.

        No value lies deeper than MAX_DEPTH. A schema that applies itself to the same value runs
        into the limit of steps like any other chain that is too long.
        """
        if not isinstance(schema, Mapping) or level > MAX_DEPTH:
            return _LEAST
        effort = self._known.get((id(schema), level))
        if effort is None:
            _require_few(steps, MAX_STEPS, _TOO_DEEP)
            below, inside = self._subschemas(schema)
            same = [self.measure(each, level=level, steps=steps + 1) for each in below]
            inner = [self.measure(each, level=level + 1, steps=steps + 1) for each in inside]
            effort = _sum(schema, same, inner) if same or inner else _LEAST
            self._known[id(schema), level] = effort
        _require_few(steps + effort.steps, MAX_STEPS, _TOO_DEEP)
        return effort

    def _subschemas(self, schema: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """The subschemas of the same value, and those of values inside it."""
        found = self._found.get(id(schema))
        if found is None:
            reached = [self._places.find(schema["$ref"])] if "$ref" in schema else []
            found = self._found[id(schema)] = ([*reached, *_same(schema)], _inner(schema))
        return found


def _sum(schema: Mapping[str, Any], same: list[_Effort], inner: list[_Effort]) -> _Effort:
    subschemas = sum(effort.subschemas for effort in same)
    if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
        # `unevaluated…` validates everything else again to find what is left.
        subschemas *= 3
    _require_few(subschemas, MAX_SUBSCHEMAS, _TOO_WIDE)
    longest = max((effort.steps for effort in (*same, *inner)), default=0)
    return _Effort(1 + longest, 1 + subschemas)


class Paths:
    """On how many paths a check reaches the values of each level, at most.

    Alternatives that lead to one schema double them at every level. Whether a value fits is still
    known soon, because the library remembers what it has found; its errors are made on each path.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._places = _Places(schema, list(_parts(schema)))
        self._known: dict[tuple[int, int], int] = {}

    def count(self, levels: int) -> int:
        """The subschemas that apply to a value so many levels deep and to those around it, each as
        often as it does."""
        return self._count(self._schema, levels)

    def _count(self, schema: Any, levels: int) -> int:
        if not isinstance(schema, Mapping) or levels < 0:
            return 1
        key = id(schema), levels
        if key not in self._known:
            # A schema that was stored by an earlier version may lead to itself.
            self._known[key] = 1
            reached = [self._places.find(schema["$ref"])] if "$ref" in schema else []
            same = sum(self._count(each, levels) for each in (*reached, *_same(schema)))
            self._known[key] = (
                1
                + same
                + max(
                    sum(self._most(alternatives, schema, levels - 1) for alternatives in kind)
                    for kind in _TOGETHER
                )
            )
        return self._known[key]

    def _most(self, keywords: tuple[str, ...], schema: Mapping[str, Any], levels: int) -> int:
        kinds = (_INNER_ONE, _INNER_LIST, _INNER_MAP)
        ones, lists, maps = (tuple(x for x in kind if x in keywords) for kind in kinds)
        found = _below(schema, ones, lists, maps)
        counts = [self._count(each, levels) for each in found]
        if keywords == _EACH_PATTERN:
            return sum(counts)
        return max(counts, default=0)


def _require_few(count: int, limit: int, template: str) -> None:
    if count > limit:
        raise _refusal(Message(template, limit=limit))


def _same(schema: Mapping[str, Any]) -> list[Any]:
    return _below(schema, _SAME_ONE, _SAME_LIST, _SAME_MAP)


def _inner(schema: Mapping[str, Any]) -> list[Any]:
    return _below(schema, _INNER_ONE, _INNER_LIST, _INNER_MAP)


def _below(
    schema: Mapping[str, Any],
    ones: tuple[str, ...],
    lists: tuple[str, ...],
    maps: tuple[str, ...],
) -> list[Any]:
    found = [schema[keyword] for keyword in ones if keyword in schema]
    for keyword in lists:
        found.extend(schema.get(keyword, ()))
    for keyword in maps:
        found.extend(schema.get(keyword, {}).values())
    return found
