"""S0.2, I52: no schema is kept that a check of params would fall over or get lost in."""

from __future__ import annotations

from typing import Any

import pytest

from apps.common.errors import Invalid
from apps.common.json.references import MAX_STEPS, MAX_SUBSCHEMAS
from apps.common.json.schema import check_params, check_schema


def to(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def chain(length: int) -> dict[str, Any]:
    """A root and `length` - 1 further schemas, each applied to the same value by the one before."""
    links = {str(n): to(str(n - 1)) for n in range(1, length - 1)}
    return {"type": "object", "$defs": {"0": {}, **links}, **to(str(length - 2))}


def doubling(times: int, **keywords: Any) -> dict[str, Any]:
    """Each schema applies the one below twice."""
    links = {
        str(n): {"allOf": [to(str(n - 1)), to(str(n - 1))], **keywords} for n in range(1, times + 1)
    }
    return {"type": "object", "$defs": {"0": {}, **links}, **to(str(times))}


def test_reference_that_leads_astray_is_refused(subtests: pytest.Subtests) -> None:
    for schema, word in (
        ({"properties": {"a": to("nothing")}}, "nothing at that place"),
        ({"properties": {"a": {"$ref": "#nowhere"}}}, "nothing at that place"),
        ({"not": {"$dynamicRef": "#nowhere"}}, "dynamicRef is not used here"),
        ({"items": {"$id": "https://example.org/a"}}, "name the part by .anchor"),
        ({"properties": {"a": {"$ref": "#/allOf/0"}}}, "nothing at that place"),
        ({"properties": {"a": {"$ref": "#/allOf/x"}}, "allOf": [True]}, "nothing at that place"),
        ({"properties": {"a": {"$ref": "#/type/object"}}}, "nothing at that place"),
        ({"$id": "https://example.org/a", "items": {"$ref": "b#"}}, "because nothing is fetched"),
        ({"$defs": {"unused": to("nothing")}}, "nothing at that place"),
        ({"properties": {"minimum": {}, "a": {"$ref": "#/properties"}}}, "no schema itself"),
        ({"enum": [{"a": 1}], "items": {"$ref": "#/enum/0"}}, "no schema itself"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "is written for"),
        ({"items": {"$schema": "http://json-schema.org/draft-03/schema#"}}, "is written for"),
        ({"$ref": "#"}, "endless"),
        ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, "endless"),
        ({"if": {"not": {"$ref": "#"}}}, "endless"),
        ({"dependentSchemas": {"a": {"$ref": "#"}}}, "endless"),
        ({"$dynamicAnchor": "me", "then": {"$ref": "#me"}, "if": {}}, "endless"),
        ({"dependencies": {"b": ["c"], "a": {"$ref": "#"}}}, "endless"),
        ({"properties": {"a": to("a")}, "$defs": {"a": to("b"), "b": to("a")}}, "endless"),
    ):
        with subtests.test(schema=schema):
            with pytest.raises(Invalid, match=word) as caught:
                check_schema({"type": "object", **schema})
            assert [error.field for error in caught.value.errors] == ["schema"]


def test_work_of_references_has_its_limits(subtests: pytest.Subtests) -> None:
    too_wide = f"more than {MAX_SUBSCHEMAS} subschemas"
    open_ended = {"unevaluatedProperties": True}
    for longest, longer, said in (
        (chain(MAX_STEPS), chain(MAX_STEPS + 1), f"more than {MAX_STEPS} steps deep"),
        # Ten lines would be a thousand checks, forty a million millions.
        (doubling(7), doubling(10), too_wide),
        # The search for what is unevaluated weighs more.
        (doubling(3, **open_ended), doubling(5, **open_ended), too_wide),
    ):
        with subtests.test(longest=longest):
            check_schema(longest)
            check_params(longest, {"a": 1})
            with pytest.raises(Invalid, match=said):
                check_schema(longer)


def test_reference_leads_where_the_library_goes(subtests: pytest.Subtests) -> None:
    kinds = {"a/b": {"type": "integer"}, "a~b": {"type": "integer"}, "任": {"type": "integer"}}
    more = {"": {"type": "integer"}, "10%": {"$anchor": "ten", "type": "integer"}}
    for reference in (
        "#/$defs/a~1b",
        "#/$defs/a~0b",
        "#/%24defs/%E4%BB%BB",
        "#/$defs/",
        "#/$defs/10%25",
        "#ten",
        "#/definitions/old",
        "#/properties/list/prefixItems/1",
    ):
        schema = {
            "type": "object",
            "properties": {"list": {"prefixItems": [True, {"type": "integer"}]}},
            "additionalProperties": {"$ref": reference},
            "$defs": kinds | more,
            "definitions": {"old": {"type": "integer"}},
        }
        with subtests.test(reference):
            check_schema(schema)
            check_params(schema, {"a": 1})
            with pytest.raises(Invalid, match="is not of type"):
                check_params(schema, {"a": "1"})


TREE = {
    "$id": "https://example.org/tree",
    "type": "object",
    "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "leaves": to("leaves")},
    "unevaluatedProperties": False,
    "$defs": {
        "leaf": {"$anchor": "leaf", "type": "integer"},
        "leaves": {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#leaf"}]}},
    },
}


def test_schema_that_describes_nested_values_by_itself_is_kept() -> None:
    """Every step leads to an inner value, and values have an end."""
    deepest: dict[str, Any] = {"leaves": [1, {"leaves": []}]}
    for _ in range(15):
        deepest = {"left": deepest}

    check_schema(TREE)

    check_params(TREE, deepest)
    with pytest.raises(Invalid) as caught:
        check_params(TREE, {"right": {"leaves": [1, "two"]}})
    assert [error.field for error in caught.value.errors] == ["params.right.leaves[1]"]
