"""The scan of each second: due jobs become ready, the sweeps that have work start, and drains: one
per free slot in lanes with due jobs, else one per lane, which waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from celery import current_app
from kombu.exceptions import OperationalError

from apps.common import clock, on_demand
from apps.jobs.models import Worker
from apps.jobs.rules import slots
from apps.jobs.runner.process import types_with_handler
from apps.jobs.services import living
from apps.jobs.services.hold import due_types
from apps.jobs.services.promote import promote_due

logger = logging.getLogger(__name__)

DRAIN = "jobs.drain"
# The maximum time that one scan promotes jobs; the next one goes on.
PROMOTION_SECONDS = 0.5
# A drain that starts late finds others at work and ends. This only bounds how many messages wait
# for an absent worker; clocks of two machines differ, so it is not shorter.
_MESSAGE_SECONDS = 60


def scan() -> dict[str, int]:
    """Promote what is due and start the missing drains; returns how many of each lane."""
    _promote_all()
    for sweep in on_demand.wanted():
        _send(sweep)
    starts = slots.wanted(groups(living.alive(clock.now())), _due_lanes())
    for lane, count in starts.items():
        for _ in range(count):
            if not _send(DRAIN, args=[lane], queue=lane):
                return {}
    return starts


def _promote_all() -> None:
    """Promote block by block, earliest first: a million jobs of one type must not delay those of
    another."""
    until = time.monotonic() + PROMOTION_SECONDS
    while promote_due() and time.monotonic() < until:
        pass


def groups(workers: Iterable[Worker]) -> list[slots.CeleryWorker]:
    """The Celery workers with their slots and drains, from the rows of their processes that take
    jobs."""
    found: dict[str, slots.CeleryWorker] = {}
    for worker in workers:
        if worker.kind != Worker.Kind.CELERY or not living.takes_jobs(worker):
            continue
        known = found.get(worker.node, slots.CeleryWorker(worker.lanes, 0, {}))
        drains = dict(known.drains)
        for lane, count in worker.drains.items():
            drains[lane] = drains.get(lane, 0) + count
        found[worker.node] = slots.CeleryWorker(worker.lanes, known.slots + worker.capacity, drains)
    return list(found.values())


def _due_lanes() -> set[str]:
    types = types_with_handler()
    return {types[name].lane for name in due_types(types)} if types else set()


def _send(task: str, **options: Any) -> bool:
    try:
        current_app.send_task(task, expires=_MESSAGE_SECONDS, retry=False, **options)
    except (OperationalError, OSError) as error:
        logger.warning("scan: the broker is away, %s does not start: %s", task, error)
        return False
    return True
