"""Notifying people: which alerts make which messages, each a delivery with a job."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from apps.alerts.models import Alert, AlertRule, Channel, Delivery, Event
from apps.alerts.services.messages import digest_of, message_of, test_of
from apps.alerts.services.settings import has_enabled_channel
from apps.common import clock
from apps.common.db import apart, transactional
from apps.common.errors import PlatformError
from apps.jobs.models import JobType
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.submit import submit
from apps.jobs.services.type_snapshots import type_snapshots
from apps.jobs.services.types import ensure_types
from apps.journal.services.edit import record_edit

logger = logging.getLogger(__name__)

TYPE, REPORT_TYPE = "deliver", "send_report"
TYPE_SETTINGS: Mapping[str, Any] = {
    "title": "Deliveries of alerts",
    "lane": "slow",
    "max_attempts": 8,
    "retry_delay_seconds": 10,
    "retry_multiplier": 2.7,
    "retry_max_seconds": 3600,
    "lease_seconds": 60,
    "max_processing_seconds": 60,
    "params_schema": {
        "type": "object",
        "properties": {"delivery": {"type": "integer"}},
        "required": ["delivery"],
        "additionalProperties": False,
    },
}
# Before other jobs of their lane.
_PRIORITY = 100
# Its job sends to each channel in turn, and tries those again that fail.
REPORT_SETTINGS: Mapping[str, Any] = {
    **{name: value for name, value in TYPE_SETTINGS.items() if name != "params_schema"},
    "title": "Reports that are sent",
    "default_priority": _PRIORITY,
    "max_processing_seconds": 900,
}
# Bots take about twenty messages a minute, and people fewer. The rest of a minute is one digest in
# each round.
A_MINUTE = 10
_MINUTE = timedelta(minutes=1)
_AT_ONCE = 1_000


@transactional
def notify(*, now: datetime) -> int:
    """Make the deliveries of what people are still to be notified of; returns how many.

    An alert waits while it is snoozed, in quiet hours, and until a channel of its rule takes it.
    """
    snoozed = Q(unsent=Event.FIRING, snoozed_until__gt=now)
    waiting = Alert.objects.filter(unsent__gt="").exclude(snoozed)
    quiet = _quiet_rules(now)
    waiting.filter(rule__in=quiet, is_held=False).update(is_held=True)
    sent, taken = 0, dict[int, Alert]()
    for channel, alerts in _by_channel(_locked(waiting.exclude(rule__in=quiet))):
        with apart(f"notifying channel {channel.pk}"), transaction.atomic():
            sent += _notify(channel, alerts, now)
            taken |= {alert.pk: alert for alert in alerts}
    for alert in taken.values():
        if alert.unsent == Event.FIRING:
            alert.notified_at = now
        alert.unsent, alert.is_held = "", False
        alert.save(update_fields=["notified_at", "unsent", "is_held"])
    return sent


def _quiet_rules(now: datetime) -> list[int]:
    found = []
    for rule in AlertRule.objects.order_by("pk"):
        with apart(f"the quiet hours of alert rule {rule.pk}"):
            if rule.is_quiet(now):
                found.append(rule.pk)
    return found


def _locked(waiting: QuerySet[Alert]) -> Iterable[Alert]:
    """The first of the waiting alerts that some channel takes."""
    rows = waiting.filter(has_enabled_channel("rule")).select_for_update().order_by("pk")
    return rows.prefetch_related("rule__channels")[:_AT_ONCE]


def _by_channel(alerts: Iterable[Alert]) -> Iterable[tuple[Channel, list[Alert]]]:
    found: dict[int, tuple[Channel, list[Alert]]] = {}
    default = list(Channel.objects.filter(is_default=True, enabled=True))
    for alert in alerts:
        for channel in alert.rule.channels.all() or default:
            if channel.enabled:
                found.setdefault(channel.pk, (channel, []))[1].append(alert)
    return found.values()


def _notify(channel: Channel, alerts: Sequence[Alert], now: datetime) -> int:
    """Make the messages of one channel; returns their number. Alerts that quiet hours have held go
    as one digest, and those that are too many for a minute as another."""
    held = [alert for alert in alerts if alert.is_held]
    if len(held) < 2:
        held = []
    single = [alert for alert in alerts if alert not in held]
    room = max(0, A_MINUTE - _lately(channel, now) - bool(held))
    for alert in single[:room]:
        message = message_of(alert, alert.unsent, channel, now)
        deliver(channel, alert.unsent, message, now=now, alert=alert)
    digests = [some for some in (held, single[room:]) if some]
    for some in digests:
        deliver(channel, Event.DIGEST, digest_of(some, channel, now), now=now)
    return len(single[:room]) + len(digests)


def _lately(channel: Channel, now: datetime) -> int:
    made = Delivery.objects.filter(channel=channel, created_at__gt=now - _MINUTE)
    return made[:A_MINUTE].count()


def deliver(
    channel: Channel,
    event: str,
    message: Mapping[str, Any],
    *,
    now: datetime,
    alert: Alert | None = None,
    max_attempts: int | None = None,
) -> Delivery:
    """Make a delivery and the job that carries it out; without one it waits for the sweep."""
    made = Delivery.objects.create(
        channel=channel,
        alert=alert,
        event=event,
        message=message,
        created_at=now,
    )
    try:
        made.job = _job_of(made, max_attempts)
    except PlatformError as error:
        logger.error("delivery %d has no job: %s", made.pk, error.detail)
    else:
        made.save(update_fields=["job"])
    return made


def _job_of(delivery: Delivery, max_attempts: int | None) -> int:
    ensure_type(TYPE)
    made = submit(
        TYPE,
        {"delivery": delivery.pk},
        key=f"delivery:{delivery.pk}",
        unique=True,
        priority=_PRIORITY,
        max_attempts=max_attempts,
        by="alerts",
    )
    return made.id


def ensure_type(name: str) -> None:
    """Make one of the job types here unless it is there."""
    if not type_snapshots([name]):
        # Neither a worker nor `migrate` has made it yet.
        settings = {TYPE: TYPE_SETTINGS, REPORT_TYPE: REPORT_SETTINGS}
        ensure_types([name], settings, actor="alerts")


@transactional
def send_test(channel: Channel, *, actor: str) -> Delivery:
    """A test message, which is tried once: its delivery shows what the other side answers."""
    now = clock.now()
    record_edit(channel, "channel_tested", now=now, actor=actor)
    return deliver(channel, Event.TEST, test_of(channel, now), now=now, max_attempts=1)


def policy() -> TypeSnapshot:
    """The job type of deliveries: it says how often they are tried, and how long they wait."""
    made = type_snapshots([TYPE]).get(TYPE)
    return made or JobType(name=TYPE, **TYPE_SETTINGS).snapshot
