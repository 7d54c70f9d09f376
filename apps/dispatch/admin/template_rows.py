"""The rows of a schema as forms, one a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import translate
from apps.common.admin.form_rows import OneRow, Rows, row_input
from apps.common.admin.json_text import read_json
from apps.common.json.rows import (
    CHOICE,
    KINDS,
    LIMITS,
    LINES,
    MAX_ROWS,
    NUMBER,
    OTHER,
    TEXT,
    Row,
    rows_of,
)
from apps.common.json_rules import canonical
from apps.common.readers import read_integer

MAX_NAME = 200


class RowForm(OneRow):
    """The form of one row; `row` is its value once the form is valid, None for an empty one."""

    name = forms.CharField(label=_("Name"), required=False, strip=False, widget=row_input())
    label = forms.CharField(
        label=_("Label"), max_length=MAX_NAME, required=False, strip=False, widget=row_input()
    )
    kind = forms.ChoiceField(label=_("Kind"), widget=forms.Select(attrs={"class": "search-input"}))
    is_needed = forms.BooleanField(label=_("Needed"), required=False)
    least = forms.CharField(label=_("At least"), required=False, max_length=40, widget=row_input())
    most = forms.CharField(label=_("At most"), required=False, max_length=40, widget=row_input())
    choices = forms.CharField(
        label=_("Choices, one a line"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"class": "search-input", "rows": 3}),
    )
    is_secret = forms.BooleanField(label=pgettext_lazy("a field", "Secret"), required=False)

    row: Row | None = None

    def __init__(self, data: Any, *, number: int, had: Row | None) -> None:
        """`had` is the row in the schema that is edited, whose number counts from 0."""
        initial = {} if had is None else _shown(had)
        super().__init__(data, prefix="rows", number=number, had=had, initial=initial)
        is_other = had is not None and had.kind == OTHER
        kind: Any = self.fields["kind"]
        kind.choices = [
            (name, translate(words)) for name, words in KINDS.items() if name != OTHER or is_other
        ]

    @property
    def was(self) -> str:
        return str(self.had.name)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was typed into a new row."""
        given = self.cleaned_data
        return (
            self.had is None
            and given.get("kind") == TEXT
            and not any(
                str(given.get(name) or "").strip() for name in self.fields if name != "kind"
            )
        )

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if self.errors or self.is_empty:
            return given
        name, label = given["name"], given["label"]
        if self.had is None or name != self.had.name:
            name = name.strip()
            if not name:
                self.add_error("name", gettext("Give it a name."))
            elif len(name) > MAX_NAME:
                text = gettext("At most %d characters.") % MAX_NAME
                self.add_error("name", text)
        if self.had is None or label != self.had.label:
            label = label.strip()
        choices = self._choices() if given["kind"] == CHOICE else ()
        least, most = self._limit("least"), self._limit("most")
        if least is not None and most is not None and least > most and not self._is_as_it_was():
            self.add_error("most", gettext("That is less than “at least”."))
        self.row = Row(
            name=name,
            was=None if self.had is None else self.had.name,
            label=label,
            kind=given["kind"],
            is_needed=given["is_needed"],
            is_secret=given["is_secret"],
            least=least,
            most=most,
            choices=choices,
        )
        return given

    def _is_as_it_was(self) -> bool:
        given = self.cleaned_data
        return self.had is not None and all(
            given[name] == _shown(self.had)[name] for name in ("kind", "least", "most")
        )

    def _limit(self, name: str) -> Any:
        """The lowest or highest value, None for none and for kinds that have none."""
        text, kind = self.cleaned_data[name].strip(), self.cleaned_data["kind"]
        if kind not in LIMITS or not text:
            return None
        stored = None if self.had is None else getattr(self.had, name)
        if stored is not None and text == canonical(stored):
            return stored
        if kind != NUMBER:
            number = read_integer(text)
            if number is None or (kind in (TEXT, LINES) and number < 0):
                self.add_error(name, gettext("Write a whole number; lengths from 0 on."))
            return number
        try:
            value = read_json(text)
        except ValidationError:
            value = None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.add_error(name, gettext("Write a number such as 12 or 0.5."))
            return None
        return value

    def _choices(self) -> tuple[str, ...]:
        lines = [line.strip() for line in self.cleaned_data["choices"].splitlines()]
        found = [line for line in lines if line]
        if not found:
            self.add_error("choices", gettext("Write the choices, one a line."))
        for line in found:
            if found.count(line) > 1:
                text = gettext("%s stands twice; leave one out.")
                self.add_error("choices", text % repr(line[:80]))
                break
        return tuple(found)


def _shown(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "label": row.label,
        "kind": row.kind,
        "is_needed": row.is_needed,
        "least": "" if row.least is None else canonical(row.least),
        "most": "" if row.most is None else canonical(row.most),
        "choices": "\n".join(row.choices),
        "is_secret": row.is_secret,
    }


def stored_rows(schema: Mapping[str, Any]) -> list[RowForm]:
    """The rows of a schema that rows can say."""
    return [RowForm(None, number=n, had=row) for n, row in enumerate(rows_of(schema))]


def sent_rows(data: Any, schema: Mapping[str, Any]) -> list[RowForm]:
    """The rows that were sent, which change the schema; names that stand twice have an error."""
    had = {row.name: row for row in rows_of(schema)}
    forms = [
        RowForm(data, number=n, had=had.get(name)) for n, name in enumerate(ROWS.names_in(data))
    ]
    seen: set[str] = set()
    for form in forms:
        if form.is_valid() and form.row is not None:
            if form.row.name in seen:
                text = gettext("The name %s stands twice; give this row another.")
                form.add_error("name", text % repr(form.row.name[:80]))
            seen.add(form.row.name)
    return forms


ROWS = Rows("rows", RowForm, MAX_ROWS)
