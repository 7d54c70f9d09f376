"""The periodic passes of dispatch, started by Celery beat."""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task

from apps.common import clock
from apps.common.leases import sweep_lease
from apps.common.partitions import CannotRoll
from apps.common.rolling import MAX_LOOK
from apps.dispatch.services import expiry, retention
from apps.dispatch.services.roll import ROLLING

logger = logging.getLogger(__name__)

MAX_TIME = timedelta(seconds=30)
MAX_PURGE = timedelta(minutes=2)


@shared_task(name=expiry.SWEEP)
def expire() -> int:
    """End the dispatches past their deadline; returns how many."""
    with sweep_lease(expiry.SWEEP, at_most=MAX_TIME) as mine:
        return expiry.expire_due(until=clock.now() + MAX_TIME / 2) if mine else 0


@shared_task(name=retention.SWEEP)
def purge() -> int:
    """Move what is over to the archive and remove what is past its retention, for half a minute at
    most; returns how many rows."""
    with sweep_lease(retention.SWEEP, at_most=MAX_PURGE) as mine:
        if not mine:
            return 0
        return retention.purge(until=clock.now() + MAX_PURGE / 4, lag=ROLLING.lag()).total()


@shared_task(name=ROLLING.sweep)
def roll() -> int:
    """Cut partitions of the archive ahead and drop those that are over; returns how many."""
    with sweep_lease(ROLLING.sweep, at_most=MAX_LOOK) as mine:
        try:
            return sum(ROLLING.roll()) if mine else 0
        except CannotRoll as error:
            logger.warning("dispatch.roll: %s", error)
            return 0
