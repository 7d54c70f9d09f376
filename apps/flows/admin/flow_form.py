"""The form of a flow: its steps and the params of its runs by rows, or the definition as JSON.

The JSON is always sent; what the rows say is put into it. So the tabs and the buttons of the rows
need no script: each sends the form, which comes back with what was typed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import sent_forms
from apps.common.admin.display import translate
from apps.common.admin.json_text import JsonTextField
from apps.common.admin.service import DRAFT, ServiceForm
from apps.common.errors import FieldError, PlatformError
from apps.common.json.rows import rows_of, schema_of
from apps.common.json.rows import why_not_rows as why_not_fields
from apps.common.json.schema import check_schema
from apps.dispatch.admin.template_rows import ROWS, RowForm, sent_rows, stored_rows
from apps.flows.admin.step_rows import STEPS, StepForm, sent_steps, stored_steps, why_not_rows
from apps.flows.models import Flow
from apps.flows.rules.definition import Definition
from apps.flows.services import flows
from apps.flows.services.check import FIELD, check
from apps.flows.services.masks import masked, unmasked
from apps.jobs.models import Bounds
from apps.jobs.services.submit_check import PLATFORM

BY_STEPS, BY_JSON = "steps", "json"
# A form sends at most 1,000 values: those of the steps, and these.
MAX_PARAMS = 25
MAX_TOLD = 20
_OF_STEP = re.compile(rf"{FIELD}\.steps\[(\d+)\]\.?(.*)", re.DOTALL)


class DefinitionField(JsonTextField):
    """A definition whose secrets are masked, and stay where their masks do."""

    def prepare_value(self, value: Any) -> Any:
        return super().prepare_value(masked(value) if isinstance(value, dict) else value)

    def clean(self, value: Any) -> Any:
        try:
            return unmasked(super().clean(value), self.stored)
        except PlatformError as error:
            raise forms.ValidationError([translate(each.named) for each in error.errors]) from error


class ParamsRows:
    """The rows of the params of runs; `rows` are None where rows cannot say them, which `why`
    says. `made` is their schema, None for any params, and not there while rows have errors."""

    tab = "fields"
    when_empty = _("A run takes any params.")

    def __init__(self, stored: Any, data: Any, command: str) -> None:
        self.made, self.is_sent, self.data = stored, data is not None, data
        self.rows: list[RowForm] | None = None
        self.why = _why_not_params(stored)
        self.shows_row_errors = self.is_sent and not ROWS.is_command(command)
        if self.why:
            return
        base = {} if stored is None else stored
        if data is None:
            self.rows = stored_rows(base)
            return
        ROWS.rearrange(data, command)
        self.rows = sent_rows(data, base)
        rows = [form.row for form in self.rows if form.is_valid() and form.row is not None]
        if rows or stored is not None:
            usual = {} if stored is not None else {"type": "object"}
            self.made = schema_of(rows, {**usual, **base})

    @property
    def are_valid(self) -> bool:
        return not any(form.is_bound and form.errors for form in self.rows or ())

    @property
    def was(self) -> str:
        """The names of the rows before the edit, as JSON that the form sends along."""
        return ROWS.was_in(self.rows or (), self.data)


def _why_not_params(schema: Any) -> str:
    if schema is None:
        return ""
    try:
        check_schema(schema, field="params")
    except PlatformError as error:
        return translate(error.detail)
    if len(rows_of(schema)) > MAX_PARAMS:
        return gettext("It has more than %d fields, the most that rows show.") % MAX_PARAMS
    return translate(why_not_fields(schema) or "")


class FlowForm(ServiceForm):
    """The form of a flow. `steps` are None where the JSON counts; `why` then says why rows cannot
    say it, if they cannot.

    `made` is the definition as it would be saved; None while the JSON cannot be read, `fault`, or
    rows have errors.
    """

    definition = DefinitionField(label=_("Definition"), rows=24)
    # The tab that the address asks for, what this person may reach, and the flow that it copies.
    asked: ClassVar[str] = ""
    bounds: ClassVar[Bounds] = PLATFORM
    copied: ClassVar[Any] = None
    steps: list[StepForm] | None = None
    params: ParamsRows | None = None
    why = fault = ""
    made: dict[str, Any] | None = None

    class Meta:
        model = Flow
        fields = ("name", "title", "definition")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        source = self.instance if self.copied is None else self.copied
        field: Any = self.fields["definition"]
        field.stored = source.definition if source.pk else None
        self.command = self.data.get(DRAFT, "") if self.is_bound else ""
        if self.is_bound:
            sent: Any = self.data
            self.data = sent = sent.copy()
            if "once" in self.fields and not sent.get("once"):
                # The form of a stored flow, of which a copy is to be made, has none.
                sent["once"] = sent_forms.new_number()
            self._take()
        else:
            self.made = self.initial.setdefault("definition", source.definition)
            if self.asked != BY_JSON:
                self._show(self.made)

    # --- what was sent ----------------------------------------------------------------------------
    def _show(self, definition: Any) -> None:
        """Show the rows of the definition, if rows can say it."""
        self.why = why_not_rows(definition)
        if not self.why:
            self.steps = stored_steps(definition)
            self.params = ParamsRows(definition.get("params"), None, "")

    def _take(self) -> None:
        try:
            self.made = self.fields["definition"].clean(self.data.get("definition"))
        except forms.ValidationError as error:
            self.fault = " ".join(error.messages)
            return
        was_rows = self.data.get("by") == BY_STEPS
        if self.command == f"tab-{BY_STEPS}" and not was_rows:
            self._show(self.made)
        elif was_rows and self.made is not None and not why_not_rows(self.made):
            self._take_rows(self.made)

    def _take_rows(self, base: Mapping[str, Any]) -> None:
        STEPS.rearrange(self.data, self.command)
        self.steps = sent_steps(self.data, base)
        self.params = ParamsRows(base.get("params"), self.data, self.command)
        if not self.params.are_valid or any(form.errors for form in self.steps):
            self.made = None
            return
        self.made = self._put_together(base, "step")
        if self.command == f"tab-{BY_JSON}":
            sent: Any = self.data
            masked_one = self._put_together(base, "masked")
            sent["definition"] = json.dumps(masked_one, indent=2, ensure_ascii=False)
            self.steps = self.params = None

    def _put_together(self, base: Mapping[str, Any], which: str) -> dict[str, Any]:
        params = None if self.params is None else self.params.made
        steps = [getattr(form, which) for form in self.steps or () if form.step is not None]
        others = {key: value for key, value in base.items() if key not in ("params", "steps")}
        return {**({} if params is None else {"params": params}), **others, "steps": steps}

    # --- what the page asks -----------------------------------------------------------------------
    @property
    def tab(self) -> str:
        return BY_JSON if self.steps is None else BY_STEPS

    @property
    def was(self) -> str:
        """The names of the rows before the edit, as JSON that the form sends along."""
        return STEPS.was_in(self.steps or (), self.data)

    @property
    def shows_row_errors(self) -> bool:
        """Whether errors of rows are shown: not while rows are added and moved, because half a row
        is no mistake yet."""
        return self.is_bound and not STEPS.is_command(self.command)

    @cached_property
    def checked(self) -> tuple[Definition | None, Sequence[FieldError]]:
        """The definition as it would be saved, or all that is wrong with it."""
        if self.made is None:
            return None, ()
        try:
            return check(self.made, bounds=self.bounds), ()
        except PlatformError as error:
            return None, error.errors or [FieldError(FIELD, error.code, error.detail)]

    @cached_property
    def told(self) -> list[str]:
        """The faults in words, with the numbers of rows; beside the rows, too."""
        if self.made is not None and self.made.get("steps") == []:
            return [gettext("Add a step.")]
        told = [self.fault] if self.fault else []
        for each in self.checked[1]:
            form, path = self._row_of(each)
            if form is None:
                told.append(translate(each.named))
            elif form.is_bound:
                form.show(each, path)
            else:
                told.append(self._in_row(form.number, translate(each.message)))
        for form in self.steps or ():
            told += [self._in_row(form.number, fault) for fault in form.faults]
        for row in (self.params and self.params.rows) or ():
            for name in row.errors if row.is_bound else ():
                said = " ".join(map(str, row.errors[name]))
                text = gettext("Param %(number)d: %(error)s")
                told.append(text % {"number": row.number + 1, "error": said})
        return told

    def _in_row(self, number: int, said: str) -> str:
        return gettext("Step %(number)d: %(error)s") % {"number": number + 1, "error": said}

    def _row_of(self, fault: FieldError) -> tuple[StepForm | None, str]:
        """The row of a fault and its path there; none for what is of no row."""
        found = _OF_STEP.fullmatch(fault.field)
        if found is None:
            return None, ""
        place = int(found[1])
        form = next((each for each in self.steps or () if each.place == place), None)
        return form, found[2]

    # --- saving -----------------------------------------------------------------------------------
    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if cleaned is not None:
            cleaned["definition"] = self.made
        if self.steps is not None and self.told:
            self.add_error(None, gettext("The flow is not right yet; see below."))
        elif self.steps is None and not self.fault:
            for line in self.told[:MAX_TOLD]:
                self.add_error("definition", line)
        return cleaned

    def check(self) -> None:
        # What is wrong with the definition is said beside its rows.
        flows.check_name(self.cleaned_data.get("name", self.instance.name))
