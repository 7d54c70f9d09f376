"""Report plans: reports that are sent again and again, when, to whom, and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminTextInputWidget,
)

from apps.alerts.admin.alerts import delivery_line
from apps.alerts.models import MAX_QUERY, Channel, ReportPlan, ReportRun
from apps.alerts.services import report_plans, report_runs
from apps.common import clock
from apps.common.admin.actions import ReasonAction
from apps.common.admin.display import (
    column,
    due_list,
    label,
    rule_words,
    shown_rule,
    shown_text,
    shown_time,
    text_column,
    translate,
    zoned_time_column,
)
from apps.common.admin.html import bullets, joined, link
from apps.common.admin.pages import Panel
from apps.common.admin.service import ServiceModelAdmin
from apps.common.errors import FieldError
from apps.common.messages import Message
from apps.dispatch.admin.rule_form import EVERY_DAYS, ONCE, ROWS, RuleForm
from apps.journal.admin import RecordedAdmin
from apps.reports.services.choice import PRESET_TITLES, SOURCES, TABS
from apps.reports.services.sheet import View

NEXT_TIMES = 5
MAX_RUNS = 20
MORNING = "08:00"


def report_words(query: str, user: Any) -> str:
    """The report of the query in words: `Jobs · By type · 24 hours · UTC`."""
    choice = View.of(user).choice_of(QueryDict(query), clock.now())
    period = PRESET_TITLES[choice.preset] if choice.preset else gettext("fixed times")
    of = choice.only[1] if choice.only else choice.flow
    only = f" · {of}" if of else ""
    return f"{SOURCES[choice.source]} · {TABS[choice.by]}{only} · {period} · {choice.zone.key}"


class PlanForm(RuleForm):
    """A report and when it is sent; `owner` is who fills it in."""

    owner: ClassVar[Any] = None

    query = forms.CharField(
        label=_("Report"),
        max_length=MAX_QUERY,
        widget=UnfoldAdminTextInputWidget(attrs={"spellcheck": "false"}),
        help_text=_("The address of a report page, or what stands after its question mark."),
    )
    channels = forms.ModelMultipleChoiceField(
        label=_("Channels"),
        required=False,
        queryset=Channel.objects.order_by("name"),
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("Mail gets a table and a file, a bot some lines and a link, a webhook JSON."),
    )

    class Meta:
        model = ReportPlan
        fields = ("title", "time_zone", "enabled", "channels")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.may_change:
            return
        self.initial.setdefault("query", self.instance.query)
        channels: Any = self.fields["channels"]
        if not channels.queryset.exists():
            channels.help_text = _("There is no channel yet. Add one on the page Channels first.")
        every: Any = self.fields["every"]
        every.choices = [each for each in every.choices if each[0] != ONCE]
        self.fields["every_minutes"].help_text = _("Counted from when this is saved.")
        if self.is_new:
            self.initial.update(every=EVERY_DAYS, every_days=1, at=MORNING)

    @property
    def next_runs_title(self) -> str:
        return gettext("Next %(count)d times by this form") % {"count": NEXT_TIMES}

    def times_of(self, fields: dict[str, Any], limit: int) -> list[datetime]:
        return report_plans.next_times(fields, limit)

    def given(self) -> dict[str, Any]:
        """The values of the plan, as far as the form could read them."""
        known = self.cleaned_data
        values = {name: known[name] for name in report_plans.FIELDS if name in known}
        return {**values, "rule": self.rule_of(known) or {}}

    def rule_errors(self) -> Sequence[FieldError]:
        current = {name: getattr(self.instance, name) for name in report_plans.FIELDS}
        values = {**current, **self.given()}
        return self.without_rule(
            report_plans.faults(values, owner=self.owner, kept=self.instance.rule)
        )


class ReportPlanAdmin(RecordedAdmin, ServiceModelAdmin):
    form = PlanForm
    is_removable = True
    when_empty = _(
        "A plan sends a report again and again. The page of a report offers “Send regularly…”."
    )
    list_display = ("shown_title", "rule_words", "next_time", "shown_owner", "enabled")
    list_mobile = (("shown_title", "enabled"), ("rule_words", "next_time"))
    list_select_related = ("owner",)
    search_fields = ("title",)
    search_help_text = _("Part of a title")
    ordering = ("title",)
    actions = ("send_now",)

    shown_title = text_column("title", _("title"), ordering="title")
    shown_rule, rule_words = shown_rule, rule_words
    next_time = zoned_time_column("next_at", _("next time"), ordering="next_at")

    # --- the list ---------------------------------------------------------------------------------
    @column(_("owner"))
    def shown_owner(self, plan: ReportPlan) -> str:
        return "–" if plan.owner is None else shown_text(plan.owner.get_username())

    @column(_("channels"))
    def shown_channels(self, plan: ReportPlan) -> str:
        return ", ".join(shown_text(each.name) for each in plan.channels.order_by("name")) or "–"

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            fields: list[Any] = [("shown_title", "enabled"), "shown_rule", "shown_channels"]
            return [(None, {"fields": fields})]
        return [
            (None, {"fields": ["title", "query", "channels", "enabled"]}),
            (_("When"), {"fields": [*ROWS, "time_zone"]}),
        ]

    def form_knows(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {"owner": request.user}

    def get_changeform_initial_data(self, request: HttpRequest) -> Any:
        given = super().get_changeform_initial_data(request)
        if zone := QueryDict(str(given.get("query", ""))).get("zone"):
            given.setdefault("time_zone", zone)
        return given

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> ReportPlan:
        values = {**form.given(), "channels": form.cleaned_data["channels"]}
        return report_plans.create_plan(owner=request.user, actor=actor, **values)

    def update(
        self, request: HttpRequest, row: ReportPlan, form: Any, *, version: int, actor: str
    ) -> ReportPlan:
        return report_plans.update_plan(
            plan=row, changes=form.changes, version=version, owner=request.user, actor=actor
        )

    def remove(self, request: HttpRequest, row: ReportPlan, *, actor: str) -> None:
        report_plans.delete_plan(plan=row, actor=actor)

    # --- the page ---------------------------------------------------------------------------------
    def top_panels(self, request: HttpRequest, row: ReportPlan) -> list[Panel]:
        coming = due_list(row.times_after(clock.now(), NEXT_TIMES), row.recurrence.zone)
        if not row.enabled:
            coming = format_html("<p>{}</p>", gettext("It is off."))
        return [Panel("", self._head(request, row)), Panel(_("Next times"), coming)]

    def _head(self, request: HttpRequest, row: ReportPlan) -> SafeString:
        """The report of the plan, its owner, and why it cannot be sent, if so."""
        why = report_runs.why_not(row)
        refused: SafeString | str = (
            ""
            if why is None
            else format_html('<p class="notice" role="alert">{}</p>', translate(why))
        )
        words = report_words(row.query, row.owner or request.user)
        return format_html(
            "{}<p>{}</p><p>{}</p>",
            refused,
            link(f"{reverse('report')}?{row.query}", words),
            gettext("With the rights of %(owner)s, who saved it last.")
            % {"owner": self.shown_owner(row)},
        )

    def panels(self, request: HttpRequest, row: ReportPlan) -> list[Panel]:
        runs = row.runs.prefetch_related("deliveries__channel").order_by("-pk")[:MAX_RUNS]
        sent = bullets(map(_run_line, runs)) or format_html("{}", _("None yet."))
        return [Panel(_("Sent"), sent), *super().panels(request, row)]

    # --- actions ----------------------------------------------------------------------------------
    @ReasonAction(
        description=_("Send now"),
        permission="change",
        question=_("They are sent at once, beside the times of their rules."),
        done=ngettext_lazy("%d report sent.", "%d reports sent."),
        icon="send",
        is_harmless=True,
    )
    def send_now(self, row: ReportPlan, *, reason: str, actor: str) -> object:
        return report_runs.send_now(plan=row, actor=actor, reason=reason)


def _run_line(run: ReportRun) -> SafeString:
    """A run of the plan in one line: each of its messages, or why there are none."""
    by_hand = gettext("sent by hand") if run.by_hand else ""
    if run.why:
        why = format_html(
            "{} {}", label(gettext("not sent"), "warning"), translate(Message(run.why))
        )
    else:
        why = joined(map(delivery_line, run.deliveries.all()), each="<br>{}")
    return format_html("{} {} {}", shown_time(run.at), by_hand, why)


admin.site.register(ReportPlan, ReportPlanAdmin)
