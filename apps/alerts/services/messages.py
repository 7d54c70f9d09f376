"""The messages about an alert, in the language of the channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from apps.alerts.channels.contract import Message
from apps.alerts.models import Alert, Channel, Delivery, Event
from apps.alerts.services.firing import sentence_of
from apps.common.admin.display import duration_of, translate
from apps.common.messages import wire_time

# Alerts that a digest names; it counts the others.
MAX_NAMED = 20


def message_of(alert: Alert, event: str, channel: Channel, now: datetime) -> dict[str, Any]:
    """The message as a delivery keeps it."""
    rule = alert.rule
    with translation.override(channel.language):
        title = f"{_word(event, alert)} · {rule.name} · {alert.name}"
        text = _over(alert) if event == Event.RESOLVED else sentence(alert)
        opens = _("Open the alert")
    url = _url("admin:alerts_alert_change", alert.pk)
    kind, _colon, name = alert.subject.partition(":")
    wire = {
        "event": event,
        "rule": {"id": rule.pk, "name": rule.name, "kind": rule.kind},
        "subject": {"kind": kind, "name": name},
        "severity": rule.severity,
        "value": alert.value,
        "threshold": rule.limit.threshold,
        "since": wire_time(alert.since),
        "at": wire_time(now),
        "url": url,
        "text": text,
    }
    return {
        "title": title,
        "text": text,
        "url": url,
        "open": opens,
        "is_resolved": event == Event.RESOLVED,
        "is_critical": rule.severity == rule.Severity.CRITICAL,
        "wire": wire,
    }


def digest_of(alerts: Sequence[Alert], channel: Channel, now: datetime) -> dict[str, Any]:
    """One message of many alerts."""
    with translation.override(channel.language):
        firing = sum(alert.resolved_at is None for alert in alerts)
        title = ngettext("%d alert", "%d alerts", len(alerts)) % len(alerts)
        named = [f"{_word(alert.unsent, alert)}: {sentence(alert)}" for alert in alerts[:MAX_NAMED]]
        if len(alerts) > MAX_NAMED:
            named.append(_("and %d more") % (len(alerts) - MAX_NAMED))
        text, opens = " · ".join(named), _("Open the alerts")
    url = _url("admin:alerts_alert_changelist")
    sent = [
        {
            "id": alert.pk,
            "event": alert.unsent,
            "rule": alert.rule.name,
            "subject": alert.subject,
            "value": alert.value,
        }
        for alert in alerts
    ]
    wire = {
        "event": Event.DIGEST,
        "at": wire_time(now),
        "url": url,
        "text": text,
        "count": len(alerts),
        "alerts": sent,
    }
    is_critical = any(alert.rule.severity == alert.rule.Severity.CRITICAL for alert in alerts)
    return {
        "title": title,
        "text": text,
        "url": url,
        "open": opens,
        "is_resolved": not firing,
        "is_critical": is_critical,
        "wire": wire,
    }


def test_of(channel: Channel, now: datetime) -> dict[str, Any]:
    """A message that says that the channel works."""
    with translation.override(channel.language):
        title = _("Test of the channel %s") % channel.name
        text, opens = _("Alerts of the task platform come here."), _("Open the channel")
    url = _url("admin:alerts_channel_change", channel.pk)
    wire = {"event": Event.TEST, "at": wire_time(now), "url": url, "text": text}
    return {"title": title, "text": text, "url": url, "open": opens, "wire": wire}


def message_in(delivery: Delivery) -> Message:
    """The message of a delivery, whose number is that of the message too."""
    kept: Mapping[str, Any] = delivery.message
    number = str(delivery.pk)
    return Message(**{**kept, "id": number, "wire": {**kept["wire"], "id": number}})


def _url(name: str, *args: object) -> str:
    return f"{settings.PUBLIC_URL}{reverse(name, args=args)}"


def _word(event: str, alert: Alert) -> str:
    if event == Event.RESOLVED:
        return pgettext("alert", "Resolved")
    return str(alert.rule.get_severity_display()).capitalize()


def _over(alert: Alert) -> str:
    lasted = (alert.resolved_at or alert.since) - alert.since
    return _("It is over; it lasted %s.") % duration_of(int(lasted.total_seconds() * 1000))


def sentence(alert: Alert) -> str:
    """The sentence that says what is wrong, with its numbers, in the language of the moment."""
    return translate(sentence_of(alert))
