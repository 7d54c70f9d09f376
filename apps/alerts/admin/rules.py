"""Alert rules: what is watched, and whether it would fire now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import prefetch_related_objects
from django.http import HttpRequest
from django.utils.dates import WEEKDAYS_ABBR
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, pgettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from apps.alerts.admin.alerts import SEVERITY_COLOURS
from apps.alerts.admin.base import SettingAdmin, subject_link
from apps.alerts.models import EVERY_DAY, AlertRule, Channel
from apps.alerts.services import judging, settings
from apps.common.admin.display import (
    column,
    duration_of,
    label,
    listed,
    shown_text,
    state_label,
    translate,
)
from apps.common.admin.filters import list_filters
from apps.common.admin.html import table
from apps.common.admin.pages import Panel, in_pairs
from apps.common.admin.segments import SegmentBoxes
from apps.common.admin.service import ServiceForm
from apps.common.errors import FieldError
from apps.common.filtersets import Choice, RowFilters
from apps.reports.watches import UNKNOWN
from apps.reports.watches.subjects import names_of

MAX_READ = 50
WEEK = [(str(day + 1), WEEKDAYS_ABBR[day]) for day in range(7)]
HELP = {
    "target": _(
        "A job type, a worker, a sweep; of quotas a person or group, of schedules a job type, of "
        "runs and steps a flow. Empty: each one for itself."
    ),
    "threshold": _(
        "Failure rate and quota: a share, 0.2 is 20 %. Longest due, long step: seconds. Overdue "
        "sweep: periods. Growing backlog: ready jobs, up to 1,000. Empty: the usual one."
    ),
    "for_seconds": _("How long it must be wrong before a message is sent. Empty: the usual time."),
    "repeat_minutes": _("Notify people again while it fires. Empty: once."),
    "quiet_from": _("No messages in quiet hours; at their end one message lists what fires."),
    "quiet_zone": _("Of the quiet hours, such as Asia/Shanghai. Empty: that of the server."),
}


class RuleForm(ServiceForm):
    quiet_days = forms.MultipleChoiceField(
        label=_("Quiet hours begin on"),
        required=False,
        choices=WEEK,
        widget=SegmentBoxes,
    )
    channels = forms.ModelMultipleChoiceField(
        label=_("Channels"),
        required=False,
        queryset=Channel.objects.order_by("name"),
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_(
            "Where people are notified. Without one those for all rules are; without these alerts "
            "are on their page alone, until there is one."
        ),
    )

    class Meta:
        model = AlertRule
        fields = AlertRule.editable
        help_texts = {name: escape(text) for name, text in HELP.items()}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["quiet_days"] = list(self.initial.get("quiet_days") or EVERY_DAY)

    def clean_quiet_days(self) -> str:
        return "".join(sorted(self.cleaned_data["quiet_days"]))

    def rule_errors(self) -> Sequence[FieldError]:
        return settings.faults(self.instance, self.cleaned_data)


class RuleFilters(RowFilters):
    kind = Choice(AlertRule.KINDS, label=_("kind"))


class RuleAdmin(SettingAdmin):
    form = RuleForm
    when_empty = _("A rule watches the platform and notifies people when work stops flowing.")
    list_display = (
        *("name", "shown_kind", "target", "shown_limit"),
        *("shown_severity", "shown_channels", "enabled"),
    )
    list_mobile = (("shown_severity", "name"), ("shown_kind", "shown_limit"))
    list_filter = list_filters(RuleFilters)
    search_fields = ("name", "target")
    search_help_text = _("Part of a name or target")
    ordering = ("name",)

    shown_severity = state_label("severity", SEVERITY_COLOURS, _("severity"))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        what = ("name", "kind", "target", "severity", "threshold", "for_seconds", "enabled")
        quiet = ("quiet_from", "quiet_to", "quiet_zone", "quiet_days")
        return [
            (None, {"fields": in_pairs(what, alone=("kind",))}),
            (_("Who is notified"), {"fields": ["channels", "repeat_minutes"]}),
            (_("Quiet hours"), {"fields": in_pairs(quiet)}),
        ]

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        prefetch_related_objects(rows, "channels")
        default = list(Channel.objects.filter(is_default=True))
        for row in rows:
            row.takers = [each for each in list(row.channels.all()) or default if each.enabled]

    @column(_("channels"))
    def shown_channels(self, rule: AlertRule) -> str:
        """The channels of the alerts of a rule; a rule that would notify nobody says so."""
        named = listed(each.name for each in rule.takers)
        return shown_text(named, limit=60) if named else gettext("tells nobody")

    @column(_("kind"), ordering="kind")
    def shown_kind(self, rule: AlertRule) -> str:
        return str(rule.get_kind_display()).partition(":")[0].partition("：")[0]

    @column(_("threshold"))
    def shown_limit(self, rule: AlertRule) -> str:
        threshold, seconds = rule.limit.threshold, rule.limit.for_seconds
        limit = "" if threshold is None else rule.watch.shows(threshold)
        wait = gettext("for %s") % duration_of(seconds * 1000) if seconds else ""
        return " · ".join(each for each in (limit, wait) if each) or "–"

    def trouble(self, row: AlertRule) -> str | None:
        if row.watch is UNKNOWN:
            return translate(UNKNOWN.title)
        if missing := row.watch.missing_target(row.target):
            return missing
        if settings.rules_without_channel().filter(pk=row.pk).exists():
            return gettext("Nobody is notified: it has no enabled channel.")
        return None

    def top_panels(self, request: HttpRequest, row: AlertRule) -> list[Panel]:
        panels = [Panel(_("Would it fire now?"), _would(row))]
        if settings.rules_without_channel().filter(pk=row.pk).exists():
            said = shown_text(gettext("Nobody is notified: it has no enabled channel."))
            panels.insert(0, Panel("", format_html("<p>{}</p>", said)))
        return panels


def _would(rule: AlertRule) -> SafeString:
    """The readings of the rule now, the wrong ones first."""
    found = sorted(judging.judged_now(rule), key=lambda each: (not each[2], each[0]))
    if not found:
        why = filter(None, (rule.watch.missing_target(rule.target), rule.watch.nothing))
        said = [gettext("No: it reads nothing now."), *map(translate, why)]
        return format_html("<p>{}</p>", shown_text(" ".join(said)))
    wrong = sum(is_wrong for *_what, is_wrong in found)
    lead = gettext("Yes: %d wrong now.") % wrong if wrong else gettext("No: all is well.")
    has_value = rule.limit.threshold is not None
    names = names_of(subject for subject, *_read in found[:MAX_READ])
    rows = (
        (
            subject_link(subject, names[subject]),
            rule.watch.shows(value) if has_value else "–",
            label(gettext("wrong"), "danger") if is_wrong else label(gettext("well"), "success"),
        )
        for subject, value, is_wrong in found[:MAX_READ]
    )
    heads = pgettext("alert", "subject"), gettext("value"), gettext("state")
    return format_html("<p>{}</p>{}", shown_text(lead), table([*map(capfirst, heads)], rows))


admin.site.register(AlertRule, RuleAdmin)
