"""S0.2: the admin form of params is built from the template's JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django import forms
from hypothesis import given
from hypothesis import strategies as st

from apps.common.admin.json_text import JsonTextField
from apps.common.admin.schema_fields import SchemaField, fields_for
from apps.common.admin.schema_form import USES_RAW, SchemaForm, covered
from apps.common.errors import FieldError, Invalid
from apps.common.json.schema import check_params
from apps.common.json_rules import canonical
from apps.common.masking import MASK
from tests.masks import CODE, PRIVATE_KEY

EVERYTHING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "shop": {"type": "string", "title": "Shop", "maxLength": 40},
        "note": {"type": "string", "maxLength": 4000},
        "photos": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "weight": {"type": "number"},
        "urgent": {"type": "boolean"},
        "fragile": {"type": "boolean"},
        "kind": {"enum": ["shelf", "till", 5, True]},
        "unit": {"const": "kg"},
        "on": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "items": {"type": "array", "items": {"type": "string"}},
        "api_key": {"type": "string"},
        "place": {
            "type": "object",
            "title": "Place",
            "properties": {"street": {"type": "string"}, "floor": {"type": "integer"}},
        },
        "odd": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["shop", "urgent", "photos"],
    "additionalProperties": False,
}
STORED = {
    "shop": "S1",
    "note": "two\nlines",
    "photos": 2,
    "weight": 1.0,
    "urgent": False,
    "fragile": True,
    "kind": 5,
    "unit": "kg",
    "on": "2026-03-02",
    "at": "2026-03-02T09:30:15.123456+02:00",
    "items": ["a", "b"],
    "api_key": "hunter2",
    "place": {"street": "Main", "floor": -1},
    "odd": None,
}


def part_of(prop: dict[str, Any], *, required: bool = False, **schema: Any) -> SchemaField:
    """The one part of a schema with the one property `p`."""
    wanted = ["p"] if required else []
    (part,) = fields_for({"type": "object", "properties": {"p": prop}, "required": wanted} | schema)
    return part


def made(
    schema: dict[str, Any] | None, stored: dict[str, Any] | None, data: Any = None, **kwargs: Any
) -> SchemaForm:
    return SchemaForm(
        schema,
        stored=stored,
        check=lambda params: check_params(schema, params),
        data=data,
        **kwargs,
    )


def sent_by(form: SchemaForm, **changes: Any) -> dict[str, str]:
    """What a browser sends of the unbound form; changes name properties as `place__street`."""
    sent = {}
    for bound in form:
        value = bound.value()
        is_box = isinstance(bound.field.widget, forms.CheckboxInput)
        is_secret = isinstance(bound.field.widget, forms.PasswordInput)
        if is_secret or value is None or (is_box and not value):
            continue
        text = "on" if is_box else str(value).replace("\n", "\r\n")
        if getattr(bound.field.widget, "input_type", "") == "datetime-local":
            # Browsers leave out seconds that are 0.
            text = text.removesuffix(":00")
        sent[bound.html_name] = text
    for name, value in changes.items():
        key = name if name in {"raw", "uses_raw"} else "value/" + name.replace("__", "/")
        if value is None:
            sent.pop(f"params-{key}", None)
        else:
            sent[f"params-{key}"] = value
    return sent


def test_each_kind_of_property_has_its_field(subtests: pytest.Subtests) -> None:
    for prop, field in (
        ({"type": "string"}, "TextFormField"),
        ({"type": "string", "format": "date"}, "DayFormField"),
        ({"type": "string", "format": "date-time"}, "InstantFormField"),
        ({"type": "string", "format": "email"}, "TextFormField"),
        ({"type": "integer"}, "IntegerField"),
        ({"type": "number"}, "NumberFormField"),
        ({"type": "boolean"}, "ChoiceOfJson"),
        ({"enum": ["a", "b"]}, "ChoiceOfJson"),
        ({"const": 7}, "ChoiceOfJson"),
        ({"type": "array", "items": {"type": "string"}}, "LinesFormField"),
        ({"type": "array", "items": {"type": "integer"}}, "JsonTextField"),
        ({"type": "array"}, "JsonTextField"),
        ({"type": ["string", "null"]}, "JsonTextField"),
        ({"enum": ["a", None]}, "JsonTextField"),
        ({"anyOf": [{"type": "string"}]}, "JsonTextField"),
        ({"type": "string", "not": {"const": "x"}}, "JsonTextField"),
        ({"type": "object"}, "JsonTextField"),
        ({"$ref": "https://example.org/x"}, "JsonTextField"),
        ({"$ref": "#/nowhere"}, "JsonTextField"),
        ({}, "JsonTextField"),
        (True, "JsonTextField"),
    ):
        with subtests.test(prop=prop):
            assert type(part_of(prop).field).__name__ == field


def test_required_boolean_is_a_switch_and_an_optional_one_may_be_left_open() -> None:
    assert type(part_of({"type": "boolean"}, required=True).field).__name__ == "Truth"
    optional = part_of({"type": "boolean"}).field
    assert isinstance(optional, forms.ChoiceField)
    assert [value for value, _ in optional.choices] == ["", "true", "false"]  # type: ignore[union-attr]


def test_reference_into_the_schema_is_followed_and_a_circle_is_not() -> None:
    defs = {"$defs": {"n": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}}}
    assert isinstance(part_of({"$ref": "#/$defs/n"}, **defs).field, forms.IntegerField)
    assert isinstance(part_of({"$ref": "#/$defs/loop"}, **defs).field, JsonTextField)


def test_object_is_opened_one_level_and_no_deeper() -> None:
    inner = {"type": "object", "properties": {"c": {"type": "string"}}}
    schema = {"properties": {"a": {"type": "object", "properties": {"b": inner}}}}
    (part,) = fields_for(schema)
    assert part.path == ("a", "b")
    assert isinstance(part.field, JsonTextField)


def test_no_two_properties_share_a_field_name() -> None:
    text = {"type": "string"}
    nested = {"type": "object", "properties": {"b": text}}
    parts = fields_for({"properties": {"a": nested, "a/b": text, "a~1b": text, "raw": text}})
    assert len({part.name for part in parts}) == len(parts) == 4


def test_words_of_the_schema_are_escaped_where_the_theme_prints_them_as_they_are() -> None:
    field = part_of({"type": "string", "description": "<b onclick=x>"}).field
    assert str(field.help_text) == "&lt;b onclick=x&gt;"


def test_untouched_form_keeps_every_stored_value_to_the_letter() -> None:
    form = made(EVERYTHING, STORED, sent_by(made(EVERYTHING, STORED)))
    assert form.is_valid(), form.errors
    assert canonical(form.params) == canonical(STORED)


def test_untouched_time_of_a_full_minute_stays_to_the_letter() -> None:
    stored = {**STORED, "at": "2026-03-02T09:30:00Z"}
    form = made(EVERYTHING, stored, sent_by(made(EVERYTHING, stored)))
    assert form.is_valid()
    assert canonical(form.params) == canonical(stored)


def test_new_form_starts_with_the_defaults_and_reads_every_kind() -> None:
    form = made(EVERYTHING, None)
    assert form["value/photos"].value() == 3
    typed = {
        "shop": "S9",
        "note": "a\r\nb",
        "photos": "4",
        "weight": "2",
        "urgent": "on",
        "fragile": "false",
        "kind": "true",
        "unit": '"kg"',
        "on": "2026-12-31",
        "at": "2026-12-31T23:59:59",
        "items": "x\r\n\r\ny",
        "api_key": "s",
        "place__street": "Side",
        "odd": "[1]",
    }
    schema = {**EVERYTHING, "properties": {**EVERYTHING["properties"], "odd": {}}}
    bound = made(schema, None, sent_by(made(schema, None), **typed))
    assert bound.is_valid(), bound.errors
    assert bound.params == {
        **{"shop": "S9", "note": "a\nb", "photos": 4, "weight": 2, "urgent": True},
        **{"fragile": False, "kind": True, "unit": "kg", "items": ["x", "y"], "api_key": "s"},
        **{"on": "2026-12-31", "at": "2026-12-31T23:59:59+00:00"},
        **{"place": {"street": "Side"}, "odd": [1]},
    }
    assert isinstance(bound.params["weight"], int)


def test_emptied_optional_fields_leave_the_params() -> None:
    left = dict.fromkeys("note items kind fragile on place__street place__floor".split(), "")
    form = made(EVERYTHING, STORED, sent_by(made(EVERYTHING, STORED), **left))
    assert form.is_valid(), form.errors
    emptied = {"note", "items", "kind", "fragile", "on", "place"}
    assert form.params == {key: value for key, value in STORED.items() if key not in emptied}


def test_default_is_not_slipped_into_params_that_are_edited() -> None:
    stored = {"shop": "S1", "urgent": False}
    schema = {**EVERYTHING, "required": ["shop", "urgent"]}
    form = made(schema, stored, sent_by(made(schema, stored)))
    assert form.is_valid(), form.errors
    assert form.params == stored


def test_raw_json_keeps_a_secret_where_the_mask_was_left_standing() -> None:
    form = made(EVERYTHING, STORED)
    shown = json.loads(form["raw"].value())
    assert shown["api_key"] == MASK
    shown["shop"] = "S5"
    edited = made(EVERYTHING, STORED, sent_by(form, uses_raw="on", raw=json.dumps(shown)))
    assert edited.is_valid(), edited.errors
    assert edited.params == {**STORED, "shop": "S5"}


SECRETS = {
    "type": "object",
    "properties": {
        "pin": {"type": "integer"},
        "session": {"type": "boolean"},
        "token": {"enum": ["hunter2", "other"]},
        "credentials": {"type": "object", "properties": {"user": {"type": "string"}}},
        "note": {"type": "string", "maxLength": 18},
        "args": {"type": "array", "items": {"type": "string"}},
        "by": {"type": "string", "default": "https://u:hunter2@h"},
    },
}
HIDDEN = {
    "pin": 1234,
    "session": True,
    "token": "hunter2",
    "credentials": {"user": "hunter2"},
    "note": "token=hunter2 ok",
    "args": ["--token=hunter2"],
    "by": "https://u:hunter2@h",
}


def test_lines_of_a_private_key_are_not_drawn_and_stay_behind_its_begin() -> None:
    names = ("a", "b", "c")
    schema = {"properties": {key: {"type": "string", "minLength": 1} for key in names}}
    stored = dict(zip(names, (PRIVATE_KEY[0], CODE[0], PRIVATE_KEY[-1]), strict=True))
    form = SchemaForm(schema, stored=stored, check=lambda params: None)
    drawn = form.as_p()
    assert CODE[0] not in drawn and stored["a"] in drawn and MASK in drawn
    assert form.is_raw

    typed = {name: form[name].value() or "" for name in form.fields}
    for edit, is_kept in (({}, True), ({"c": "x"}, True), ({"a": "x"}, False)):
        fields = {**typed, **{f"value/{name}": text for name, text in edit.items()}}
        del fields[USES_RAW]
        data = {f"params-{name}": text for name, text in fields.items()}
        sent = SchemaForm(schema, stored=stored, check=lambda params: None, data=data)
        assert sent.is_valid() == is_kept, (edit, sent.errors)
        if is_kept:
            assert sent.params == {**stored, **edit}
        else:
            assert list(sent.errors) == ["value/b"] and CODE[0] not in sent.as_p()


def test_secrets_of_any_type_are_not_drawn_and_stay() -> None:
    form = made(SECRETS, HIDDEN)
    drawn = form.as_p()
    assert "1234" not in drawn
    # The choices of a schema are no secret, but which of them is stored.
    assert "hunter2" not in drawn
    kept = made(SECRETS, HIDDEN, sent_by(form))
    assert kept.is_valid(), kept.errors
    assert kept.params == HIDDEN
    typed = {"pin": "42", "credentials": '{"user": "ann"}', "note": "new", "args": "-v"}
    changed = made(SECRETS, HIDDEN, sent_by(form, **typed))
    assert changed.is_valid(), changed.errors
    assert changed.params == {
        **HIDDEN,
        **{"pin": 42, "credentials": {"user": "ann"}, "note": "new", "args": ["-v"]},
    }
    added = made(SECRETS, None, sent_by(made(SECRETS, None)))
    assert added.is_valid(), added.errors
    assert added.params == {"by": "https://u:hunter2@h"}


def test_mask_within_another_text_is_refused_beside_its_field(subtests: pytest.Subtests) -> None:
    form = made(SECRETS, HIDDEN)
    for name, typed in (("note", f"x {MASK}"), ("args", f"-v\n{MASK}"), ("pin", f'"{MASK}"')):
        with subtests.test(name):
            bound = made(SECRETS, HIDDEN, sent_by(form, **{name: typed}))
            assert not bound.is_valid()
            assert list(bound.errors) == [f"value/{name}"]
            assert MASK in str(bound.errors)


def test_value_of_another_type_than_its_field_is_not_drawn_in_it() -> None:
    stored = {"args": {"token": "hunter2"}, "note": ["token=hunter2"], "by": {"pin": "hunter2"}}
    form = made(SECRETS, stored)
    assert form.is_raw
    assert "hunter2" not in form.as_p()


def test_params_beyond_the_fields_are_edited_as_raw_json() -> None:
    stored = {"shop": "S1", "urgent": False, "photos": 1, "more": 1}
    assert made(EVERYTHING, stored).is_raw
    assert not made(EVERYTHING, STORED).is_raw
    assert made(None, {"x": 1}).is_raw
    assert made({"type": "object"}, {}).is_raw


def test_error_stands_beside_its_field_with_the_typed_text_kept(subtests: pytest.Subtests) -> None:
    for name, typed, message in (
        ("shop", "", "required"),
        ("shop", "x" * 41, "at most 40"),
        ("photos", "10", "less than or equal to 9"),
        ("photos", "9" * 5000, "whole number"),
        ("photos", "x", "whole number"),
        ("weight", "1e999", "number"),
        ("weight", "9" * 5000, "number"),
        ("on", "2026-13-01", "valid date"),
        ("at", "yesterday", "is not a time"),
        ("kind", '"nope"', "valid choice"),
        ("kind", "{", "valid choice"),
        ("odd", "{", "not JSON"),
        ("odd", '"text"', "fits none of"),
        ("place__floor", "1.5", "whole number"),
        ("note", "a\0b", "Null characters"),
    ):
        with subtests.test(name=name, typed=typed):
            form = made(EVERYTHING, STORED, sent_by(made(EVERYTHING, STORED), **{name: typed}))
            assert not form.is_valid()
            field = "value/" + name.replace("__", "/")
            assert list(form.errors) == [field]
            assert message in form.errors[field][0]
            assert form[field].value() == typed


def test_what_the_schema_says_about_several_properties_stands_above_them() -> None:
    schema = {**EVERYTHING, "minProperties": 20}
    form = made(schema, STORED, sent_by(made(schema, STORED)))
    assert not form.is_valid()
    assert list(form.errors) == ["__all__"]


@pytest.mark.parametrize("path", ["params.items[2].x", "params.items[0]", "params.items"])
def test_error_deep_inside_stands_beside_the_nearest_field(path: str) -> None:
    def refuse(_params: Any) -> None:
        raise Invalid("no", errors=[FieldError(path, "invalid", "no")])

    form = SchemaForm(
        EVERYTHING, stored=STORED, check=refuse, data=sent_by(made(EVERYTHING, STORED))
    )
    assert not form.is_valid()
    assert list(form.errors) == ["value/items"]


def test_draft_keeps_what_was_typed_for_fields_of_the_same_name_and_validates_nothing() -> None:
    other = {
        "type": "object",
        "properties": {"shop": {"type": "string"}, "price": {"type": "number", "default": 2}},
        "required": ["shop", "price"],
    }
    typed = sent_by(made(EVERYTHING, None), shop="S3", photos="no number")
    form = made(other, None, typed, is_draft=True)
    assert form["value/shop"].value() == "S3"
    assert form["value/price"].value() == 2
    assert not form.errors


def test_another_version_takes_over_what_its_fields_show() -> None:
    newer = {"properties": {"shop": {"type": "string"}, "photos": {"type": "string"}}}
    assert covered(STORED, newer) == {"shop": "S1"}


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*EVERYTHING["properties"], "more"]), JSON_VALUES))
def test_whatever_is_stored_an_untouched_form_never_changes_it(stored: dict[str, Any]) -> None:
    form = SchemaForm(EVERYTHING, stored=stored, check=lambda _params: None)
    bound = SchemaForm(EVERYTHING, stored=stored, check=lambda _params: None, data=sent_by(form))
    if bound.is_valid():
        assert canonical(bound.params) == canonical(stored)
