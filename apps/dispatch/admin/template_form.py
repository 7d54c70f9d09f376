"""The form of a template: its schema by rows, or as JSON.

The JSON is always sent; what the rows say is put into it. So the tabs and the buttons of the rows
need no script: each sends the form, which comes back with what was typed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import translate
from apps.common.admin.json_text import JsonTextField
from apps.common.admin.schema_form import SchemaForm
from apps.common.admin.service import DRAFT, ServiceForm
from apps.common.errors import FieldError, PlatformError
from apps.common.json.rows import schema_of, why_not_rows
from apps.common.json.schema import check_params
from apps.dispatch.admin.template_rows import ROWS, RowForm, sent_rows, stored_rows
from apps.dispatch.models import Template
from apps.dispatch.services import templates

FIELDS, JSON, TASKS, VERSIONS = "fields", "json", "tasks", "versions"
TABS = {FIELDS: _("Fields"), JSON: "JSON", TASKS: _("Tasks"), VERSIONS: _("Versions")}
# The value of `_draft` beside the tabs and the actions on rows.
CHECK = "check"
# A form sends at most 1,000 values: those of the rows, and these.
MAX_PREVIEWED = 150
MAX_TOLD = 5


class TemplateForm(ServiceForm):
    """The form of a template. `rows` are None where the JSON counts; `why` then says why rows
    cannot express it, if they cannot.

    `edited` is the schema as it would be saved, None while it has the `fault` or rows have some.
    """

    schema = JsonTextField(
        label=_("Schema"),
        rows=16,
        help_text=_(
            "JSON Schema 2020-12 of type object. Properties of type string (also date, date-time), "
            "integer, number, boolean, enum, list of strings and objects of these become form "
            "fields; everything else is edited as JSON."
        ),
    )
    # The tab that the address asks for.
    asked: ClassVar[str] = ""
    rows: list[RowForm] | None = None
    why = fault = ""
    edited: dict[str, Any] | None = None

    class Meta:
        model = Template
        fields = ("name", "schema")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_bound:
            sent: Any = self.data
            self.data = sent.copy()
            self._take(self.data.get(DRAFT, ""))
        else:
            # For those who may only look the form has no columns.
            self._show(self.initial.setdefault("schema", self.instance.schema))
            if self.asked == JSON:
                self.rows = None
        asked = self.data.get("tab", "") if self.is_bound else self.asked
        command = self.data.get(DRAFT, "") if self.is_bound else ""
        tab = command.removeprefix("tab-") if command.startswith("tab-") else asked
        self.tab = tab if tab in (TASKS, VERSIONS) else JSON if self.rows is None else FIELDS

    def _look(self, schema: Any) -> None:
        """Whether the schema has faults, and whether rows can say it."""
        self.fault = fault_of(schema)
        self.edited = None if self.fault else schema
        self.why = "" if self.fault else translate(why_not_rows(schema) or "")

    def _show(self, schema: Any) -> None:
        self._look(schema)
        self.rows = None if self.fault or self.why else stored_rows(schema)

    def _take(self, command: str) -> None:
        try:
            schema = self.fields["schema"].clean(self.data.get("schema"))
        except forms.ValidationError as error:
            self.fault = " ".join(error.messages)
            return
        if command == f"tab-{FIELDS}" and self.data.get("by") != FIELDS:
            self._show(schema)
            return
        self._look(schema)
        if self.data.get("by") == FIELDS and not self.fault and not self.why:
            self._take_rows(schema, command)

    def _take_rows(self, schema: dict[str, Any], command: str) -> None:
        ROWS.rearrange(self.data, command)
        self.rows = sent_rows(self.data, schema)
        if any(form.errors for form in self.rows):
            self.edited = None
            return
        rows = [form.row for form in self.rows if form.row is not None]
        made = schema_of(rows, schema)
        self.fault = fault_of(made)
        self.edited = None if self.fault else made
        if self.fault:
            return
        if templates.differs(schema, made):
            sent: Any = self.data
            sent["schema"] = json.dumps(made, indent=2, ensure_ascii=False)
            sent[ROWS.was] = json.dumps([form.row.name if form.row else "" for form in self.rows])
        if command == f"tab-{JSON}":
            self.rows = None

    # --- what the page asks -----------------------------------------------------------------------
    @property
    def was(self) -> str:
        """The names of the rows before the edit, as JSON that the form sends along."""
        return ROWS.was_in(self.rows or (), self.data)

    @property
    def shows_row_errors(self) -> bool:
        """Whether errors of rows are shown: not while rows are added and moved, because half a row
        is no mistake yet."""
        return self.is_bound and (not self.is_draft or self.data[DRAFT] in (CHECK, f"tab-{JSON}"))

    @property
    def faults(self) -> list[str]:
        """Why there is nothing to preview."""
        if self.rows is not None and self.is_bound:
            found = [
                gettext("Row %(number)d: %(error)s")
                % {"number": form.number + 1, "error": " ".join(map(str, form.errors[name]))}
                for form in self.rows
                for name in (form.errors if form.is_bound else ())
            ]
            if found:
                return found[:MAX_TOLD]
        return [self.fault] if self.fault else []

    @property
    def is_checked(self) -> bool:
        """Whether the values of the preview are to be checked."""
        return self.is_bound and self.data.get(DRAFT) == CHECK

    def preview(self) -> SchemaForm | None:
        """The form that tasks would have; None while there are faults, or for too many fields."""
        schema = self.edited
        if schema is None:
            return None
        made = SchemaForm(
            schema,
            stored=None,
            check=lambda params: check_params(schema, params),
            data=self.data if self.is_bound else None,
            is_draft=self.is_bound and not self.is_checked,
            prefix="preview",
            title=_("Preview"),
        )
        return made if len(made.parts) <= MAX_PREVIEWED else None

    # --- saving -----------------------------------------------------------------------------------
    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.rows is not None and any(form.errors for form in self.rows):
            self.add_error(None, gettext("The fields are not right yet; see below."))
        elif self.rows is not None and self.fault:
            self.add_error(None, self.fault)
        return cleaned

    def rule_errors(self) -> Sequence[FieldError]:
        name = self.cleaned_data.get("name", self.instance.name)
        try:
            templates.check(name, self.cleaned_data.get("schema") or {})
        except PlatformError as refusal:
            return refusal.errors
        return ()


def fault_of(schema: Any) -> str:
    """The fault of the schema, "" for none."""
    try:
        templates.check_schema_of(schema)
    except PlatformError as error:
        return translate(error.errors[0].named if error.errors else error.detail)
    return ""
