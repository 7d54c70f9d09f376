"""The periodic passes of the journal, started by Celery beat."""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task

from apps.common import clock
from apps.common.leases import sweep_lease
from apps.common.partitions import CannotRoll
from apps.journal.services import carry as service
from apps.journal.services import retention

logger = logging.getLogger(__name__)

TASK = "journal.carry"
ROLL = "journal.roll"
# Longer than a sink may take for one block; the turn itself ends soon, for other sweeps.
MAX_TIME = timedelta(minutes=2)
TURN = timedelta(seconds=1.5)


@shared_task(name=TASK)
def carry(name: str) -> int:
    """Send one sink what it lacks, for a second or two; returns how many entries it took.

    Each sink has a lease of its own, so one that does not answer holds up no other.
    """
    address = service.sinks().get(name)
    if address is None:
        # Removed from JOURNAL_SINKS while the message was under way.
        return 0
    with sweep_lease(service.sweep_of(name), at_most=MAX_TIME) as mine:
        return service.carry(address, until=clock.now() + TURN) if mine else 0


@shared_task(name=ROLL)
def roll() -> int:
    """Cut partitions ahead, and drop or delete what is past its retention; returns how many."""
    with sweep_lease(ROLL, at_most=MAX_TIME) as mine:
        try:
            return sum(retention.roll(until=clock.now() + MAX_TIME / 4)) if mine else 0
        except CannotRoll as error:
            logger.warning("journal.roll: %s", error)
            return 0
