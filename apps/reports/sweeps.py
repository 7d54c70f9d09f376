"""The periodic pass of the reports, started by Celery beat."""

from __future__ import annotations

from celery import shared_task

from apps.common import clock
from apps.common.leases import sweep_lease
from apps.reports.services import rollup


@shared_task(name=rollup.SWEEP)
def roll_up() -> int:
    """Add up what ended, for a quarter of a minute at most; returns how many seconds of it."""
    with sweep_lease(rollup.SWEEP, at_most=rollup.MAX_TIME) as mine:
        return rollup.roll_up(until=clock.now() + rollup.MAX_TIME / 4) if mine else 0
