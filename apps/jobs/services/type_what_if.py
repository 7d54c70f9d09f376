"""The effect of an edit of a job type on the jobs that wait and run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.common.db import fetch, force_index, table
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.counts import MAX_COUNTED, counts_of

# How many ready jobs, those first in line, are looked at.
MAX_READ = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The effect of an edit: how many of the first MAX_READ ready jobs are `expired` after it and
    not before, and how many more are `late`: the rate lets them start only after
    JOB_STARVATION_SECONDS. `above` running jobs are more than may run then; `longer` ones have run
    longer than a try may then, and keep the deadline they have."""

    ready: int
    expired: int
    late: int
    above: int
    longer: int

    @property
    def is_nothing(self) -> bool:
        return not (self.expired or self.late or self.above or self.longer)


def what_if(before: TypeSnapshot, after: TypeSnapshot, now: datetime) -> WhatIf:
    """Compare two settings of one type."""
    counts = counts_of([before.name], MAX_COUNTED)[before.name]
    return WhatIf(
        ready=counts.ready,
        expired=max(0, _expired(after, now) - _expired(before, now)),
        late=max(0, _late(after, counts.ready) - _late(before, counts.ready)),
        above=0 if after.max_running is None else max(0, counts.running - after.max_running),
        longer=_longer(after, now) if after.max_processing < before.max_processing else 0,
    )


def _late(type_: TypeSnapshot, ready: int) -> int:
    """How many of the ready jobs the rate lets start only when they have waited too long."""
    if type_.rate_per_minute is None:
        return 0
    return max(0, ready - int(type_.rate_per_minute * conf.JOB_STARVATION_SECONDS / 60))


def _expired(type_: TypeSnapshot, now: datetime) -> int:
    """How many of the first ready jobs of the type must not begin any more."""
    if type_.expires_after is None:
        return 0
    # The state is a literal, without which SQLite would not use its partial index.
    first = (
        f"SELECT expected_at FROM {table(Job)}{force_index('job_claim')} "
        f"WHERE status = '{t.READY}' AND type = %s "
        f"ORDER BY affinity_host, order_key, id LIMIT {MAX_READ}"
    )
    return _count(f"({first}) line WHERE expected_at <= %s", type_.name, now - type_.expires_after)


def _longer(type_: TypeSnapshot, now: datetime) -> int:
    """How many running jobs were held longer ago than a try of the type may take."""
    running = f"{table(Job)}{force_index('job_due')} WHERE status = '{t.RUNNING}' AND type = %s"
    return _count(f"{running} AND held_at <= %s", type_.name, now - type_.max_processing)


def _count(those: str, *parameters: Any) -> int:
    [(count,)] = fetch(f"SELECT COUNT(*) FROM {those}", list(parameters))
    return int(count)
