"""Journal entries of rules, channels, alerts and report plans."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apps.alerts.models import Alert, AlertRule, Channel, ReportPlan
from apps.journal import services as journal
from apps.journal.models import Source

_LABELS: Mapping[type, str] = {
    AlertRule: "alert-rule",
    Channel: "channel",
    Alert: "alert",
    ReportPlan: "report-plan",
}
Subject = AlertRule | Channel | Alert | ReportPlan


def label_of(subject: Subject) -> str:
    """What the journal calls it: `alert-rule:7`."""
    return f"{_LABELS[type(subject)]}:{subject.pk}"


def record(
    subject: Subject,
    event: str,
    *,
    now: datetime,
    actor: str,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Write the entry, in the transaction of the change."""
    journal.write(
        [
            journal.Entry(
                at=now,
                source=Source.PLAN,
                subject_id=subject.pk,
                event=event,
                type_or_task=label_of(subject),
                actor=actor,
                reason=reason,
                data={"before": dict(before or {}), "after": dict(after or {})},
            )
        ]
    )
