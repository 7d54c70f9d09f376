"""The part of a form that says when something repeats, and the next times by what is typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple
from zoneinfo import ZoneInfo

from django import forms
from django.utils.dateformat import format as date_format
from django.utils.dates import WEEKDAYS_ABBR
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timezone import get_current_timezone_name, localtime
from django.utils.translation import gettext, pgettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from apps.common import clock
from apps.common.admin.display import titled_time, translate
from apps.common.admin.html import joined
from apps.common.admin.segments import SegmentBoxes
from apps.common.admin.service import DRAFT, ServiceForm
from apps.common.admin.time_inputs import use_zone_of_form
from apps.common.errors import FieldError, PlatformError
from apps.common.messages import Message
from apps.common.zones import parse_zone
from apps.dispatch.rules.recurrence import DAYS, MINUTES, parse_rule
from apps.dispatch.rules.summary import summary
from apps.dispatch.rules.weekdays import (
    LAST_DAY,
    MONTH,
    MONTH_DAYS,
    WEEK,
    WEEKDAYS,
    OnDays,
    days_of,
)

NEXT_RUNS = 5
ONCE, EVERY_MINUTES, EVERY_DAYS, CRON = "once", "every_minutes", "every_days", "cron"
# When a new rule is due, until somebody says otherwise.
MORNING = "09:00"
# The parts of a rule that a choice has.
PARTS = {
    ONCE: (),
    EVERY_MINUTES: ("every_minutes",),
    EVERY_DAYS: ("every_days", "at"),
    WEEK: ("weekdays", "at"),
    MONTH: ("month_day", "at"),
    CRON: ("cron",),
}
RULE_PARTS = ("every_minutes", "every_days", "weekdays", "month_day", "at", "cron")
# The fields of the rule as the pages have them: `*ROWS` in a list of fields.
ROWS = ("every", *RULE_PARTS)
REDRAW_RUNS = {
    "hx-post": "",
    "hx-trigger": "change, input delay:500ms",
    "hx-include": "closest form",
    "hx-vals": f'{{"{DRAFT}": "1"}}',
    "hx-select": "#next-runs",
    "hx-select-oob": "#form-said",
    "hx-target": "#next-runs",
    "hx-swap": "outerHTML",
    # The calls wait for each other, so that no older answer replaces a newer one.
    "hx-sync": "closest form:queue last",
}


class _Read(NamedTuple):
    """The first runs and the rule in words, or neither and why."""

    runs: list[datetime] = []
    words: str = ""
    why_none: str = ""


_WITH_PARTS: dict[str, tuple[str, ...]] = {kind: parts for kind, parts in PARTS.items() if parts}


class RuleForm(ServiceForm):
    """The rule as one choice with its parts. A subclass names in `when` the fields that decide with
    the rule: the time zone, and instants; it works out the next times in `times_of`.

    Weekdays and a day of the month are stored as cron expressions. Cron expressions that mean no
    more are shown as weekdays or a day of the month.
    """

    when: ClassVar[tuple[str, ...]] = ("time_zone",)
    # The attributes of the fields on which the next times depend.
    redraw: ClassVar[Mapping[str, str]] = REDRAW_RUNS

    every = forms.ChoiceField(
        label=_("Every"),
        required=False,
        choices=[
            (ONCE, _("once, at the start")),
            (EVERY_DAYS, pgettext_lazy("every", "days")),
            (WEEK, pgettext_lazy("every", "week")),
            (MONTH, pgettext_lazy("every", "month")),
            (EVERY_MINUTES, pgettext_lazy("every", "minutes")),
            (CRON, pgettext_lazy("every", "cron expression")),
        ],
        widget=UnfoldAdminSelectWidget,
    )
    every_minutes = forms.IntegerField(
        label=_("Every … minutes"),
        required=False,
        min_value=MINUTES[0],
        max_value=MINUTES[1],
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=_("Counted from the start."),
    )
    every_days = forms.IntegerField(
        label=_("Every … days"),
        required=False,
        min_value=DAYS[0],
        max_value=DAYS[1],
        widget=UnfoldAdminIntegerFieldWidget,
    )
    weekdays = forms.MultipleChoiceField(
        label=_("On"),
        required=False,
        choices=[(day, WEEKDAYS_ABBR[int(day) - 1]) for day in WEEKDAYS],
        widget=SegmentBoxes,
    )
    month_day = forms.ChoiceField(
        label=_("On day"),
        required=False,
        choices=[(day, _("last") if day == LAST_DAY else day) for day in ("", *MONTH_DAYS)],
        widget=UnfoldAdminSelectWidget,
    )
    at = forms.CharField(
        label=_("At"),
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "09:00"}),
    )
    cron = forms.CharField(
        label=_("Cron"),
        required=False,
        max_length=100,
        widget=UnfoldAdminTextInputWidget(attrs={"spellcheck": "false"}),
        help_text=_("Minute, hour, day, month, weekday: 0 9 * * 1-5"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_new = self.instance.pk is None
        if self.may_change:
            self._fill_rule()
            if self.is_new:
                self.initial.setdefault("at", MORNING)
                if "time_zone" not in (kwargs.get("initial") or {}):
                    self.initial["time_zone"] = get_current_timezone_name()
            if self.has_rule:
                use_zone_of_form(self, "time_zone", set(self.when) - {"time_zone"})
            for name in ("every", *RULE_PARTS, *self.when):
                if name in self.fields:
                    self.fields[name].widget.attrs.update(self.redraw)

    @property
    def may_change(self) -> bool:
        """Whether the person may change the row, not only look at it."""
        return "time_zone" in self.fields

    @property
    def has_rule(self) -> bool:
        """Whether the row is due by a rule, so that its parts count."""
        return True

    @property
    def stored_rule(self) -> Any:
        """The rule of the row; None for none."""
        return getattr(self.instance, "rule", None)

    def _fill_rule(self) -> None:
        rule = self.stored_rule
        if rule is None:
            self.initial.setdefault("every", EVERY_DAYS if self.is_new else ONCE)
            self.initial.setdefault("every_days", 1 if self.is_new else None)
            return
        parts = dict(rule) if isinstance(rule, dict) else {}
        on = days_of(rule)
        if on is not None:
            parts = {"every": on.every, **on._asdict()}
        kinds = (kind for kind in PARTS if kind in parts)
        self.initial.setdefault("every", parts.pop("every", None) or next(kinds, ONCE))
        for part, value in parts.items():
            self.initial.setdefault(part, value)

    @property
    def kind(self) -> str:
        """The kind chosen under "every"; without a choice, the first kind with a part filled in."""
        if "every" not in self.fields:
            return ONCE
        chosen = str(self["every"].value() or "")
        filled = (kind for kind, (part, *_more) in _WITH_PARTS.items() if self[part].value())
        return chosen or next(filled, EVERY_MINUTES)

    def times_of(self, fields: dict[str, Any], limit: int) -> list[datetime]:
        """The first times by these valid fields: `rule` and those of `when`."""
        raise NotImplementedError(f"{type(self).__name__} must define times_of()")

    # --- what is typed, in words and as the next runs -------------------------------------------
    @cached_property
    def _read(self) -> _Read:
        """What the rule means as it is in the form now, or what is wrong with what is filled in."""
        fields: dict[str, Any] = {}
        try:
            fields |= {name: self._now(name) for name in self.when}
            parse_zone(fields["time_zone"])
            fields["rule"] = self.rule_of({part: self._now(part) for part in RULE_PARTS})
            words = _words(fields["rule"], fields["time_zone"])
            return _Read(self.times_of(fields, NEXT_RUNS), translate(words))
        except forms.ValidationError:
            return _Read()
        except PlatformError as error:
            return _Read(why_none=translate(error.detail) if fields.get("rule") else "")

    @property
    def next_runs(self) -> list[datetime]:
        """The first runs by the rule as it is in the form now; none while it cannot be read."""
        return self._read.runs

    @property
    def why_no_runs(self) -> str:
        """The fault of the rule that is filled in; "" while it is not filled in yet."""
        return self._read.why_none

    @property
    def when_said(self) -> str:
        """The rule in words; "" while it cannot be read."""
        return capfirst(self._read.words)

    @property
    def short_next_runs(self) -> SafeString | None:
        """The next runs in a line; None without a rule."""
        if not self.has_rule:
            return None
        runs = self.next_runs
        if not runs:
            return format_html("<span>{}</span>", self.why_no_runs or gettext("none yet"))
        zone = parse_zone(self._now("time_zone"))
        return joined((_short(run, zone) for run in runs), " ")

    def _now(self, name: str) -> Any:
        """The value of the field; ValidationError when it cannot be read."""
        field: Any = self.fields[name]
        bound: Any = self[name]
        if self.is_bound:
            return field.clean(bound.data)
        return bound.initial

    # --- saving -----------------------------------------------------------------------------------
    def rule_of(self, values: dict[str, Any]) -> dict[str, Any] | None:
        """The parts of the choice; None to run once, {} for parts that make no rule."""
        if self.kind == ONCE:
            return None
        if self.kind in (WEEK, MONTH):
            on = self._on_days(values)
            # An expression that means the same is kept as it was written.
            return self.stored_rule if on == days_of(self.stored_rule) else self._rule_on(on)
        found = {part: values.get(part) for part in PARTS.get(self.kind, ())}
        return {part: value for part, value in found.items() if value not in (None, "")}

    @staticmethod
    def _rule_on(on: OnDays) -> dict[str, Any]:
        return {} if any(on.faults()) else on.rule

    def _on_days(self, values: dict[str, Any]) -> OnDays:
        at = (values.get("at") or "").strip()
        if self.kind == WEEK:
            return OnDays(WEEK, at, tuple(sorted(values.get("weekdays") or ())))
        return OnDays(MONTH, at, month_day=values.get("month_day") or "")

    def clean(self) -> dict[str, Any] | None:
        for part in set(RULE_PARTS).difference(PARTS.get(self.kind, RULE_PARTS)):
            # The page hides the fields of another choice.
            self._errors.pop(part, None)
        if self.has_rule and self.kind in (WEEK, MONTH):
            self.show([*self._on_days(self.cleaned_data).faults()])
        return super().clean()

    @property
    def current(self) -> Any:
        """The row as it is stored; None for a new one."""
        return None if self.is_new else self.instance

    def given(self) -> dict[str, Any]:
        """The fields of the row as far as the form could read them, and the rule as a whole."""
        known, editable = self.cleaned_data, type(self.instance).editable
        given = {name: known[name] for name in known if name in editable}
        return {**given, "rule": self.rule_of(known)} if self.has_rule else given

    def rule_errors(self) -> Sequence[FieldError]:
        errors = super().rule_errors()
        if self.errors.keys().isdisjoint(RULE_PARTS):
            return errors
        # The rule as a whole is wrong as a part of it could not be read.
        return [error for error in errors if not error.field.startswith("rule")]

    def field_of(self, path: str) -> str | None:
        part = path.removeprefix("rule.")
        if part in RULE_PARTS:
            own = PARTS.get(self.kind, RULE_PARTS)
            return part if part in own else next(iter(own), "every")
        if path == "rule":
            return next(iter(PARTS.get(self.kind, ())), "every")
        return super().field_of(path)

    @property
    def changes(self) -> dict[str, Any]:
        """The changed columns of the row: the rule as a whole, and never its parts."""
        own = super().changes
        changes = {name: own[name] for name in own if name not in (*RULE_PARTS, "every")}
        rule = self.rule_of(self.cleaned_data) if self.has_rule else None
        return changes if rule == self.stored_rule else {**changes, "rule": rule}


def _words(rule: Any, zone: str) -> Message:
    return Message("once") if rule is None else summary(parse_rule(rule), zone)


def _short(instant: datetime, zone: ZoneInfo) -> SafeString:
    local = localtime(instant, zone)
    pattern = pgettext("of a date", "D j M H:i")
    if local.year != localtime(clock.now(), zone).year:
        pattern = pgettext("of a date", "D j M Y H:i")
    return titled_time(instant, date_format(local, pattern), zone, look="run")
