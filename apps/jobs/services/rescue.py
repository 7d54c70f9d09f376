"""Rescue: end attempts of lost workers and past their deadline; free jobs that wait for a host."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from apps.common import clock
from apps.common.db import execute, fetch, placeholders, table, transactional
from apps.common.leases import last_finished, load_position, save_position
from apps.jobs import wakeup
from apps.jobs.conf import conf
from apps.jobs.models import Job, JobType
from apps.jobs.rules import transitions as t
from apps.jobs.rules.outcome import Outcome
from apps.jobs.services.move import lock_jobs
from apps.jobs.services.protection import lock_states
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


def rescue_due(*, until: datetime, lost: Collection[str] = (), by_lease: bool = True) -> int:
    """End attempts past their lease or deadline, and those of `lost` workers; returns how many.

    Without `by_lease` an expired lease alone ends nothing. Works in blocks until the instant
    `until`. Locked rows are skipped: their worker may have frozen in a transaction.
    """
    ended = 0
    while (now := clock.now()) < until:
        found = _overdue(now, lost, by_lease)
        some = _rescue(found, now, frozenset(lost), by_lease)
        ended += some
        if not some or len(found) < conf.JOB_RESCUE_BATCH:
            break
    if ended:
        wakeup.announce()
    return ended


def _overdue(now: datetime, lost: Collection[str], by_lease: bool) -> dict[int, str]:
    """Running jobs to end, each with its type."""
    jobs, limit = table(Job), conf.JOB_RESCUE_BATCH
    end = "lease_until" if by_lease else "hard_end_at"
    rows = fetch(
        f"SELECT id, type FROM {jobs} WHERE status = %s AND lease_until <= %s AND {end} <= %s "
        "ORDER BY lease_until LIMIT %s",
        [t.RUNNING, now, now, limit],
    )
    if lost and len(rows) < limit:
        names = sorted(lost)
        rows += fetch(
            f"SELECT id, type FROM {jobs} WHERE status = %s "
            f"AND worker IN ({placeholders(len(names))}) AND {end} > %s LIMIT %s",
            [t.RUNNING, *names, now, limit - len(rows)],
        )
    return dict(rows)


@transactional
def _rescue(found: Mapping[int, str], now: datetime, lost: frozenset[str], by_lease: bool) -> int:
    if not found:
        return 0
    names = set(found.values())
    # A job may have been held when its type was deleted; once it waits, it is discarded.
    types = {name: JobType(name=name).snapshot for name in names} | type_snapshots(names)
    states = lock_states(name for name in names if types[name].breaker.enabled)
    jobs = lock_jobs(found, skip_locked=True)
    ends = []
    for number, late, silent in _running(jobs, now):
        job = jobs[number]
        # Else it was renewed meanwhile.
        if late or job.worker in lost or (by_lease and silent):
            end = t.END_TIMED_OUT if late else t.END_LOST
            ends.append((job, Outcome(id=number, token=job.lease_token, end=end)))
    return len(end_attempts(ends, types=types, states=states, now=now))


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

    One block per type.
    """
    jobs, freed = table(Job), 0
    lives = f" OR affinity_host NOT IN ({placeholders(len(alive))})" if alive else " OR 1 = 1"
    for name in type_snapshots():
        found = fetch(
            f"SELECT id FROM {jobs} WHERE status = %s AND type = %s AND affinity_host > '' "
            f"AND (affinity_until <= %s{lives}) LIMIT %s",
            [t.READY, name, now, *sorted(alive), conf.JOB_RESCUE_BATCH],
        )
        ids = sorted(row[0] for row in found)
        if ids:
            freed += execute(
                f"UPDATE {jobs} SET affinity_host = '', affinity_until = NULL "
                f"WHERE id IN ({placeholders(len(ids))}) AND status = %s",
                [*ids, t.READY],
            )
    if freed:
        wakeup.announce()
    return freed
