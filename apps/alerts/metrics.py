"""The alerts in `/metrics`, and whether anybody would be notified of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, F, Min
from django.db.models.functions import Coalesce
from prometheus_client.core import Metric

from apps.alerts.models import Alert, AlertRule
from apps.alerts.services.settings import rules_without_channel
from apps.alerts.services.waiting import overdue
from apps.reports.metrics import gauge, single


def alerts(now: datetime) -> Iterator[Metric]:
    """The firing alerts, without snoozed ones; the rules; and the delay of messages."""
    firing = Alert.objects.filter(Alert.in_state(Alert.State.FIRING, now))
    found = dict(firing.values_list("rule__severity").annotate(count=Count("pk")))
    yield gauge(
        "alerts_firing",
        "Alerts that fire and are not snoozed",
        {severity: found.get(severity, 0) for severity in AlertRule.Severity.values},
        "severity",
    )
    yield _rules()
    due = Coalesce(F("next_at"), F("created_at"))
    since = overdue(now).aggregate(since=Min(due))["since"]
    yield single(
        "alert_messages_late_seconds",
        "How long the oldest message has waited that is due: killed, paused or no workers, no beat",
        (now - since).total_seconds() if since else 0.0,
    )


def _rules() -> Metric:
    rules = dict(AlertRule.objects.values_list("enabled").annotate(count=Count("pk")))
    lost = rules_without_channel().count()
    return gauge(
        "alert_rules",
        "Rules that notify people, that have no enabled channel (unheard), and that are off",
        {"watching": rules.get(True, 0) - lost, "unheard": lost, "off": rules.get(False, 0)},
        "state",
    )
