"""The form fields for a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.html import escape
from django.utils.translation import gettext
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from apps.common.admin.json_text import JsonTextField, Typed, read_json, unmasked
from apps.common.admin.time_inputs import InstantField
from apps.common.json_rules import canonical
from apps.common.masking import is_secret, redact
from apps.common.readers import read_integer

Path = tuple[str, ...]
Schema = Mapping[str, Any]

MAX_REFERENCES = 8
LONG_TEXT = 200
# Keywords that concern several properties at once, or the type of a property.
_COMBINING = {"allOf", "anyOf", "oneOf", "not", "if", "$dynamicRef"}


@dataclass(frozen=True, kw_only=True)
class SchemaField:
    """A field of the form: the path of its value in the params, and its default."""

    path: Path
    field: forms.Field
    default: Any = None
    group: str = ""

    @property
    def name(self) -> str:
        """The field's name in the form, as a JSON Pointer: no two paths share one."""
        steps = (step.replace("~", "~0").replace("/", "~1") for step in self.path)
        return "/".join(("value", *steps))


def fields_for(schema: Schema | None) -> list[SchemaField]:
    """The form fields for the properties of an object schema, in their order.

    Empty when there is no schema, or what is no schema, or it declares no properties. Nested
    objects are opened one level.
    """
    # SQL may have stored another value in place of a schema; checks say so.
    if not isinstance(schema, dict):
        return []
    return list(_parts(schema, schema, (), is_mandatory=True))


def _parts(
    root: Schema, schema: Schema, above: Path, *, is_mandatory: bool
) -> Iterator[SchemaField]:
    properties = schema.get("properties")
    required = schema.get("required", [])
    for name, declared in properties.items() if isinstance(properties, dict) else ():
        path = (*above, name)
        prop = _resolved(root, declared)
        is_required = is_mandatory and name in required
        opens = prop.get("type") == "object" and isinstance(prop.get("properties"), dict)
        opens = opens and not is_secret(name)
        if opens and not above and not _COMBINING & prop.keys() and "$ref" not in prop:
            yield from _parts(root, prop, path, is_mandatory=is_required)
            continue
        field = _field(path, prop, is_required=is_required)
        title = str(prop.get("title") or name)
        field.label = title
        # The theme prints help texts as they are.
        field.help_text = escape(str(prop.get("description") or ""))
        yield SchemaField(
            path=path,
            field=field,
            default=prop.get("default"),
            group=str(schema.get("title") or above[0]) if above else "",
        )


def _resolved(root: Schema, declared: Any) -> Schema:
    """The property with its reference resolved, or unchanged if that is impossible."""
    found = declared if isinstance(declared, dict) else {}
    for _hop in range(MAX_REFERENCES):
        reference = found.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return found
        target: Any = root
        for step in reference[2:].split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            target = target.get(key) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            return found
        found = {**target, **{key: value for key, value in found.items() if key != "$ref"}}
    return found


def _field(path: Path, prop: Schema, *, is_required: bool) -> forms.Field:
    """The field of one property; a JSON text box if no simpler field can hold all its values."""
    if is_secret(path[-1]):
        return Secret(is_text=prop.get("type") == "string", required=is_required)
    if _COMBINING & prop.keys() or "$ref" in prop:
        return JsonTextField(is_object=False, redacts=True, rows=4, required=is_required)
    options = [prop["const"]] if "const" in prop else prop.get("enum")
    if isinstance(options, list) and None not in options:
        return ChoiceOfJson(options, required=is_required)
    kind = prop.get("type")
    if kind == "boolean":
        return Truth(required=False) if is_required else ChoiceOfJson([True, False], required=False)
    if kind == "integer":
        return forms.IntegerField(
            required=is_required, widget=UnfoldAdminIntegerFieldWidget(), **_bounds(prop)
        )
    if kind == "number":
        return NumberFormField(
            required=is_required,
            widget=UnfoldAdminDecimalFieldWidget({"step": "any"}),
            **_bounds(prop),
        )
    if kind == "string":
        return _text_field(prop, is_required=is_required)
    if kind == "array" and _is_text(prop.get("items")):
        return LinesFormField(
            is_mandatory=is_required, required=is_required and bool(prop.get("minItems"))
        )
    return JsonTextField(is_object=False, redacts=True, rows=4, required=is_required)


def _is_text(items: Any) -> bool:
    return isinstance(items, dict) and items.get("type") == "string"


def _bounds(prop: Schema) -> dict[str, Any]:
    given = {"min_value": prop.get("minimum"), "max_value": prop.get("maximum")}
    return {
        name: bound
        for name, bound in given.items()
        if isinstance(bound, int | float) and not isinstance(bound, bool)
    }


def _text_field(prop: Schema, *, is_required: bool) -> forms.Field:
    max_length, min_length = prop.get("maxLength"), prop.get("minLength")
    if prop.get("format") == "date":
        return DayFormField(required=is_required)
    if prop.get("format") == "date-time":
        return InstantFormField(required=is_required)
    is_long = isinstance(max_length, int) and max_length > LONG_TEXT
    widget = UnfoldAdminTextareaWidget({"rows": 3}) if is_long else UnfoldAdminTextInputWidget()
    return TextFormField(
        required=is_required,
        strip=False,
        max_length=max_length if isinstance(max_length, int) else None,
        min_length=min_length if isinstance(min_length, int) else None,
        widget=widget,
    )


