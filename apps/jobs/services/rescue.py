"""Rescue: ending attempts whose workers fell silent or ran too long, and freeing jobs that wait
for a host."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from apps.common import clock
from apps.common.db import execute, fetch, placeholders, table, transactional
from apps.common.leases import last_finished, load_position, save_position
from apps.jobs import wakeup
from apps.jobs.conf import conf
from apps.jobs.models import Job, JobType
from apps.jobs.rules import outcome
from apps.jobs.rules import transitions as t
from apps.jobs.services.ending import End, RunningRow, end_all, lock_rows
from apps.jobs.services.protection import lock_states
from apps.jobs.services.type_snapshots import type_snapshots

SWEEP = "jobs.rescue"
# What keeps this sweep from its turns, such as a database that is away or a machine that sleeps,
# keeps workers from their signs of life.
_DEAF_SECONDS = 10
# Then they reconnect, learn the time anew, and tell that they live.
HEARING = timedelta(seconds=20)

_REASONS = {
    t.END_TIMED_OUT: "past its hard end",
    t.END_LOST: "its worker fell silent",
}


def silence_counts(now: datetime) -> bool:
    """Whether who is silent can have spoken: not for a while after this sweep missed its turns.

    Of two such whiles only the first is granted, should the turns always be far apart.
    """
    last = last_finished(SWEEP)
    if last is None:
        return True
    told = load_position(SWEEP).get("deaf_until")
    deaf_until = datetime.fromisoformat(told) if told else last
    most = timedelta(seconds=conf.JOB_RESCUE_SECONDS + _DEAF_SECONDS)
    if now - last > most and last >= deaf_until:
        deaf_until = now + HEARING
        save_position(SWEEP, {"deaf_until": deaf_until.isoformat()})
    # Further ahead, it was written while the clock was wrong.
    return not timedelta() < deaf_until - now <= HEARING


def rescue_due(*, until: datetime, silent: Collection[str] = (), by_lease: bool = True) -> int:
    """End the attempts whose lease or hard end is over, and those of the workers in `silent`; how
    many. Not `by_lease`, a lease that is over tells nothing.

    Goes block by block and stops between two when the clock has passed `until`. Who keeps a row
    locked may have stopped with it in hand, and must not keep the others from their rescue.
    """
    ended = 0
    while (now := clock.now()) < until:
        found = _overdue(now, silent, by_lease)
        some = _rescue(
            [row[0] for row in found],
            {row[1] for row in found},
            now,
            frozenset(silent),
            by_lease,
        )
        ended += some
        if not some or len(found) < conf.JOB_RESCUE_BATCH:
            break
    if ended:
        wakeup.announce()
    return ended


def _overdue(now: datetime, silent: Collection[str], by_lease: bool) -> list[tuple[int, str]]:
    jobs, most = table(Job), conf.JOB_RESCUE_BATCH
    end = "lease_until" if by_lease else "hard_end_at"
    rows = fetch(
        f"SELECT id, type FROM {jobs} WHERE status = %s AND lease_until <= %s AND {end} <= %s "
        "ORDER BY lease_until LIMIT %s",
        [t.RUNNING, now, now, most],
    )
    if silent and len(rows) < most:
        names = sorted(silent)
        rows += fetch(
            f"SELECT id, type FROM {jobs} WHERE status = %s "
            f"AND worker IN ({placeholders(len(names))}) AND {end} > %s LIMIT %s",
            [t.RUNNING, *names, now, most - len(rows)],
        )
    return [(number, type_) for number, type_ in rows]


@transactional
def _rescue(
    ids: list[int],
    types: set[str],
    now: datetime,
    silent: frozenset[str],
    by_lease: bool,
) -> int:
    if not ids:
        return 0
    policies = type_snapshots(types)
    # One was held in the moment in which its type was deleted; once it waits, it is given up.
    policies |= {name: JobType(name=name).snapshot for name in types - policies.keys()}
    states = lock_states(name for name in types if policies[name].breaker.enabled)
    ends = [
        End(
            row=row,
            ending=outcome.Ending(end=how),
            memo=_REASONS[how],
            reason=_REASONS[how],
        )
        for row in lock_rows(ids, now=now, skip_locked=True).values()
        if (how := _how(row, silent, by_lease))
    ]
    return len(end_all(ends, policies=policies, states=states, now=now, forget_token=True))


def _how(row: RunningRow, silent: frozenset[str], by_lease: bool) -> str:
    """How the attempt ended, "" when it goes on: it may have been settled or renewed meanwhile."""
    if row.status != t.RUNNING:
        return ""
    if row.is_timed_out:
        return t.END_TIMED_OUT
    is_silent = row.worker in silent or (by_lease and row.is_overdue)
    return t.END_LOST if is_silent else ""


def free_hosts(*, alive: Collection[str], now: datetime) -> int:
    """Let any host have the ready jobs whose grace is over, or whose host has no live worker.

    `alive` are the hosts with one. One block per type; returns how many.
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
