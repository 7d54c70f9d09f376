"""The periodic pass of what all apps share, started by Celery beat."""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task

from apps.common import clock, tidy
from apps.common.leases import sweep_lease

logger = logging.getLogger(__name__)

MAX_TIME = timedelta(minutes=2)


@shared_task(name=tidy.SWEEP)
def tidy_up() -> int:
    """Remove what is over from small tables, for half a minute at most; returns how many rows."""
    with sweep_lease(tidy.SWEEP, at_most=MAX_TIME) as mine:
        removed = tidy.tidy(until=clock.now() + MAX_TIME / 4) if mine else None
    if removed:
        counted = ", ".join(f"{count:,} {name}" for name, count in removed.items())
        logger.info("common.tidy: removed %s", counted)
    return removed.total() if removed else 0
