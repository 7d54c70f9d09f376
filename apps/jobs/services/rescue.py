"""Rescue: end attempts of lost workers and past their deadline; free jobs that wait for a host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from apps.common import clock
from apps.common.db import (
    execute,
    fetch,
    fetch_each,
    placeholders,
    table,
    transactional,
)
from apps.common.errors import PlatformError
from apps.common.leases import last_finished, load_position, save_position
from apps.jobs import wakeup
from apps.jobs.conf import conf
from apps.jobs.models import Job, JobType
from apps.jobs.rules import transitions as t
from apps.jobs.rules.outcome import OUTCOMES, Outcome, Records, found_outcome
from apps.jobs.rules.report import refused, validate
from apps.jobs.rules.transitions import LockedJob
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.move import lock_jobs
from apps.jobs.services.protection import lock_states
from apps.jobs.services.register import WorkerKey
from apps.jobs.services.settle import end_attempts
from apps.jobs.services.type_snapshots import type_snapshots

SWEEP = "jobs.rescue"
# What delays this sweep, such as a database that is away or a machine that sleeps, delays the
# heartbeats of workers, too.
_MAX_DELAY = timedelta(seconds=10)
# Then workers have this long to reconnect, read the time and send a heartbeat.
GRACE = timedelta(seconds=20)


def heartbeats_are_reliable(now: datetime) -> bool:
    """Whether a missing heartbeat means a lost worker: not for GRACE after this sweep was late.

    If the sweep is always late, only the first delay is followed by a grace period.
    """
    last = last_finished(SWEEP)
    if last is None:
        return True
    stored = load_position(SWEEP).get("grace_until")
    grace_until = datetime.fromisoformat(stored) if stored else last
    is_late = now - last > timedelta(seconds=conf.JOB_RESCUE_SECONDS) + _MAX_DELAY
    if is_late and last >= grace_until:
        grace_until = now + GRACE
        save_position(SWEEP, {"grace_until": grace_until.isoformat()})
    # Further ahead, it was written while the clock was wrong.
    return not timedelta() < grace_until - now <= GRACE


def _no_records() -> Records:
    return {}


def rescue_due(
    *,
    until: datetime,
    lost: Collection[WorkerKey] = (),
    by_lease: bool = True,
    records: Callable[[], Records] = _no_records,
) -> int:
    """End attempts past their lease or deadline, and those of `lost` workers; returns how many.

    Without `by_lease` an expired lease alone ends nothing. Works in blocks until the instant
    `until`. Locked rows are skipped: their worker may have frozen in a transaction. What the
    `records` of this machine know of an attempt decides how it ended.
    """
    ended = 0
    while (now := clock.now()) < until:
        found = _overdue(now, lost, by_lease)
        some = _rescue(found, now, frozenset(lost), by_lease, records)
        ended += some
        if not some or len(found) < conf.JOB_RESCUE_BATCH:
            break
    if ended:
        wakeup.announce()
    return ended


def rescue_all_of(*, worker: WorkerKey, until: datetime) -> int:
    """End the attempts of a worker that is lost or has left; returns how many."""
    ended = 0
    while (now := clock.now()) < until:
        found = dict(_held_by([worker], conf.JOB_RESCUE_BATCH))
        ended += _rescue(found, now, frozenset([worker]), by_lease=False, records=_no_records)
        if len(found) < conf.JOB_RESCUE_BATCH:
            break
    if ended:
        wakeup.announce()
    return ended


def _held_by(
    workers: Collection[WorkerKey], limit: int, guard: str = "", parameters: Sequence[Any] = ()
) -> list[tuple[int, str]]:
    """Running jobs of these workers, each with its type."""
    keys = sorted(workers)
    theirs = " OR ".join(["(client = %s AND worker = %s)"] * len(keys))
    return fetch(
        f"SELECT id, type FROM {table(Job)} WHERE status = %s{guard} AND ({theirs}) LIMIT %s",
        [t.RUNNING, *parameters, *(part for key in keys for part in key), limit],
    )


def _overdue(now: datetime, lost: Collection[WorkerKey], by_lease: bool) -> dict[int, str]:
    """Running jobs to end, each with its type."""
    jobs, limit = table(Job), conf.JOB_RESCUE_BATCH
    end = "lease_until" if by_lease else "hard_end_at"
    rows = fetch(
        f"SELECT id, type FROM {jobs} WHERE status = %s AND lease_until <= %s AND {end} <= %s "
        "ORDER BY lease_until LIMIT %s",
        [t.RUNNING, now, now, limit],
    )
    if lost and len(rows) < limit:
        rows += _held_by(lost, limit - len(rows), f" AND {end} > %s", [now])
    return dict(rows)


@transactional
def _rescue(
    found: Mapping[int, str],
    now: datetime,
    lost: frozenset[WorkerKey],
    by_lease: bool,
    records: Callable[[], Records],
) -> int:
    if not found:
        return 0
    names = set(found.values())
    # A job may have been held when its type was deleted; once it waits, it is discarded.
    types = {name: JobType(name=name).snapshot for name in names} | type_snapshots(names)
    states = lock_states(name for name in names if types[name].breaker.enabled)
    jobs = lock_jobs(found, skip_locked=True)
    over = [
        (jobs[number], t.END_TIMED_OUT if late else t.END_LOST)
        for number, late, silent in _running(jobs, now)
        # Else it was renewed meanwhile.
        if late
        or WorkerKey(jobs[number].client, jobs[number].worker) in lost
        or (by_lease and silent)
    ]
    if not over:
        return 0
    # Read only now: no lease can be renewed any more, and a process that was frozen starts nothing
    # without one.
    seen = records()
    ends = [(job, _outcome(job, end, seen, types[job.type])) for job, end in over]
    return len(end_attempts(ends, types=types, states=states, now=now))


def _outcome(job: LockedJob, end: str, seen: Records, type_: TypeSnapshot) -> Outcome:
    found = found_outcome(job, end, seen)
    if found.end in OUTCOMES:
        try:
            validate(found, job, type_)
        except PlatformError as error:
            return refused(found, error)
    return found


def _running(jobs: Collection[int], now: datetime) -> list[tuple[int, bool, bool]]:
    """The locked jobs that still run; whether each is past its deadline, and past its lease."""
    if not jobs:
        return []
    return fetch(
        f"SELECT id, hard_end_at <= %s, lease_until <= %s FROM {table(Job)} "
        f"WHERE id IN ({placeholders(len(jobs))}) AND status = %s ORDER BY id",
        [now, now, *jobs, t.RUNNING],
    )


def free_hosts(*, alive: Collection[str], now: datetime) -> int:
    """Free the ready jobs whose grace is over, or whose host is not `alive`; returns how many.

    One block of each type, and all together in blocks.
    """
    jobs = table(Job)
    lives = f" OR affinity_host NOT IN ({placeholders(len(alive))})" if alive else " OR 1 = 1"
    found = fetch_each(
        (
            f"SELECT id FROM {jobs} WHERE status = %s AND type = %s AND affinity_host > '' "
            f"AND (affinity_until <= %s{lives}) LIMIT %s",
            [t.READY, name, now, *sorted(alive), conf.JOB_RESCUE_BATCH],
        )
        for name in type_snapshots()
    )
    ids = sorted(number for (number,) in found)
    freed = 0
    for start in range(0, len(ids), conf.JOB_RESCUE_BATCH):
        some = ids[start : start + conf.JOB_RESCUE_BATCH]
        freed += execute(
            f"UPDATE {jobs} SET affinity_host = '', affinity_until = NULL "
            f"WHERE id IN ({placeholders(len(some))}) AND status = %s",
            [*some, t.READY],
        )
    if freed:
        wakeup.announce()
    return freed
