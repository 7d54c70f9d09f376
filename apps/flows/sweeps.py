"""Bring runs on: by messages of the hook of ends, and by the look of each second."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime, timedelta

from celery import current_app, shared_task
from kombu.exceptions import OperationalError

from apps.common import clock
from apps.common.leases import sweep_lease
from apps.flows.services import ends
from apps.flows.services.advance import advance

logger = logging.getLogger(__name__)

ADVANCE = "flows.advance"
LOOK = "flows.look"
# Short, because nobody looks until the lease of a process that died has ended. The last run of a
# look may take longer, which does no harm.
MAX_TIME = timedelta(seconds=1)
# How long a run with many jobs to cancel is dealt with at once.
_AT_ONCE = timedelta(seconds=5)
_MESSAGE_SECONDS = 60


@shared_task(name=ADVANCE)
def advance_run(run: int) -> None:
    """Bring a run up to date; one with many jobs to cancel block by block."""
    until = clock.now() + _AT_ONCE
    while bring_on(run) and clock.now() < until:
        pass


def bring_on(run: int) -> bool:
    """Advance the run; whether there is more to do at once.

    One that breaks in a way that nobody foresaw is logged and looked at again: soon where it has
    only just come so far, ever more seldom later.
    """
    try:
        return advance(run)
    except Exception as error:
        logger.exception("flow run %d broke; it is looked at again", run)
        ends.look_again(run, error)
        return False


@shared_task(name=LOOK)
def look() -> int:
    """Look at the steps whose time has come; returns at how many runs. One that breaks stops no
    other. A scan starts it."""
    with sweep_lease(LOOK, at_most=MAX_TIME) as mine:
        return look_at_due(until=clock.now() + MAX_TIME / 2) if mine else 0


def look_at_due(*, until: datetime) -> int:
    """As `look`, until the clock has passed the instant at the latest."""
    looked = 0
    for run in ends.due(clock.now()):
        if clock.now() >= until:
            break
        bring_on(run)
        looked += 1
    return looked


def hear(parts: Collection[int]) -> None:
    """After a commit: have the runs brought on that may go on."""
    for run in ends.concerned(parts):
        try:
            current_app.send_task(ADVANCE, args=[run], expires=_MESSAGE_SECONDS, retry=False)
        except (OperationalError, OSError) as error:
            logger.warning("flows: the broker is away, the next look brings on %d: %s", run, error)
            ends.look_now(run)
