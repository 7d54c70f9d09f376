"""The acts of people on alerts: a snooze."""

from __future__ import annotations

from datetime import timedelta

from apps.alerts.models import Alert
from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Conflict, NotFound
from apps.common.messages import Message as _
from apps.journal.services.edit import record_edit


@transactional
def snooze(*, alert: Alert, time: timedelta, actor: str, reason: str) -> Alert:
    """Notify nobody for this time; if it still fires then, people are notified again.

    Conflict when it does not fire.
    """
    now = clock.now()
    current: Alert | None = Alert.objects.select_for_update().filter(pk=alert.pk).first()
    if current is None:
        raise NotFound(_("The alert does not exist any more."))
    if current.resolved_at is not None or current.fired_at is None:
        raise Conflict(_("Only an alert that fires can be snoozed; this one does not."))
    current.snoozed_until, current.snoozed_by = now + time, actor[:160]
    current.save(update_fields=["snoozed_until", "snoozed_by"])
    until = current.snoozed_until.isoformat()
    record_edit(
        current,
        "alert_snoozed",
        now=now,
        actor=actor,
        reason=reason,
        after={"snoozed_until": until, "subject": current.subject},
    )
    return current
