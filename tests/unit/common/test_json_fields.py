"""JSON objects as fields for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apps.common.admin.json_fields import fields_of
from apps.common.masking.names import forget_declared

SCHEMA = {
    "type": "object",
    "properties": {
        "shop": {"type": "string", "title": "Shop <b>"},
        "pin_word": {"type": "string", "title": "Pin word"},
    },
}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("apps.common.masking.names._read", lambda: frozenset({"receipt"}))
    forget_declared()
    yield
    forget_declared()


def fields(value: Any, schema: Any = None) -> str:
    return fields_of(value, schema).partition("<details")[0]


def test_fields_have_the_titles_of_the_schema_and_its_order() -> None:
    shown = fields({"extra": 1, "shop": "Nanjing Road", "at": {"aisle": 7}}, SCHEMA)
    assert shown.index("Shop &lt;b&gt;") < shown.index("extra") < shown.index("at · aisle")
    assert "Nanjing Road" in shown
    assert "<summary>JSON</summary>" in fields_of({"a": 1})


@pytest.mark.parametrize("secret", ["token", "receipt", "db_password"])
def test_secrets_are_said_to_be_hidden(secret: str) -> None:
    whole = fields_of({secret: "hunter2", "deep": {secret: ["hunter2"]}}, SCHEMA)
    assert whole.count("hidden (secret)") == 2
    assert "hunter2" not in whole


def test_values_read_as_people_write_them(subtests: pytest.Subtests) -> None:
    for value, said in (
        (True, "yes"),
        (False, "no"),
        (None, "–"),
        (2.5, "2.5"),
        (["a", "<i>"], "a</bdi>, <bdi"),
        ([{"a": 1}], "[{&quot;a&quot;: 1}]"),
        ("https://shop.example/1.jpg", 'href="https://shop.example/1.jpg"'),
        ("javascript:alert(1)", ">javascript:alert(1)<"),
        ('https://x"onload=', "&quot;onload"),
    ):
        with subtests.test(value=value):
            shown = fields({"x": value})
            assert said in shown
            assert ("<a " in shown) == ("href" in said)
            assert "<i>" not in shown
