"""Removing deliveries and resolved alerts that are past their retention."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef

from apps.alerts.conf import conf
from apps.alerts.models import Alert, Delivery
from apps.common import tidy


def forget_deliveries(now: datetime) -> int:
    """Remove the first deliveries made before their retention began; returns how many."""
    old = Delivery.objects.filter(created_at__lt=now - conf.ALERT_RETENTION)
    return tidy.remove(old.order_by("created_at"))


def forget_alerts(now: datetime) -> int:
    """Remove the first alerts that were resolved long ago and have no delivery any more."""
    old = Alert.objects.filter(resolved_at__lt=now - conf.ALERT_RETENTION)
    old = old.exclude(Exists(Delivery.objects.filter(alert=OuterRef("pk"))))
    return tidy.remove(old.order_by("resolved_at"))
