"""The periodic passes of jobs, started by Celery beat, and the drains that they start."""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task

from apps.common import clock
from apps.common.leases import sweep_lease
from apps.common.partitions import CannotRoll
from apps.common.rolling import MAX_LOOK
from apps.jobs.runner import record, worker
from apps.jobs.runner.heartbeat import lose_dead_neighbours
from apps.jobs.runner.scan import DRAIN
from apps.jobs.runner.scan import scan as start_drains
from apps.jobs.services import (
    admission,
    archive,
    counts,
    discard,
    inbox,
    living,
    register,
    reorder,
    retention,
    slices,
)
from apps.jobs.services.rescue import SWEEP as RESCUE
from apps.jobs.services.rescue import free_hosts, heartbeats_are_reliable, rescue_due
from apps.jobs.services.roll import ROLLING

logger = logging.getLogger(__name__)

SCAN = "jobs.scan"
MAX_TIME = timedelta(seconds=30)
# Short, because nothing begins until the lease of a process that died has ended. A scan that takes
# longer meets another, which does no harm.
MAX_SCAN = timedelta(seconds=2)
# Of the sweeps that go through history.
MAX_HISTORY = timedelta(minutes=2)


@shared_task(name=DRAIN)
def drain(lane: str) -> int:
    """Run jobs of a lane until none is due and another drain waits; returns how many it ran."""
    return worker.drain(lane)


@shared_task(name=SCAN)
def scan() -> dict[str, int]:
    """Promote due jobs; start drains where jobs are due or no drain waits."""
    with sweep_lease(SCAN, at_most=MAX_SCAN) as mine:
        return start_drains() if mine else {}


@shared_task(name=inbox.SWEEP)
def move_inbox() -> int:
    """Make jobs of the rows of the inbox; returns how many are done. A scan starts it."""
    with sweep_lease(inbox.SWEEP, at_most=MAX_TIME) as mine:
        return inbox.move(seconds=MAX_TIME.total_seconds() / 2) if mine else 0


@shared_task(name=admission.SWEEP)
def admit() -> int:
    """Make blocked jobs ready whose key has a free place; returns how many. A scan starts it."""
    with sweep_lease(admission.SWEEP, at_most=MAX_TIME) as mine:
        return admission.sweep(clock.now()) if mine else 0


@shared_task(name=RESCUE)
def rescue() -> int:
    """End the attempts of lost workers; returns how many."""
    with sweep_lease(RESCUE, at_most=MAX_TIME) as mine:
        if not mine:
            return 0
        alive = living.alive(clock.now())
        ended = lose_dead_neighbours(alive)
        now = clock.now()
        reliable = heartbeats_are_reliable(now)
        if reliable:
            register.lose_overdue(now=now)
            # After such work some may have come; else who is found dead just now is missed by the
            # next sweep.
            there = living.alive(now) if ended else alive
            free_hosts(alive={each.host for each in there}, now=now)
        lost = living.gone_workers(now)
        until = now + MAX_TIME / 2
        return ended + rescue_due(
            until=until, lost=lost, by_lease=reliable, records=record.read_all
        )


@shared_task(name=reorder.SWEEP)
def reorder_waiting() -> int:
    """Bring the order of waiting jobs in line with a changed weight; returns how many changed."""
    with sweep_lease(reorder.SWEEP, at_most=MAX_TIME) as mine:
        return reorder.reorder(until=clock.now() + MAX_TIME / 2) if mine else 0


@shared_task(name=discard.SWEEP)
def discard_exhausted() -> int:
    """End waiting jobs that expired or have no attempt left; returns how many."""
    with sweep_lease(discard.SWEEP, at_most=MAX_TIME) as mine:
        return discard.discard_exhausted(until=clock.now() + MAX_TIME / 2) if mine else 0


@shared_task(name=slices.SWEEP)
def follow_workers() -> int:
    """Fit the slices of the shards to the living workers; returns the epoch of their map."""
    with sweep_lease(slices.SWEEP, at_most=MAX_TIME) as mine:
        return slices.follow(now=clock.now()) if mine else 0


@shared_task(name=archive.SWEEP)
def archive_ended() -> int:
    """Move ended jobs to the archive, for half a minute at most; returns how many."""
    with sweep_lease(archive.SWEEP, at_most=MAX_HISTORY) as mine:
        return archive.archive_ended(until=clock.now() + MAX_HISTORY / 4) if mine else 0


@shared_task(name=retention.SWEEP)
def forget() -> int:
    """Remove archived jobs past their retention, for half a minute at most; returns how many."""
    with sweep_lease(retention.SWEEP, at_most=MAX_HISTORY) as mine:
        if not mine:
            return 0
        return retention.forget(until=clock.now() + MAX_HISTORY / 4, lag=ROLLING.lag())


@shared_task(name=ROLLING.sweep)
def roll() -> int:
    """Cut partitions of the archive ahead and drop those that are over; returns how many."""
    with sweep_lease(ROLLING.sweep, at_most=MAX_LOOK) as mine:
        try:
            return sum(ROLLING.roll()) if mine else 0
        except CannotRoll as error:
            logger.warning("jobs.roll: %s", error)
            return 0


@shared_task(name=counts.STARVING_SWEEP)
def warn_of_starving() -> int:
    """Log which types let ready jobs wait too long; returns how many."""
    with sweep_lease(counts.STARVING_SWEEP, at_most=MAX_TIME) as mine:
        return counts.warn_of_starving() if mine else 0
