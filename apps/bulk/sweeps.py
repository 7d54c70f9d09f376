"""The periodic pass of bulk runs, started by Celery beat."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task

from apps.bulk.services import retention
from apps.common import clock
from apps.common.leases import sweep_lease

MAX_PURGE = timedelta(minutes=2)


@shared_task(name=retention.SWEEP)
def purge() -> int:
    """Remove old runs and their rows, for half a minute at most; returns how many."""
    with sweep_lease(retention.SWEEP, at_most=MAX_PURGE) as mine:
        return retention.purge(until=clock.now() + MAX_PURGE / 4) if mine else 0
