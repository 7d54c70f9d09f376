"""The form of a schedule: which jobs, by which rule, and the next runs of what is typed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import shown_text
from apps.common.admin.schema_form import covered
from apps.common.errors import FieldError
from apps.dispatch.admin.rule_form import REDRAW_RUNS, RuleForm
from apps.dispatch.admin.task_meaning import MISFIRE
from apps.jobs.admin.type_choice import ContextForm, offer_types
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


class ScheduleForm(ContextForm, RuleForm):
    """The fields of a schedule, and beside them `params_form` for what the schema of the type asks.

    `shows_context` is off for people who may not see contexts.
    """

    when = ("time_zone", "start_at", "end_at")
    redraw = {**REDRAW_RUNS, "hx-select-oob": "#more-line,#form-said"}
    chooser = "job_type"
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
            return
        offer_types(self, "job_type", self.bounds, kept=self.instance.job_type)
        self.fields["start_at"].required = not self.is_new
        if self.is_new:
            self.fields["start_at"].help_text = _("Empty = now.")
        for name in MORE:
            self.fields[name].widget.attrs.update(self.redraw)
        if self.is_new or self.shows_context:
            self.params_form = self.form_of(self.schema, None if self.is_new else self._shown())

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

    @property
    def said(self) -> SafeString | str:
        """`Every Monday at 09:00, UTC: a job of mail.`; "" while that cannot be said."""
        chosen = self["job_type"].value()
        if not chosen or not self.when_said:
            return ""
        return format_html(
            gettext("{when}: a job of {type}."),
            when=self.when_said,
            type=format_html("<bdi>{}</bdi>", shown_text(chosen)),
        )

    def _shown(self) -> dict[str, Any]:
        """The context that is stored; of another type, as far as its schema has fields for it."""
        stored: dict[str, Any] = self.instance.context
        is_other = self.chosen and self.chosen.name != self.instance.job_type
        return covered(stored, self.schema) if is_other else stored

    def times_of(self, fields: dict[str, Any], limit: int) -> list[datetime]:
        return schedules.next_runs(fields, limit, is_new=self.is_new)

    # --- saving -----------------------------------------------------------------------------------
    def check(self) -> None:
        validate(self.given(), current=self.current, bounds=self.bounds)

    def rule_errors(self) -> Sequence[FieldError]:
        # The context has a form of its own.
        return [each for each in super().rule_errors() if not self.is_of_params(each)]

    @property
    def changes(self) -> dict[str, Any]:
        own = super().changes
        return self.with_params({name: own[name] for name in own if name in Schedule.editable})
