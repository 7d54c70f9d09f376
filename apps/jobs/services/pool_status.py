"""The contents of a pool: how many keys wait, and who holds how many."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from apps.common.db import fetch, force_index, instant, table
from apps.jobs.models import Job, TypeState
from apps.jobs.rules import transitions as t


class Holding(NamedTuple):
    """A worker's part of the pool. `oldest_lease_until`: when the first of its leases ends."""

    client: str
    worker: str
    held: int
    oldest_lease_until: datetime


class Status(NamedTuple):
    """`epoch` is that of the latest rebuild, 0 before the first."""

    waiting: int
    held: int
    epoch: int
    workers: list[Holding]


def status_of(pool: str) -> Status:
    """The pool at this moment, as the rows of its jobs say."""
    # The states are literals, without which SQLite would not use its partial indexes.
    jobs = f"{table(Job)}{force_index('job_claim')}"
    parts = [
        f"(SELECT COUNT(*) FROM {jobs} WHERE status = '{each}' AND type = %s)" for each in t.WAITING
    ]
    [(waiting,)] = fetch(f"SELECT {' + '.join(parts)}", [pool] * len(parts))
    rows = fetch(
        f"SELECT client, worker, COUNT(*), MIN(lease_until) FROM {jobs} "
        f"WHERE status = '{t.RUNNING}' AND type = %s GROUP BY client, worker "
        "ORDER BY client, worker",
        [pool],
    )
    workers = [
        Holding(client, worker, held, instant(until)) for client, worker, held, until in rows
    ]
    held = sum(each.held for each in workers)
    return Status(int(waiting), held, epoch_of(pool), workers)


def epoch_of(pool: str) -> int:
    """The latest rebuild, 0 before the first."""
    state = TypeState.objects.filter(type=pool).values_list("pool_epoch", flat=True).first()
    return state or 0
