"""The one form of tasks: what, who and how many, when once or by a rule, and more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from django import forms
from django.db.models import Q, QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from apps.common import clock
from apps.common.admin.display import duration_of
from apps.common.admin.key_choice import KeyChoiceField
from apps.common.admin.schema_form import REDRAW, ParamsForm, SchemaForm, covered
from apps.common.admin.segments import SegmentRadios
from apps.common.admin.zone_choice import ZoneField
from apps.dispatch.admin.filters import NAMES_URL
from apps.dispatch.admin.rule_form import ONCE, RULE_PARTS, RuleForm
from apps.dispatch.conf import conf
from apps.dispatch.models import Executor, OnceTask, RotateTask, Task, Template
from apps.dispatch.rules.recurrence import Recurrence, parse_rule
from apps.dispatch.services.validation import validate

# The values of the choice "repeats": when a new task is due, which decides its kind.
NOW, DATE, RULE = "now", "date", "rule"
KINDS: dict[str, type[OnceTask] | type[RotateTask]] = {
    NOW: OnceTask,
    DATE: OnceTask,
    RULE: RotateTask,
}
# The fields that only rotations have.
OF_RULES = ("time_zone", "misfire", "misfire_limit")
# The fields that the page folds.
MORE = (
    *("end_at", "lease_seconds", "priority", "on_failure", "on_expiry", "max_rounds", *OF_RULES),
    "status",
)
MODES: dict[str, str | Promise] = {
    Task.Mode.SINGLE: _("one person"),
    Task.Mode.MULTI: _("several people, each at most once"),
    Task.Mode.BLOCKING: _("several times, the same person again, too"),
}


def _lookback() -> str:
    """`7 days`."""
    length = conf.DISPATCH_LOOKBACK
    if length % timedelta(days=1):
        return duration_of(length // timedelta(milliseconds=1))
    return ngettext("%d day", "%d days", length.days) % length.days


class TaskForm(ParamsForm, RuleForm):
    """The fields of both kinds of task, and beside them `params_form` for what the template asks.

    A new task is of the kind that `repeats` says, whose form this is then; every form of a new one
    has the fields of both. `executors` are those that the operator may address. `shows_params` is
    off for people who may not see params: a stored task then keeps its own.
    """

    when = ("time_zone", "start_at", "end_at")
    redraw: ClassVar[Mapping[str, str]] = {}
    executors: ClassVar[QuerySet[Executor]] = Executor.objects.all()
    shows_params: ClassVar[bool] = True
    # The kinds that this person may plan, and the task that a new one is a copy of.
    kinds: ClassVar[Collection[type[Task]]] = (OnceTask, RotateTask)
    copied: ClassVar[Any] = None
    # The comparison that was asked for in place of a save.
    what_if: dict[str, Any] | None = None

    class Meta:
        fields: tuple[str, ...] = (
            "title",
            "start_at",
            "end_at",
            "mode",
            "dispatch_times",
            "priority",
            "lease_seconds",
            "on_failure",
            "on_expiry",
            "max_rounds",
            "status",
        )

    repeats = forms.ChoiceField(
        label=_("When"),
        required=False,
        choices=[
            (NOW, pgettext_lazy("when", "Now")),
            (DATE, _("At a date")),
            (RULE, _("Again and again")),
        ],
        widget=SegmentRadios,
    )
    time_zone = ZoneField(label=_("Time zone"))
    misfire = forms.ChoiceField(
        label=_("Missed runs"),
        choices=RotateTask.Misfire.choices,
        initial=RotateTask.Misfire.SKIP,
        widget=UnfoldAdminSelectWidget,
    )
    misfire_limit = forms.IntegerField(
        label=_("Runs to catch up"),
        initial=10,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=_("Only for “all”."),
    )
    executor = KeyChoiceField(
        rows=Executor.objects.all(),
        title="title",
        suggestions=NAMES_URL,
        label=_("Who"),
        help_text=_("The name of a person (uid_…) or group (gid_…)."),
    )
    template = forms.ModelChoiceField(
        queryset=Template.objects.none(),
        required=False,
        label=_("Template"),
        empty_label=_("none: any JSON object"),
        widget=UnfoldAdminSelectWidget(attrs=REDRAW),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.setdefault("executor", self.instance.executor_id)
        executor: Any = self.fields.get("executor")
        if executor is not None:
            executor.rows = self.executors
        self._choose_fields()
        self._limit_choices()
        self.params_form = self._made_params_form()

    @property
    def may_change(self) -> bool:
        return "title" in self.fields

    @property
    def has_rule(self) -> bool:
        return isinstance(self.instance, RotateTask)

    @property
    def stored_rule(self) -> Any:
        return getattr(self.copied or self.instance, "rule", None)

    def _choose_fields(self) -> None:
        """Keep the fields of the kind; for a new task, those of both kinds."""
        if self.is_new:
            repeats: Any = self.fields["repeats"]
            repeats.choices = [each for each in repeats.choices if KINDS[each[0]] in self.kinds]
            usual = DATE if self.initial.get("start_at") else NOW
            self.initial.setdefault("repeats", RULE if self.has_rule else usual)
        else:
            del self.fields["repeats"]
        every: Any = self.fields["every"]
        every.choices = [each for each in every.choices if each[0] != ONCE]
        for name in OF_RULES:
            self.fields[name].required = self.has_rule
        if not self.is_new and not self.has_rule:
            for name in ("every", *RULE_PARTS, *OF_RULES):
                del self.fields[name]

    @property
    def more_fields(self) -> list[forms.BoundField]:
        """The fields that most tasks leave as they are."""
        return [self[name] for name in MORE if name in self.fields]

    @property
    def has_more_errors(self) -> bool:
        return not self.errors.keys().isdisjoint(MORE)

    def _limit_choices(self) -> None:
        template: Any = self.fields.get("template")
        if template is not None:
            choices = Q(status=Template.Status.ACTIVE, pk__in=Template.objects.newest())
            template.queryset = Template.objects.filter(choices | Q(pk=self.instance.template_id))
        mode: Any = self.fields.get("mode")
        if mode is not None:
            mode.choices = [(value, MODES[value]) for value in Task.Mode.values]
        if "dispatch_times" in self.fields:
            self.fields["dispatch_times"].help_text = _("Empty: every person once.")
        if "lease_seconds" in self.fields:
            meaning = gettext("Whoever does not report for so long loses it.")
            self.fields["lease_seconds"].help_text = meaning
        if "end_at" in self.fields:
            text = gettext("What is due can be had for at most %s, also without an end.")
            self.fields["end_at"].help_text = text % _lookback()
        if "start_at" in self.fields and self.is_new:
            self.fields["start_at"].required = False
            self.fields["start_at"].help_text = _("Empty = now.")
        status: Any = self.fields.get("status")
        if status is not None:
            status.choices = [c for c in status.choices if c[0] != Task.Status.DELETED]

    def _made_params_form(self) -> SchemaForm | None:
        source = self.instance if self.copied is None else self.copied
        is_first = source.pk is None
        if "title" not in self.fields or not (is_first or self.shows_params):
            return None
        template = self.chosen_template()
        schema = None if template is None else template.schema
        stored = None if is_first else source.params
        if stored is not None and template is not None and template.pk != source.template_id:
            stored = covered(stored, schema)
        return self.form_of(schema, stored)

    def chosen_template(self) -> Template | None:
        """The template that is chosen in the form at this moment."""
        field: Any = self.fields["template"]
        chosen = self["template"].value()
        try:
            template: Template | None = field.to_python(chosen)
        except forms.ValidationError:
            return None
        return template

    def times_of(self, fields: dict[str, Any], limit: int) -> list[datetime]:
        now = clock.now()
        recurrence = Recurrence(
            rule=parse_rule(fields["rule"]),
            zone=ZoneInfo(fields["time_zone"]),
            start_at=fields["start_at"] or now,
            end_at=fields["end_at"],
            effective_from=now,
        )
        return [*islice(recurrence.after(now), limit)]

    def clean(self) -> dict[str, Any] | None:
        self._leave_hidden_out()
        return super().clean()

    def _leave_hidden_out(self) -> None:
        """Ignore the fields that the page hides beside these choices."""
        known = self.cleaned_data
        if known.get("mode") == Task.Mode.SINGLE:
            self._errors.pop("dispatch_times", None)
            known["dispatch_times"] = 1
        if self.has_rule or not self.is_new:
            return
        for name in ("every", *RULE_PARTS, *OF_RULES):
            self._errors.pop(name, None)
        if known.get("repeats") == NOW:
            self._errors.pop("start_at", None)
            known["start_at"] = None
        elif known.get("repeats") == DATE and "start_at" in known and not known["start_at"]:
            self.add_error("start_at", gettext("Fill in a date and a time, or choose Now."))

    def check(self) -> None:
        if "title" in self.fields:
            # The form of the params validates them, and that of the executor has found it.
            fields = {**self.given(), "template": None, "params": {}}
            fields.pop("executor", None)
            model: Any = type(self.instance)
            validate(model, fields, current=self.current)

    @property
    def new_values(self) -> dict[str, Any]:
        """The fields of a new task."""
        params = self.copied.params if self.params_form is None else self.params_form.params
        return {**self.given(), "executor": self.cleaned_data["executor"], "params": params}

    @property
    def changes(self) -> dict[str, Any]:
        own = super().changes
        changes = {name: own[name] for name in own if name in type(self.instance).editable}
        # A mode may set the quota without the box.
        times = self.cleaned_data.get("dispatch_times")
        if times != self.initial.get("dispatch_times"):
            changes["dispatch_times"] = times
        return self.with_params(changes)
