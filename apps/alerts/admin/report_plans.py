"""Report plans: reports that are sent again and again, when, to whom, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
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
from apps.alerts.models import MAX_QUERY, Channel, Delivery, ReportPlan
from apps.alerts.services import report_plans, report_runs
from apps.common import clock
from apps.common.admin.actions import ReasonAction
from apps.common.admin.display import column, listed, shown_text, translate
from apps.common.admin.html import joined, link
from apps.common.admin.pages import Panel
from apps.common.errors import PlatformError
from apps.common.readers import read_number
from apps.dispatch.admin.rule_form import EVERY_DAYS, ONCE, ROWS, RuleForm
from apps.reports.services.choice import PRESET_TITLES, SOURCES, TABS
from apps.reports.services.sheet import View
from apps.schedules.admin.schedules import ScheduleAdmin
from apps.schedules.services import schedules

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
        fields = ("title", "query", "channels", "time_zone")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.may_change:
            return
        channels: Any = self.fields["channels"]
        if not channels.queryset.exists():
            channels.help_text = format_html(
                gettext("There is no channel yet. {add}"),
                add=link(reverse("admin:alerts_channel_add"), gettext("Add channel")),
            )
        every: Any = self.fields["every"]
        every.choices = [each for each in every.choices if each[0] != ONCE]
        self.fields["every_minutes"].help_text = _("Counted from when this is saved.")
        for name in ("query", "channels"):
            self.fields[name].widget.attrs.update(self.redraw)
        if self.is_new:
            self.initial.update(every=EVERY_DAYS, every_days=1, at=MORNING)

    def times_of(self, fields: dict[str, Any], limit: int) -> list[datetime]:
        return report_plans.next_times(self.instance, fields, limit)

    @property
    def said(self) -> SafeString | str:
        """`Daily at 08:00, UTC: Jobs · By type · 24 hours, to ops.`; "" while it cannot be said."""
        try:
            typed = self._now("query")
            query = report_plans.kept_query(typed, self.owner) if typed else ""
            names = [each.name for each in self._now("channels") or ()]
        except (forms.ValidationError, PlatformError):
            return ""
        if not query or not self.when_said:
            return ""
        said = gettext("{when}: {report}, to {channels}.")
        if not names:
            said = gettext("{when}: {report}; nobody gets it yet.")
        return format_html(
            said,
            when=self.when_said,
            report=report_words(query, self.owner),
            channels=listed(map(shown_text, names)),
        )

    def check(self) -> None:
        report_plans.checked(self.given(), owner=self.owner, current=self.current)


class ReportPlanAdmin(ScheduleAdmin):
    """Plans as schedules in words of their own."""

    form: Any = PlanForm
    add_form_template: ClassVar[Any] = "admin/report_plan_form.html"
    change_form_template: ClassVar[Any] = "admin/report_plan_form.html"
    is_removable = True
    when_empty = _(
        "A plan sends a report again and again. The page of a report offers “Send regularly…”."
    )
    list_display = (
        *("shown_title", "rule_words", "next_run", "last_run", "shown_owner", "shown_status"),
    )
    list_mobile = (("shown_title", "shown_status"), ("rule_words", "next_run"))
    list_select_related = ("owner",)
    list_filter: ClassVar[Any] = ()
    list_tabs = ""
    ordering = ("title",)
    payload_fields: ClassVar[Any] = ()
    actions: Any = ("send_now", "pause", "resume")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return ReportPlan.objects.not_deleted()

    def get_object(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> Any:
        # Of a key that is one of another table Django lets any number through to the database.
        is_number = read_number(object_id) is not None
        return super().get_object(request, object_id, *args, **kwargs) if is_number else None

    @column(_("owner"))
    def shown_owner(self, plan: ReportPlan) -> str:
        return "–" if plan.owner is None else shown_text(plan.owner.get_username())

    @column(_("channels"))
    def shown_channels(self, plan: ReportPlan) -> str:
        return listed(shown_text(each.name) for each in plan.channels.order_by("name")) or "–"

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return [(None, {"fields": ["shown_title", "shown_rule", "shown_channels"]})]
        return [
            (None, {"fields": ["title", "query", "channels"]}),
            (_("When"), {"fields": [*ROWS, "time_zone"]}),
        ]

    def form_knows(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {"owner": request.user}

    def get_changeform_initial_data(self, request: HttpRequest) -> Any:
        given = super().get_changeform_initial_data(request)
        if zone := QueryDict(str(given.get("query", ""))).get("zone"):
            given.setdefault("time_zone", zone)
        return given

    def add_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        # Nobody has to choose a job type.
        return super(ScheduleAdmin, self).add_view(request, *args, **kwargs)

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> ReportPlan:
        return report_plans.create_plan(owner=request.user, actor=actor, **form.given())

    def update(
        self, request: HttpRequest, row: Any, form: Any, *, version: int, actor: str
    ) -> ReportPlan:
        return report_plans.update_plan(
            plan=row, changes=form.changes, version=version, owner=request.user, actor=actor
        )

    def remove(self, request: HttpRequest, row: Any, *, actor: str) -> None:
        schedules.delete_schedule(schedule=row, actor=actor)

    def page_context(self, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
        return {}

    # --- the page ---------------------------------------------------------------------------------
    def top_panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        """The report, its owner, and why it cannot be sent, if so; then what any schedule has."""
        refused: SafeString | str = ""
        if why := report_plans.why_not(row):
            refused = format_html('<p class="notice" role="alert">{}</p>', translate(why))
        words = report_words(row.query, row.owner or request.user)
        head = format_html(
            "{}<p>{}</p><p>{}</p>",
            refused,
            link(f"{reverse('report')}?{row.query}", words),
            gettext("With the rights of %(owner)s, who saved it last.")
            % {"owner": self.shown_owner(row)},
        )
        own, *more = super().top_panels(request, row)
        return [Panel("", joined([head, own.body])), *more]

    def made_by(self, jobs: Sequence[int]) -> Mapping[int, SafeString]:
        lines: dict[int, list[SafeString]] = {}
        for sent in Delivery.objects.filter(job__in=jobs).select_related("channel").order_by("pk"):
            lines.setdefault(sent.job or 0, []).append(delivery_line(sent))
        return {job: joined(sent, SafeString("<br>")) for job, sent in lines.items()}

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


admin.site.register(ReportPlan, ReportPlanAdmin)
