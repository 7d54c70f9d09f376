"""The form of a schedule: which jobs, by which rule, and the next runs of what is typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.utils.functional import Promise, cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.schema_form import SchemaForm, covered
from apps.common.errors import FieldError, PlatformError
from apps.common.json.schema import check_params
from apps.common.json_rules import canonical
from apps.dispatch.admin.rule_form import REDRAW_RUNS, RuleForm
from apps.dispatch.admin.said import MISFIRE
from apps.jobs.admin.type_choice import offer_types
from apps.jobs.models import Bounds, JobType
from apps.jobs.services.types import open_types
from apps.schedules.models import Schedule
from apps.schedules.services import schedules
from apps.schedules.services.validation import validate

# The fields that the page folds.
MORE = (
    *("end_at", "time_zone", "misfire", "misfire_limit", "overlap"),
    *("priority", "max_attempts"),
)
OVERLAP: dict[str, str | Promise] = {
    Schedule.Overlap.ALLOW: _("also beside an open job of it"),
    Schedule.Overlap.SKIP: _("not while a job of it is open"),
}


class ScheduleForm(RuleForm):
    """The fields of a schedule, and beside them `params_form` for what the schema of the type asks.

    `bounds` hold the job types that the operator may use. `shows_context` is off for people who may
    not see contexts: a stored schedule then keeps its own.
    """

    when = ("time_zone", "start_at", "end_at")
    redraw = {**REDRAW_RUNS, "hx-select-oob": "#more-line"}
    bounds: ClassVar[Bounds] = Bounds()
    shows_context: ClassVar[bool] = True

    job_type = forms.ChoiceField(label=_("Job type"))

    class Meta:
        model = Schedule
        fields = (
            *("title", "job_type", "priority", "max_attempts", "time_zone", "start_at", "end_at"),
            *("misfire", "misfire_limit", "overlap"),
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.may_change:
            self.params_form = None
            return
        offer_types(self, "job_type", self.bounds, kept=self.instance.job_type)
        self.fields["start_at"].required = not self.is_new
        if self.is_new:
            self.fields["start_at"].help_text = _("Empty = now.")
        for name in MORE:
            self.fields[name].widget.attrs.update(self.redraw)
        self.params_form = self._made_params_form()

    @property
    def more_fields(self) -> list[forms.BoundField]:
        """The fields that most schedules leave as they are."""
        return [self[name] for name in MORE]

    @property
    def has_more_errors(self) -> bool:
        return not self.errors.keys().isdisjoint(MORE)

    @property
    def more_line(self) -> str:
        """`UTC · missed runs are skipped · also beside an open job of it · priority 5`."""
        priority, tries = (self[name].value() for name in ("priority", "max_attempts"))
        parts: list[Any] = [
            self["time_zone"].value(),
            MISFIRE.get(self["misfire"].value(), ""),
            OVERLAP.get(self["overlap"].value(), ""),
            gettext("priority %s") % priority if priority not in (None, "") else "",
            gettext("tries: %s") % tries if tries not in (None, "") else "",
        ]
        return " · ".join(str(part) for part in parts if part)

    @cached_property
    def chosen(self) -> JobType | None:
        """The type that is chosen in the form at this moment."""
        types = open_types(self.bounds.types)
        return types.filter(name=str(self["job_type"].value() or "")[:64]).first()

    def _made_params_form(self) -> SchemaForm | None:
        if not (self.is_new or self.shows_context):
            return None
        schema = (self.chosen.params_schema if self.chosen else None) or None
        stored = None if self.is_new else self.instance.context
        if stored is not None and self.chosen and self.chosen.name != self.instance.job_type:
            stored = covered(stored, schema)
        return SchemaForm(
            schema,
            stored=stored,
            check=lambda params: check_params(schema, params),
            data=self.data if self.is_bound else None,
            is_draft=self.is_draft,
            title=_("Context"),
            raw_title=_("Context as JSON"),
        )

    def times_of(self, fields: dict[str, Any], limit: int) -> list[datetime]:
        return schedules.next_runs(fields, limit, is_new=self.is_new)

    # --- saving -----------------------------------------------------------------------------------
    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.params_form is not None and not self.params_form.is_valid():
            self.add_error(None, gettext("The context has errors; see below."))
        return cleaned

    def given(self) -> dict[str, Any]:
        """The fields of the schedule but its context, as far as the form could read them."""
        known = self.cleaned_data
        fields = {name: known[name] for name in known if name in Schedule.editable}
        return {**fields, "rule": self.rule_of(known)}

    def rule_errors(self) -> Sequence[FieldError]:
        current = None if self.is_new else self.instance
        try:
            validate(self.given(), current=current, bounds=self.bounds)
        except PlatformError as refusal:
            errors = refusal.errors
        else:
            return ()
        # The context has a form of its own.
        about = self.without_rule(errors)
        return [error for error in about if not error.field.startswith("context")]

    def show(self, errors: Sequence[FieldError]) -> None:
        about = [error for error in errors if error.field.partition(".")[0] == "context"]
        others = [error for error in errors if error not in about]
        if about and self.params_form is None:
            # The messages are about values that this person may not see.
            text = gettext("The stored context does not fit this type; ask somebody who sees it.")
            others.append(FieldError("job_type", "invalid", text))
        elif about and self.params_form is not None:
            self.params_form.full_clean()
            named = [replace(e, field=e.field.replace("context", "params", 1)) for e in about]
            self.params_form.show(named)
        super().show(others)

    @property
    def changes(self) -> dict[str, Any]:
        own = super().changes
        changes = {name: value for name, value in own.items() if name in Schedule.editable}
        if self.params_form is not None and (
            self.is_new or canonical(self.params_form.params) != canonical(self.instance.context)
        ):
            changes["context"] = self.params_form.params
        return changes
