"""Alerts: what fires, what is snoozed, and what is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext_lazy, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.alerts.admin.base import subject_link
from apps.alerts.models import Alert, AlertRule, Delivery
from apps.alerts.services import alerts, settings
from apps.alerts.services.firing import rows_of
from apps.alerts.services.messages import sentence
from apps.common import clock
from apps.common.admin.actions import ReasonAction
from apps.common.admin.display import (
    choice_label,
    column,
    label,
    shown_actor,
    shown_text,
    shown_time,
    time_column,
    translate,
)
from apps.common.admin.filters import list_filters
from apps.common.admin.html import bullets, joined, link, page_link
from apps.common.admin.list_head import NextStep
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.common.admin.pages import Panel
from apps.common.filtersets import Choice, RowFilters
from apps.journal.admin import RecordedAdmin
from apps.reports.watches.subjects import names_of

STATE_COLOURS = {
    Alert.State.PENDING: "info",
    Alert.State.FIRING: "danger",
    Alert.State.SNOOZED: "warning",
    Alert.State.RESOLVED: "success",
}
SEVERITY_COLOURS = {AlertRule.Severity.WARNING: "warning", AlertRule.Severity.CRITICAL: "danger"}
MAX_DELIVERIES = 20


def _in_state(rows: Any, _name: str, state: str) -> Any:
    return rows.filter(Alert.in_state(state, clock.now()))


class AlertFilters(RowFilters):
    state = Choice(Alert.State.choices, label=_("state"), method=_in_state)
    severity = Choice(AlertRule.Severity.choices, "rule__severity", label=_("severity"))


class AlertAdmin(RecordedAdmin, MachineRowAdmin):
    when_no_history = _("Nobody has acted on it yet.")
    when_empty = _("Nothing is wrong, or no rule watches it: see the alert rules.")
    next_steps = (
        NextStep(
            _("See the alert rules"), "admin:alerts_alertrule_changelist", "alerts.view_alertrule"
        ),
    )
    list_display = (
        *("shown_what", "shown_severity", "shown_state"),
        *("shown_rule", "shown_value", "shown_since"),
    )
    list_mobile = (("shown_state", "shown_severity", "shown_what"), ("shown_value", "shown_since"))
    list_filter = list_filters(AlertFilters)
    list_tabs = "state"
    list_select_related = ("rule",)
    list_disable_select_all = False
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("shown_state", "shown_severity"),
                    ("shown_rule", "shown_subject"),
                    ("shown_value", "shown_since"),
                    ("shown_fired", "shown_notified"),
                    ("shown_resolved", "shown_snoozed"),
                )
            },
        ),
    )
    actions = ("snooze_hour", "snooze_shift")

    shown_since = time_column("since", _("since"))
    shown_fired = time_column("fired_at", _("fired"))
    shown_notified = time_column("notified_at", _("notified"))
    shown_resolved = time_column("resolved_at", _("resolved"))

    # --- the list ---------------------------------------------------------------------------------
    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        names = names_of(row.subject for row in rows)
        for row in rows:
            row.name = names[row.subject]

    @column(_("alert"))
    def shown_what(self, alert: Alert) -> str:
        return shown_text(alert.name, limit=80)

    @column(_("state"))
    def shown_state(self, alert: Alert) -> SafeString:
        state = alert.state(clock.now())
        return label(capfirst(str(state.label)), STATE_COLOURS[state])

    @column(_("severity"))
    def shown_severity(self, alert: Alert) -> SafeString:
        return choice_label(AlertRule.Severity, alert.rule.severity, SEVERITY_COLOURS)

    @column(_("alert rule"))
    def shown_rule(self, alert: Alert) -> SafeString:
        return page_link(AlertRule, alert.rule_id, shown_text(alert.rule.name))

    @column(pgettext_lazy("alert", "subject"))
    def shown_subject(self, alert: Alert) -> SafeString:
        return subject_link(alert.subject, alert.name)

    @column(_("value"))
    def shown_value(self, alert: Alert) -> str:
        rule = alert.rule
        return "–" if rule.limit.threshold is None else rule.watch.shows(alert.value)

    @column(_("snoozed until"))
    def shown_snoozed(self, alert: Alert) -> SafeString | str:
        if alert.snoozed_until is None:
            return "–"
        return format_html(
            "{} · {}", shown_time(alert.snoozed_until), shown_actor(alert.snoozed_by)
        )

    # --- the page ---------------------------------------------------------------------------------
    def top_panels(self, request: HttpRequest, row: Alert) -> list[Panel]:
        said = [sentence(row)]
        if row.unsent and settings.rules_without_channel().filter(pk=row.rule_id).exists():
            said.append(
                gettext(
                    "Nobody is notified: its rule has no enabled channel. The next one takes it."
                )
            )
        lines = joined(map(shown_text, said), each="<p>{}</p>")
        kind, _colon, name = row.subject.partition(":")
        rows = rows_of(row.rule.kind, kind, name)
        if rows is not None and row.resolved_at is None and request.user.has_perm(rows.permission):
            way = link(rows.url(name, None), translate(rows.label), look="plain-button")
            lines = format_html("{}<p>{}</p>", lines, way)
        return [Panel("", lines)]

    def panels(self, request: HttpRequest, row: Alert) -> list[Panel]:
        sent = row.deliveries.select_related("channel").order_by("-pk")[:MAX_DELIVERIES]
        messages = bullets(map(delivery_line, sent), look="")
        return [Panel(_("Messages"), messages or SafeString("–")), *super().panels(request, row)]

    # --- actions ----------------------------------------------------------------------------------
    def has_snooze_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return self.has_view_permission(request) and self._has_own_permission(
            request, "snooze_alert"
        )

    @ReasonAction(
        description=_("Snooze 1 h"),
        permission="snooze",
        question=_("Nobody is notified for an hour. If it still fires then, people are."),
        done=ngettext_lazy("%d alert snoozed.", "%d alerts snoozed."),
        icon="snooze",
        offered=lambda alert: alert.state(clock.now()) == Alert.State.FIRING,
        is_harmless=True,
    )
    def snooze_hour(self, row: Alert, *, reason: str, actor: str) -> object:
        return alerts.snooze(alert=row, time=timedelta(hours=1), actor=actor, reason=reason)

    @ReasonAction(
        description=_("Snooze 8 h"),
        permission="snooze",
        question=_("Nobody is notified for 8 hours. If it still fires then, people are."),
        done=ngettext_lazy("%d alert snoozed.", "%d alerts snoozed."),
        icon="bedtime",
        offered=lambda alert: alert.state(clock.now()) == Alert.State.FIRING,
        is_harmless=True,
    )
    def snooze_shift(self, row: Alert, *, reason: str, actor: str) -> object:
        return alerts.snooze(alert=row, time=timedelta(hours=8), actor=actor, reason=reason)


def delivery_line(delivery: Delivery) -> SafeString:
    """A delivery in one line: time, event, channel and outcome."""
    words = f"{delivery.get_event_display()} → {shown_text(delivery.channel.name)}"
    code = "" if delivery.code is None else gettext("code %d") % delivery.code
    return format_html(
        "{} {} {} {}",
        shown_time(delivery.created_at),
        page_link(Delivery, delivery.pk, words),
        delivery.get_state_display(),
        code,
    )


admin.site.register(Alert, AlertAdmin)
