"""The alerts that fire, as a watch: whoever looks at the home page sees them first."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Case, Value, When

from apps.alerts.models import Alert, AlertRule
from apps.common.admin.html import page_url
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.reports.services.standing import Standing
from apps.reports.watches.base import MAX_FOUND, Reading, Watch
from apps.reports.watches.subjects import Way

ALERT = "alert"
_CRITICAL = AlertRule.Severity.CRITICAL


def said(alert: Alert) -> Message:
    """What is wrong, with its numbers."""
    rule, kind = alert.rule, alert.subject.partition(":")[0]
    found = rule.watch.say(kind, alert.name, alert.value, rule.limit)
    return found or _("{name} was wrong when the rule was of another kind.", name=alert.name)


def _firing(sheet: Standing) -> Iterator[Reading]:
    """The critical ones first, then those that began to fire last."""
    worst = Case(When(rule__severity=_CRITICAL, then=Value(0)), default=Value(1))
    found = Alert.objects.filter(Alert.in_state(Alert.State.FIRING, sheet.now))
    for alert in found.select_related("rule").order_by(worst, "-fired_at", "-pk")[:MAX_FOUND]:
        text = _("{rule}: {text}", rule=alert.rule.name, text=said(alert))
        words = _("Critical since {since}.") if alert.rule.severity == _CRITICAL else _SINCE
        why = Message(words.template, since=alert.fired_at or alert.since)
        yield Reading(ALERT, str(alert.pk), text=text, why=why)


_SINCE = _("Since {since}.")
FIRING = Watch(
    key="alerts",
    title=_("No alert fires."),
    read=_firing,
    leads={
        ALERT: Way(
            "alerts.view_alert",
            _("Open the alert"),
            lambda name, _row: page_url("alerts_alert", name),
        )
    },
    is_urgent=True,
)
