"""The form of a schedule: which jobs, by which rule, and the next runs of what is typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.db.models import QuerySet
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from apps.common.admin import ServiceForm
from apps.common.admin.display import shown_text
from apps.common.admin.schema_form import REDRAW, SchemaForm, covered
from apps.common.admin.service import DRAFT
from apps.common.admin.time_inputs import use_zone_of_form
from apps.common.errors import FieldError, PlatformError
from apps.common.json_rules import canonical
from apps.common.json_schema import check_params
from apps.common.zones import parse_zone
from apps.dispatch.rules.recurrence import DAYS, MINUTES, parse_rule
from apps.jobs.models import Bounds, JobType
from apps.schedules.admin.panels import due_list
from apps.schedules.models import Schedule
from apps.schedules.services import schedules
from apps.schedules.services.validation import validate

NEXT_RUNS = 5
ONCE, EVERY_MINUTES, EVERY_DAYS, CRON = "once", "every_minutes", "every_days", "cron"
# The parts of a rule that a choice has.
PARTS = {
    ONCE: (),
    EVERY_MINUTES: ("every_minutes",),
    EVERY_DAYS: ("every_days", "at"),
    CRON: ("cron",),
}
RULE_PARTS = tuple(part for parts in PARTS.values() for part in parts)
# What decides when it runs.
WHEN = ("time_zone", "start_at", "end_at")
_REDRAW_RUNS = {
    "hx-post": "",
    "hx-trigger": "change, input delay:500ms",
    "hx-include": "closest form",
    "hx-vals": f'{{"{DRAFT}": "1"}}',
    "hx-select": "#next-runs",
    "hx-target": "#next-runs",
    "hx-swap": "outerHTML",
    # One after the other, so that no older answer takes the place of a newer one.
    "hx-sync": "closest form:queue last",
}


def _choice(name: str, title: str) -> str:
    return f"{name} · {shown_text(title, limit=80)}" if title else name


class ScheduleForm(ServiceForm):
    """The fields of a schedule, and beside them `params_form` for what the schema of the type asks.

    `bounds` hold the job types that the operator may use. `shows_context` is off for people who may
    not see contexts: a stored schedule then keeps its own.
    """

    bounds: ClassVar[Bounds] = Bounds()
    shows_context: ClassVar[bool] = True

    job_type = forms.ChoiceField(label=_("Job type"))
    repeats = forms.ChoiceField(
        label=_("Runs"),
        choices=[
            (ONCE, _("once, at the start")),
            (EVERY_MINUTES, _("every … minutes")),
            (EVERY_DAYS, _("every … days at a time")),
            (CRON, _("by a cron expression")),
        ],
        initial=EVERY_MINUTES,
        widget=UnfoldAdminRadioSelectWidget(attrs=_REDRAW_RUNS),
    )
    every_minutes = forms.IntegerField(
        label=_("Every … minutes"),
        required=False,
        min_value=MINUTES[0],
        max_value=MINUTES[1],
        widget=UnfoldAdminIntegerFieldWidget(attrs=_REDRAW_RUNS),
        help_text=_("Counted from the start."),
    )
    every_days = forms.IntegerField(
        label=_("Every … days"),
        required=False,
        min_value=DAYS[0],
        max_value=DAYS[1],
        widget=UnfoldAdminIntegerFieldWidget(attrs=_REDRAW_RUNS),
    )
    at = forms.CharField(
        label=_("At"),
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs=_REDRAW_RUNS),
        help_text=_("Local time, like 09:30."),
    )
    cron = forms.CharField(
        label=_("Cron"),
        required=False,
        max_length=100,
        widget=UnfoldAdminTextInputWidget(attrs=_REDRAW_RUNS),
        help_text=_("Minute, hour, day, month, weekday: 0 9 * * 1-5"),
    )

    class Meta:
        model = Schedule
        fields = (
            *("title", "job_type", "priority", "max_attempts", "time_zone", "start_at", "end_at"),
            *("misfire", "misfire_limit", "overlap"),
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_new = self.instance.pk is None
        if "title" not in self.fields:
            # The page of who may only look.
            self.params_form = None
            return
        self._fill_rule()
        self._limit_types()
        if self.is_new:
            self.initial["time_zone"] = get_current_timezone_name()
        use_zone_of_form(self, "time_zone", ("start_at", "end_at"))
        for name in WHEN:
            self.fields[name].widget.attrs.update(_REDRAW_RUNS)
        self.fields["start_at"].required = not self.is_new
        if self.is_new:
            self.fields["start_at"].help_text = _("Empty = now.")
        self.params_form = self._made_params_form()

    def _fill_rule(self) -> None:
        rule = self.instance.rule
        if self.is_new and rule is None:
            return
        kinds = (kind for kind in PARTS if kind in (rule or {}))
        self.initial.setdefault("repeats", next(kinds, ONCE))
        for part, value in (rule or {}).items():
            self.initial.setdefault(part, value)

    def _limit_types(self) -> None:
        types = self._types().order_by("name").values_list("name", "title")
        choices = [(name, _choice(name, title)) for name, title in types]
        own = self.instance.job_type
        if own and own not in dict(choices):
            choices.append((own, gettext("%s (there is no such type any more)") % own))
        chosen: Any = self.fields["job_type"]
        chosen.widget = UnfoldAdminSelectWidget(choices=choices, attrs=REDRAW)
        chosen.choices = choices
        if self.initial.get("job_type") not in dict(choices):
            self.initial["job_type"] = choices[0][0] if choices else ""

    @cached_property
    def chosen(self) -> JobType | None:
        """The type that is chosen in the form at this moment."""
        return self._types().filter(name=str(self["job_type"].value() or "")[:64]).first()

    def _types(self) -> QuerySet[JobType]:
        types = self.bounds.types
        return JobType.objects.all() if types is None else JobType.objects.filter(name__in=types)

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

    # --- the next runs of what is typed -----------------------------------------------------------
    @cached_property
    def next_runs(self) -> list[datetime]:
        """The first runs by the rule as it is in the form now; none while it cannot be read."""
        try:
            fields = {name: self._now(name) for name in WHEN}
            parse_zone(fields["time_zone"])
            fields["rule"] = self._rule({part: self._now(part) for part in RULE_PARTS})
            if fields["rule"] is not None:
                parse_rule(fields["rule"])
            return schedules.next_runs(fields, NEXT_RUNS, is_new=self.is_new)
        except (forms.ValidationError, PlatformError):
            return []

    @property
    def shown_next_runs(self) -> SafeString:
        """The next runs, or what is missing to tell them; "" for who may only look."""
        if "title" not in self.fields:
            return SafeString()
        if not self.next_runs:
            return format_html("<p>{}</p>", _("None, by what is filled in above."))
        return due_list(self.next_runs, parse_zone(self._now("time_zone")))

    @property
    def next_runs_title(self) -> str:
        return gettext("Next %(count)d runs by this form") % {"count": NEXT_RUNS}

    def _now(self, name: str) -> Any:
        """The value of the field; ValidationError when it cannot be read."""
        field: Any = self.fields[name]
        bound: Any = self[name]
        if self.is_bound:
            return field.clean(bound.data)
        return bound.initial

    # --- saving -----------------------------------------------------------------------------------
    def _rule(self, values: dict[str, Any]) -> dict[str, Any] | None:
        """The parts of the choice; None to run once."""
        chosen = str(self["repeats"].value() or ONCE)
        if chosen == ONCE:
            return None
        found = {part: values.get(part) for part in PARTS.get(chosen, ())}
        return {part: value for part, value in found.items() if value not in (None, "")}

    def clean(self) -> dict[str, Any] | None:
        for part in set(RULE_PARTS).difference(PARTS.get(str(self["repeats"].value()), RULE_PARTS)):
            # The page hides what another choice has.
            self._errors.pop(part, None)
        cleaned = super().clean()
        if self.params_form is not None and not self.params_form.is_valid():
            self.add_error(None, gettext("The context has errors; see below."))
        return cleaned

    def given(self) -> dict[str, Any]:
        """The fields of the schedule but its context, as far as the form could read them."""
        known = self.cleaned_data
        fields = {name: known[name] for name in known if name in Schedule.editable}
        return {**fields, "rule": self._rule(known)}

    def rule_errors(self) -> Sequence[FieldError]:
        current = None if self.is_new else self.instance
        try:
            validate(self.given(), current=current, bounds=self.bounds)
        except PlatformError as refusal:
            errors = refusal.errors
        else:
            return ()
        if not self.errors.keys().isdisjoint(RULE_PARTS):
            # A part that could not be read leaves nothing to say of the rule as a whole.
            errors = tuple(error for error in errors if not error.field.startswith("rule"))
        # The context has a form of its own.
        return [error for error in errors if not error.field.startswith("context")]

    def field_of(self, path: str) -> str | None:
        part = path.removeprefix("rule.")
        if part in RULE_PARTS:
            return part
        if path == "rule":
            return next(iter(PARTS.get(str(self["repeats"].value()), ())), "repeats")
        return super().field_of(path)

    def show(self, errors: Sequence[FieldError]) -> None:
        about = [error for error in errors if error.field.partition(".")[0] == "context"]
        others = [error for error in errors if error not in about]
        if about and self.params_form is None:
            # The messages quote values that this person may not see.
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
        if (rule := self._rule(self.cleaned_data)) != self.instance.rule:
            changes["rule"] = rule
        if self.params_form is not None and (
            self.is_new or canonical(self.params_form.params) != canonical(self.instance.context)
        ):
            changes["context"] = self.params_form.params
        return changes
