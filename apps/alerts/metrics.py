"""The alerts in `/metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric

from apps.alerts.models import Alert, AlertRule


def alerts(now: datetime) -> Iterator[Metric]:
    """How many fire, snoozed ones left out."""
    firing = Alert.objects.filter(Alert.in_state(Alert.State.FIRING, now))
    found = dict(firing.values_list("rule__severity").annotate(count=Count("pk")))
    family = GaugeMetricFamily(
        "taskplatform_alerts_firing",
        "Alerts that fire and are not snoozed",
        labels=["severity"],
    )
    for severity in AlertRule.Severity.values:
        family.add_metric([severity], found.get(severity, 0))
    yield family
