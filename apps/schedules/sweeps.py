"""The periodic passes of schedules, started by Celery beat."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task

from apps.common import clock
from apps.common.db import apart
from apps.common.leases import sweep_lease
from apps.schedules.services import ends, make, retention

# Short, because nothing is made until the lease of a process that died has ended.
MAX_TIME = timedelta(seconds=15)
MAX_PURGE = timedelta(minutes=2)


@shared_task(name=make.SWEEP)
def make_jobs() -> int:
    """Make the jobs that are due, for some seconds at most, and note how earlier ones ended;
    returns how many were made."""
    with sweep_lease(make.SWEEP, at_most=MAX_TIME) as mine:
        if not mine:
            return 0
        made = 0
        with apart("making the jobs of schedules"):
            made = make.make_due(until=clock.now() + MAX_TIME / 2)
        ends.note_ends()
        return made


@shared_task(name=retention.SWEEP)
def purge() -> int:
    """Remove what is past its retention, for half a minute at most; returns how many rows."""
    with sweep_lease(retention.SWEEP, at_most=MAX_PURGE) as mine:
        return retention.purge(until=clock.now() + MAX_PURGE / 4) if mine else 0
