"""Checks that references of a JSON Schema resolve, and that validation with it ends soon.

Schemas that call themselves without end, or double their work at every step, would take down the
process that validates with them; so they are rejected before they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, Schema

from apps.common.errors import Invalid
from apps.common.json_patterns import check_patterns
from apps.common.json_rules import MAX_DEPTH
from apps.common.messages import Message
from apps.common.messages import Message as _

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Each step takes several nested calls, and Python allows about a thousand.
MAX_STEPS = 120
# The subschemas of one value, through references and keywords such as allOf.
MAX_SUBSCHEMAS = 1000

# Keywords whose subschemas apply to the same value, and those that apply to values inside it.
_SAME_ONE = ("not", "if", "then", "else")
_SAME_LIST = ("allOf", "anyOf", "oneOf")
_SAME_MAP = ("dependentSchemas",)
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
_REFERENCES = ("$ref", "$dynamicRef")

_TOO_DEEP = _(
    "The schema's references are more than {limit} steps deep or endless; make it simpler."
)
_TOO_WIDE = _(
    "The schema's references are more than {limit} subschemas wide for a single value; "
    "make it simpler."
)

Resolver: TypeAlias = Any


def check_references(schema: Mapping[str, Any]) -> None:
    """Invalid unless every reference leads to a schema in this one and a check by it ends soon."""
    resource = DRAFT202012.create_resource(schema)
    root: Resolver = Registry().resolver_with_root(resource)
    parts = list(_parts(resource, root))
    schemas = {id(part) for part, _resolver in parts}
    for part, resolver in parts:
        _require_dialect(part)
        for found, _resolver in _references(part, resolver):
            if id(found) not in schemas:
                raise Invalid.field(
                    "schema",
                    _(
                        "The schema refers to {what}, which is no schema itself.",
                        what=str(found)[:80],
                    ),
                )
    check_patterns(part for part, _resolver in parts)
    _Walk().measure(schema, root, level=0, steps=0)


def _require_dialect(schema: Any) -> None:
    """Another dialect would change the meaning of what was checked as this one."""
    given = schema.get("$schema", DIALECT) if isinstance(schema, Mapping) else DIALECT
    if given != DIALECT:
        raise Invalid.field(
            "schema",
            _(
                "The schema is written for {given}; write {dialect} or leave it out.",
                given=repr(given)[:200],
                dialect=DIALECT,
            ),
        )


def _parts(resource: Resource[Schema], resolver: Resolver) -> Iterator[tuple[Any, Resolver]]:
    yield resource.contents, resolver
    for below in resource.subresources():
        yield from _parts(below, resolver.in_subresource(below))


def _references(schema: Any, resolver: Resolver) -> Iterator[tuple[Any, Resolver]]:
    """The schemas that the references of this schema lead to."""
    if not isinstance(schema, Mapping):
        return
    for keyword in _REFERENCES:
        if keyword not in schema:
            continue
        try:
            found = resolver.lookup(schema[keyword])
        except Unresolvable as error:
            raise Invalid.field(
                "schema",
                _(
                    "The schema refers to {place}, and there is nothing at that place.",
                    place=repr(schema[keyword])[:200],
                ),
            ) from error
        yield found.contents, found.resolver


@dataclass(frozen=True)
class _Effort:
    """`steps`: the longest chain of subschemas from here; `subschemas`: those of the same value."""

    steps: int = 1
    subschemas: int = 1


class _Walk:
    """Measures each schema once for every depth of the values it applies to."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Effort] = {}

    def measure(self, schema: Any, resolver: Resolver, *, level: int, steps: int) -> _Effort:
        """The effort from this schema on, `steps` deep and `level` values below the root.

        No value lies deeper than MAX_DEPTH. A schema that applies itself to the same value runs
        into the limit of steps like any other chain that is too long.
        """
        if not isinstance(schema, Mapping) or level > MAX_DEPTH:
            return _Effort()
        effort = self._known.get((id(schema), level))
        if effort is None:
            _require_few(steps, MAX_STEPS, _TOO_DEEP)
            same = [
                self.measure(below, at, level=level, steps=steps + 1)
                for below, at in _same(schema, resolver)
            ]
            inner = [
                self.measure(below, at, level=level + 1, steps=steps + 1)
                for below, at in _inner(schema, resolver)
            ]
            effort = _sum(schema, same, inner)
            self._known[id(schema), level] = effort
        _require_few(steps + effort.steps, MAX_STEPS, _TOO_DEEP)
        return effort


def _sum(schema: Mapping[str, Any], same: list[_Effort], inner: list[_Effort]) -> _Effort:
    subschemas = sum(effort.subschemas for effort in same)
    if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
        # `unevaluated…` validates everything else again to find what is left.
        subschemas *= 3
    _require_few(subschemas, MAX_SUBSCHEMAS, _TOO_WIDE)
    longest = max((effort.steps for effort in (*same, *inner)), default=0)
    return _Effort(1 + longest, 1 + subschemas)


def _require_few(count: int, limit: int, template: str) -> None:
    if count > limit:
        raise Invalid.field("schema", Message(template, limit=limit))


def _same(schema: Mapping[str, Any], resolver: Resolver) -> Iterator[tuple[Any, Resolver]]:
    yield from _references(schema, resolver)
    yield from _below(schema, resolver, _SAME_ONE, _SAME_LIST, _SAME_MAP)


def _inner(schema: Mapping[str, Any], resolver: Resolver) -> Iterator[tuple[Any, Resolver]]:
    yield from _below(schema, resolver, _INNER_ONE, _INNER_LIST, _INNER_MAP)


def _below(
    schema: Mapping[str, Any],
    resolver: Resolver,
    ones: tuple[str, ...],
    lists: tuple[str, ...],
    maps: tuple[str, ...],
) -> Iterator[tuple[Any, Resolver]]:
    found = [schema[keyword] for keyword in ones if keyword in schema]
    for keyword in lists:
        found.extend(schema.get(keyword, ()))
    for keyword in maps:
        found.extend(schema.get(keyword, {}).values())
    for below in found:
        yield below, resolver.in_subresource(DRAFT202012.create_resource(below))
