"""Rescue: end attempts of lost workers and past their deadline; free jobs that wait for a host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.chunks import chunks
from apps.common.db import (
    execute,
    fetch,
    fetch_each,
    instant,
    placeholders,
    table,
    transactional,
)
from apps.common.errors import PlatformError
from apps.common.leases import last_run, save_position
from apps.jobs import wakeup
from apps.jobs.conf import conf
from apps.jobs.models import Job, JobType
from apps.jobs.rules import transitions as t
from apps.jobs.rules.caller import IN_HOUSE
from apps.jobs.rules.outcome import OUTCOMES, Outcome, Records, found_outcome
from apps.jobs.rules.report import refused, validate
from apps.jobs.rules.transitions import LockedJob
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.follow import refusals
from apps.jobs.services.move import lock_jobs
from apps.jobs.services.protection import lock_states
from apps.jobs.services.register import WorkerKey
from apps.jobs.services.settle import end_attempts
from apps.jobs.services.type_snapshots import type_snapshots

SWEEP = "jobs.rescue"
# A database that is away or a machine that sleeps delays this sweep, and also the heartbeats of
# workers.
_MAX_DELAY = timedelta(seconds=10)
# After such a delay workers have this long to reconnect, read the time and send a heartbeat.
GRACE = timedelta(seconds=20)


def heartbeats_are_reliable(now: datetime) -> bool:
    """Whether a missing heartbeat means a lost worker: not for GRACE after this sweep was late.

    If the sweep is always late, only the first delay is followed by a grace period.
    """
    last, position = last_run(SWEEP)
    if last is None:
        return True
    stored = position.get("grace_until")
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
    finds: list[_Find] = [partial(_overdue, "lease_until" if by_lease else "hard_end_at")]
    if lost:
        finds.append(partial(_held_by, lost))
    return _rescue_all(finds, until, frozenset(lost), by_lease, records)


def rescue_all_of(*, worker: WorkerKey, until: datetime) -> int:
    """End the attempts of a worker that is lost or has left; returns how many."""
    return _rescue_all([partial(_held_by, [worker])], until, frozenset([worker]))


class _FoundJob(NamedTuple):
    """A running job to end, and where it stands in the order in which they are looked for."""

    id: int
    type: str
    place: Any


# Finds the next block of jobs, behind those that were found in the last place so far.
_Find = Callable[[datetime, Sequence[_FoundJob]], Sequence[_FoundJob]]


def _rescue_all(
    finds: Sequence[_Find],
    until: datetime,
    lost: frozenset[WorkerKey],
    by_lease: bool = False,
    records: Callable[[], Records] = _no_records,
) -> int:
    """End the attempts of the jobs found, block after block: locked jobs do not hold up the
    others."""
    ended = 0
    for find in finds:
        last: Sequence[_FoundJob] = ()
        while (now := clock.now()) < until:
            found = find(now, last)
            if found:
                named = {job.id: job.type for job in found}
                ended += _rescue(named, now, lost, by_lease, records)
            if len(found) < conf.JOB_RESCUE_BATCH:
                break
            last = [job for job in (*last, *found) if job.place == found[-1].place]
    if ended:
        wakeup.announce()
    return ended


def _held_by(
    workers: Collection[WorkerKey], _now: datetime, last: Sequence[_FoundJob]
) -> list[_FoundJob]:
    """Running jobs of these workers, in the order of their numbers."""
    keys = sorted(workers)
    theirs = " OR ".join(["(client = %s AND worker = %s)"] * len(keys))
    # Sorted here, or the database might walk through all jobs in that order.
    rows = fetch(
        f"SELECT id, type, id FROM {table(Job)} WHERE status = %s AND ({theirs})",
        [t.RUNNING, *(part for key in keys for part in key)],
    )
    after = last[-1].id if last else 0
    return sorted(_FoundJob(*row) for row in rows if row[0] > after)[: conf.JOB_RESCUE_BATCH]


def _overdue(end: str, now: datetime, last: Sequence[_FoundJob]) -> list[_FoundJob]:
    """Running jobs that are past their lease and the column `end`, the oldest first."""
    guard, behind = "", list[Any]()
    if last:
        guard = f"AND lease_until >= %s AND id NOT IN ({placeholders(len(last))}) "
        behind = [instant(last[0].place), *(job.id for job in last)]
    rows = fetch(
        f"SELECT id, type, lease_until FROM {table(Job)} WHERE status = %s AND lease_until <= %s "
        f"AND {end} <= %s {guard}ORDER BY lease_until LIMIT %s",
        [t.RUNNING, now, now, *behind, conf.JOB_RESCUE_BATCH],
    )
    return [_FoundJob(*row) for row in rows]


@transactional
def _rescue(
    found: Mapping[int, str],
    now: datetime,
    lost: frozenset[WorkerKey],
    by_lease: bool,
    records: Callable[[], Records],
) -> int:
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
            if found.submit and (unfit := refusals([found], IN_HOUSE)):
                raise unfit[job.id]
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

    Those that were submitted everywhere wait for their host: it may only be starting again.
    One block of each type, and all together in blocks.
    """
    jobs = table(Job)
    lives = f" OR affinity_host NOT IN ({placeholders(len(alive))})" if alive else " OR 1 = 1"
    found = fetch_each(
        (
            f"SELECT id FROM {jobs} WHERE status = %s AND type = %s AND affinity_host > '' "
            f"AND together IS NULL AND (affinity_until <= %s{lives}) LIMIT %s",
            [t.READY, name, now, *sorted(alive), conf.JOB_RESCUE_BATCH],
        )
        for name in type_snapshots()
    )
    ids = sorted(number for (number,) in found)
    freed = 0
    for some in chunks(ids, conf.JOB_RESCUE_BATCH):
        freed += execute(
            f"UPDATE {jobs} SET affinity_host = '', affinity_until = NULL "
            f"WHERE id IN ({placeholders(len(some))}) AND status = %s",
            [*some, t.READY],
        )
    if freed:
        wakeup.announce()
    return freed
