"""Counts and due times of open jobs. Each count stops at a limit, so the cost depends on the number
of types, not of jobs."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection

from apps.common import clock
from apps.common.chunks import chunks
from apps.common.db import fetch, fetch_each, force_index, instant, table
from apps.common.leases import load_position, save_position
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.jobs.rules.explain import MAX_AHEAD
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.type_snapshots import type_snapshots

logger = logging.getLogger(__name__)

STARVING_SWEEP = "jobs.starving"
LOG_INTERVAL = timedelta(minutes=1)
MAX_COUNTED = 1_000
# SQLite has no index of scheduled and running jobs by type: it reads this many of a state.
_MAX_SORTED = 50_000
# The number of ready jobs per type whose due times are read.
_FIRST = 25
# SQLite allows 500 parts in one statement.
_AT_ONCE = 150


@dataclass(frozen=True, kw_only=True)
class Counts:
    ready: int = 0
    blocked: int = 0
    scheduled: int = 0
    running: int = 0


def counts_of(types: Sequence[str], limit: int | None = None) -> dict[str, Counts]:
    """The open jobs of all these types, each count up to `limit` (MAX_COUNTED).

    Besides, SQLite counts scheduled and running ones among the first 50,000 in that state.
    """
    limit = MAX_COUNTED if limit is None else limit
    ready, blocked = (_by_type(status, types, limit) for status in (t.READY, t.BLOCKED))
    if connection.vendor == "mysql":
        scheduled, running = (_by_type(s, types, limit) for s in (t.SCHEDULED, t.RUNNING))
    else:
        scheduled, running = (_cut(_sorted(s), limit) for s in (t.SCHEDULED, t.RUNNING))
    return {
        name: Counts(
            ready=ready[name],
            blocked=blocked[name],
            scheduled=scheduled[name],
            running=running[name],
        )
        for name in types
    }


def _by_type(status: str, types: Sequence[str], limit: int) -> Counter[str]:
    """The counts of jobs in that state, by one range of the claim index for each type. The states
    are literals, without which SQLite would not use its partial indexes."""
    jobs = f"{table(Job)}{force_index('job_claim')}"
    one = _up_to(limit, f"FROM {jobs} WHERE status = '{status}' AND type = %s")
    found: Counter[str] = Counter()
    for some in chunks(types, _AT_ONCE):
        twice = [name for name in some for _ in range(2)]
        [row] = fetch(f"SELECT {', '.join([one] * len(some))}", twice)
        found.update(dict(zip(some, row, strict=True)))
    return found


def _sorted(status: str) -> Counter[str]:
    """The counts by type among the first jobs in that state."""
    rows = fetch(
        f"SELECT type, COUNT(*) FROM (SELECT type FROM {table(Job)} "
        f"WHERE status = '{status}' LIMIT {_MAX_SORTED}) counted GROUP BY type"
    )
    return Counter(dict(rows))


def _cut(found: Counter[str], limit: int) -> Counter[str]:
    return Counter({name: min(limit, count) for name, count in found.items()})


def failed_of(types: Sequence[str], limit: int) -> Counter[str]:
    """How many live jobs of each type have failed, each count up to `limit`."""
    return _by_type(t.FAILED, types, limit)


def ready_of(types: Sequence[str]) -> Counter[str]:
    """The ready jobs of each type, up to MAX_COUNTED."""
    return _by_type(t.READY, types, MAX_COUNTED)


def types_with_ready(types: Sequence[str]) -> set[str]:
    """The types that have a ready job."""
    return set(_by_type(t.READY, types, 1).elements())


class Totals(NamedTuple):
    """How many jobs of several types are in these states, each up to a limit."""

    ready: int
    blocked: int
    scheduled: int
    running: int
    failed: int


def totals_of(types: Sequence[str], limit: int) -> dict[str, int]:
    """How many jobs of these types together are in each state of Totals, by status, each up to a
    limit.

    On SQLite scheduled or running ones are left out when they are too many to sort.
    """
    found = {}
    for status in Totals._fields:
        if connection.vendor == "mysql" or status in (t.READY, t.BLOCKED, t.FAILED):
            count, are_all = _by_type(status, types, limit).total(), True
        else:
            first = _sorted(status)
            count, are_all = sum(first[name] for name in types), first.total() < _MAX_SORTED
        if are_all or count >= limit:
            found[status] = min(limit, count)
    return found


def totals(limit: int) -> Totals:
    """The counts of all types together."""
    [found] = fetch(f"SELECT {', '.join(_in_all(status, limit) for status in Totals._fields)}")
    return Totals(*found)


def ready_in_all(limit: int) -> int:
    """How many jobs of all types are ready, up to a limit."""
    [(count,)] = fetch(f"SELECT {_in_all(t.READY, limit)}")
    return int(count)


def _in_all(status: str, limit: int) -> str:
    """The SQL of the count."""
    # The narrowest index that begins with the status.
    jobs = f"{table(Job)}{force_index('job_due')}"
    return _up_to(limit, f"FROM {jobs} WHERE status = '{status}'")


def _up_to(limit: int, these: str) -> str:
    """The SQL of a count up to `limit` of these rows, whose parameters it needs twice. It first
    asks whether there are `limit` rows: counting the first `limit` would write them to a table and
    read again."""
    return (
        f"COALESCE((SELECT {limit} {these} LIMIT 1 OFFSET {limit - 1}), (SELECT COUNT(*) {these}))"
    )


class DueJob(NamedTuple):
    """A ready job, and since when it could have run."""

    number: int
    type: str
    since: datetime


def oldest_due(types: Sequence[str]) -> dict[str, datetime]:
    """The earliest instant, by type, since which one of the first 25 ready jobs in line could
    run."""
    jobs = f"{table(Job)}{force_index('job_claim')}"
    one = (
        f"SELECT %s AS type, MIN(run_at) AS due FROM (SELECT run_at FROM {jobs} "
        f"WHERE status = '{t.READY}' AND type = %s "
        f"ORDER BY affinity_host, order_key, id LIMIT {_FIRST}) line"
    )
    rows = fetch_each((one, (name, name)) for name in types)
    return {name: instant(due) for name, due in rows if due is not None}


def next_scheduled() -> datetime | None:
    """When the first scheduled job is due; a past instant shows how late promotion is."""
    rows = fetch(
        f"SELECT run_at FROM {table(Job)} WHERE status = '{t.SCHEDULED}' "
        "ORDER BY run_at, id LIMIT 1"
    )
    return instant(rows[0][0]) if rows else None


def jobs_before(job: Job) -> int:
    """How many ready jobs of its type are held before this one, counted up to MAX_AHEAD.

    Those for any host and those for its own host, which a worker there takes in one order: for
    each two ranges of the claim index, lower order keys, then the same key with lower ids.
    """
    if job.status != t.READY:
        return 0
    count = 0
    for host in sorted({"", job.affinity_host}):
        ready = Job.objects.filter(status=t.READY, type=job.type, affinity_host=host)
        lower = ready.filter(order_key__lt=job.order_key).order_by("order_key")
        equal = ready.filter(order_key=job.order_key, pk__lt=job.pk).order_by("pk")
        for before in (lower, equal):
            if count < MAX_AHEAD:
                count += len(before.values_list("pk", flat=True)[: MAX_AHEAD - count])
    return count


# --- starving types ------------------------------------------------------------------------------
class Starving(NamedTuple):
    """A type, and since when its first job has been due."""

    type: str
    since: datetime


def starving(now: datetime, types: Iterable[TypeSnapshot] | None = None) -> list[Starving]:
    """The types, by name, whose first job has been ready for longer than JOB_STARVATION_SECONDS;
    paused types are left out."""
    if types is None:
        types = type_snapshots().values()
    names = sorted(type_.name for type_ in types if not type_.is_paused(now))
    since = _first_in_line(names)
    longest = timedelta(seconds=conf.JOB_STARVATION_SECONDS)
    return [
        Starving(name, since[name])
        for name in names
        if name in since and now - since[name] > longest
    ]


def warn_of_starving() -> int:
    """Log a line for each starving type, at most once a minute; returns how many were logged."""
    now = clock.now()
    logged = {
        name: datetime.fromisoformat(at) for name, at in load_position(STARVING_SWEEP).items()
    }
    fresh = {name: at for name, at in logged.items() if now - at < LOG_INTERVAL}
    due = [each for each in starving(now) if each.type not in fresh]
    for each in due:
        waits = (now - each.since) // timedelta(seconds=1)
        logger.warning(
            "jobs of type %s wait too long: the next one has been ready for %d s", each.type, waits
        )
    if due:
        logged = fresh | {each.type: now for each in due}
        save_position(STARVING_SWEEP, {name: at.isoformat() for name, at in logged.items()})
    return len(due)


def _first_in_line(names: list[str]) -> dict[str, datetime]:
    """When the job that any host may take next was due, of the types that have one: the first
    entry of the claim index for each."""
    one = (
        f"SELECT type, run_at FROM {table(Job)}{force_index('job_claim')} "
        "WHERE status = %s AND type = %s AND affinity_host = '' ORDER BY order_key, id LIMIT 1"
    )
    rows = fetch_each((one, (t.READY, name)) for name in names)
    return {name: instant(run_at) for name, run_at in rows}
