"""S0.2: templates declare the params of a task, and every misfit is named."""

from __future__ import annotations

from typing import Any

import pytest

from apps.common.errors import Invalid
from apps.common.json_schema import check_params, check_schema

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


def test_every_misfit_is_named_with_its_path() -> None:
    with pytest.raises(Invalid) as caught:
        check_params(SCHEMA, {"shelves": [1, "x"], "day": "2.3.", "more": 1})
    fields = {error.field for error in caught.value.errors}
    assert fields == {"params", "params.shop", "params.shelves[1]", "params.day"}
