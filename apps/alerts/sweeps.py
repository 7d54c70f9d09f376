"""The periodic passes of alerts, started by Celery beat."""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task

from apps.alerts.services import broken, judging, settings, waiting
from apps.alerts.services.broken import EVALUATE
from apps.common import clock
from apps.common.db import apart
from apps.common.leases import sweep_lease

logger = logging.getLogger(__name__)

REPORT, DELIVER = "alerts.report", "alerts.deliver"
MAX_TIME = timedelta(minutes=1)


@shared_task(name=EVALUATE)
def evaluate() -> int:
    """Judge every rule and make the deliveries; returns how many."""
    with sweep_lease(EVALUATE, at_most=MAX_TIME) as mine:
        if mine:
            with apart("sealing channels"):
                settings.seal_channels()
        unjudged: dict[str, str] = {}
        found = judging.evaluate(unjudged) if mine else None
        if mine:
            broken.note_broken(unjudged)
    if not found:
        return 0
    for word in ("fire", "resolve", "sent"):
        if found[word]:
            logger.info("alerts.evaluate: %s %d", word, found[word])
    return found["sent"]


@shared_task(name=REPORT)
def report() -> int:
    """Nothing: beat of release 0.3.0 sends it, and reports are schedules now."""
    return 0


@shared_task(name=DELIVER)
def deliver() -> int:
    """Send what no worker has sent; returns how many."""
    with sweep_lease(DELIVER, at_most=MAX_TIME) as mine:
        sent = waiting.send_waiting(until=clock.now() + MAX_TIME / 2) if mine else 0
    if sent:
        logger.warning("%s: sent %d in place of workers", DELIVER, sent)
    return sent