class TextFormField(forms.CharField):
    """A text with its secrets masked. Browsers send line ends as `\\r\\n`, JSON has `\\n`."""

    stored: Any = None

    def bound_data(self, data: Any, initial: Any) -> Any:
        return Typed(data) if isinstance(data, str) else data

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, Typed) else redact(value)

    def to_python(self, value: Any) -> Any:
        return _lf(super().to_python(value))

    def clean(self, value: Any) -> Any:
        if isinstance(self.stored, str) and not self.has_changed(self.stored, value):
            # The text with its masks may be too long.
            return self.stored or None
        return unmasked(super().clean(value), self.stored) or None

    def has_changed(self, initial: Any, data: Any) -> bool:
        return _lf(redact(initial)) != _lf(data)


def _lf(text: str | None) -> str:
    return (text or "").replace("\r\n", "\n")


class Secret(forms.CharField):
    """A text or any JSON value that is never shown; empty means "as it is stored"."""

    def __init__(self, *, is_text: bool, **kwargs: Any) -> None:
        widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"})
        super().__init__(strip=False, widget=widget, **kwargs)
        self.is_text = is_text

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        return unmasked(text if self.is_text else read_json(text), None)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(data)


class NumberFormField(forms.FloatField):
    """A number; whole numbers stay integers."""

    def to_python(self, value: Any) -> Any:
        number = super().to_python(value)
        whole = None if number is None else read_integer(str(value).strip())
        return number if whole is None else whole


class Truth(forms.BooleanField):
    """Yes or no, drawn as a switch."""

    widget = UnfoldBooleanSwitchWidget


class ChoiceOfJson(forms.TypedChoiceField):
    """A choice among JSON values; no choice is None."""

    def __init__(self, options: Sequence[Any], *, required: bool) -> None:
        choices = [(canonical(option), _option_text(option)) for option in options]
        if not required or len(options) > 1:
            choices.insert(0, ("", "–"))
        super().__init__(
            choices=choices,
            coerce=json.loads,
            empty_value=None,
            required=required,
            widget=UnfoldAdminSelectWidget(choices=choices),
        )

    def prepare_value(self, value: Any) -> Any:
        return value if value is None or isinstance(value, Chosen) else canonical(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        return Chosen(data) if isinstance(data, str) else data

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (data or "") != ("" if initial is None else canonical(initial))


class Chosen(str):
    """The text of a choice as the browser sent it, unlike a stored JSON value."""


def _option_text(option: Any) -> str:
    if isinstance(option, bool):
        return gettext("yes") if option else gettext("no")
    return option if isinstance(option, str) else canonical(option)


class DayFormField(forms.DateField):
    """A date, kept as its ISO text."""

    def __init__(self, **kwargs: Any) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"type": "date"})
        super().__init__(input_formats=["%Y-%m-%d"], widget=widget, **kwargs)

    def clean(self, value: Any) -> Any:
        day: date | None = super().clean(value)
        return None if day is None else day.isoformat()

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (initial or "") != (data or "")


class InstantFormField(InstantField):
    """A date and time, typed in the time zone of the page, kept as RFC 3339 text with offset."""

    def prepare_value(self, value: Any) -> Any:
        try:
            instant = datetime.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            return value
        if isinstance(instant, datetime) and instant.tzinfo is not None:
            return timezone.localtime(instant).strftime("%Y-%m-%dT%H:%M:%S")
        return value

    def clean(self, value: Any) -> Any:
        instant: datetime | None = super().clean(value)
        return None if instant is None else instant.isoformat()

    def has_changed(self, initial: Any, data: Any) -> bool:
        # Browsers leave out seconds that are 0.
        typed = data or ""
        return (self.prepare_value(initial) or "") not in (typed, f"{typed}:00")


class LinesFormField(forms.CharField):
    """A list of texts, one in a line, with their secrets masked; an empty box is the empty list
    when a list is required."""

    stored: Any = None

    def __init__(self, *, is_mandatory: bool, **kwargs: Any) -> None:
        super().__init__(strip=False, widget=UnfoldAdminTextareaWidget({"rows": 4}), **kwargs)
        self.is_mandatory = is_mandatory

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, redact(value))) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        lines = unmasked(_lines(super().clean(value)), self.stored)
        return lines if lines or self.is_mandatory else None

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(redact(initial or []) != _lines(data or ""))


def _lines(text: str) -> list[str]:
    return [line for line in text.replace("\r\n", "\n").split("\n") if line]


def fits(field: forms.Field, value: Any) -> bool:
    """Whether the field can show a stored value without turning it into another."""
    if isinstance(field, JsonTextField):
        return True
    if isinstance(field, Secret):
        return isinstance(value, str) or not field.is_text
    if isinstance(field, ChoiceOfJson):
        choices: Any = field.choices
        return canonical(value) in {chosen for chosen, _text in choices}
    if isinstance(field, LinesFormField):
        return isinstance(value, list) and all(
            isinstance(item, str) and item and not {"\n", "\r"} & set(item) for item in value
        )
    if isinstance(field, Truth):
        return isinstance(value, bool)
    if isinstance(field, NumberFormField | forms.IntegerField):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)
