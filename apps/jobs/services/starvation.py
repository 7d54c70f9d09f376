"""Which types let ready jobs wait longer than anybody should have to: one bounded read of each."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from apps.common import clock
from apps.common.db import fetch_each, force_index, instant, table
from apps.common.leases import load_position, save_position
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules.transitions import READY
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.type_snapshots import type_snapshots

logger = logging.getLogger(__name__)

SWEEP = "jobs.starving"
SILENT_FOR = timedelta(minutes=1)


class Starving(NamedTuple):
    """A type, and since when the job that comes first in its line could have run."""

    type: str
    since: datetime


def starving(now: datetime, policies: Iterable[TypeSnapshot] | None = None) -> list[Starving]:
    """Those of the types with these policies, or of all, by name, whose first job in line has been
    ready for longer than JOB_STARVATION_SECONDS; a paused type is meant to wait."""
    if policies is None:
        policies = type_snapshots().values()
    names = sorted(policy.name for policy in policies if not policy.is_paused(now))
    since = _first_in_line(names)
    longest = timedelta(seconds=conf.JOB_STARVATION_SECONDS)
    return [
        Starving(name, since[name])
        for name in names
        if name in since and now - since[name] > longest
    ]


def warn_of_starving() -> int:
    """Log a line for each starving type, one a minute at most; returns how many were logged."""
    now = clock.now()
    told = {name: datetime.fromisoformat(at) for name, at in load_position(SWEEP).items()}
    fresh = {name: at for name, at in told.items() if now - at < SILENT_FOR}
    due = [each for each in starving(now) if each.type not in fresh]
    for each in due:
        waits = (now - each.since) // timedelta(seconds=1)
        logger.warning(
            "jobs of type %s wait too long: the next one has been ready for %d s", each.type, waits
        )
    if due:
        told = fresh | {each.type: now for each in due}
        save_position(SWEEP, {name: at.isoformat() for name, at in told.items()})
    return len(due)


def _first_in_line(names: list[str]) -> dict[str, datetime]:
    """When the job that any host may take next was due, of the types that have one: the first
    entry of the claim index for each."""
    one = (
        f"SELECT type, run_at FROM {table(Job)}{force_index('job_claim')} "
        "WHERE status = %s AND type = %s AND affinity_host = '' ORDER BY order_key, id LIMIT 1"
    )
    rows = fetch_each((one, (READY, name)) for name in names)
    return {name: instant(run_at) for name, run_at in rows}
