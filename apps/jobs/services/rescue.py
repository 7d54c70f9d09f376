"""Rescue: ending attempts whose workers fell silent or ran too long, and freeing jobs that wait
for a host."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from apps.common import clock
from apps.common.conf import conf
from apps.common.db import execute, fetch, marks, table, transactional
from apps.jobs import wakeup
from apps.jobs.models import Job, JobType
from apps.jobs.rules import outcome
from apps.jobs.rules import transitions as t
from apps.jobs.services.ending import End, RunningRow, end_all, lock_rows
from apps.jobs.services.policies import policies_of
from apps.jobs.services.protection import lock_states

_REASONS = {
    t.END_TIMED_OUT: "past its hard end",
    t.END_LOST: "its worker fell silent",
}


def rescue_due(*, until: datetime, silent: Collection[str] = ()) -> int:
    """End the attempts whose lease is over, and those of the workers in `silent`; how many.

    Goes block by block and stops between two when the clock has passed `until`.
    """
    ended = 0
    while (now := clock.now()) < until:
        found = _overdue(now, silent)
        ended += _rescue(
            [row[0] for row in found], {row[1] for row in found}, now, frozenset(silent)
        )
        if len(found) < conf.JOB_RESCUE_BATCH:
            break
    if ended:
        wakeup.announce()
    return ended


def _overdue(now: datetime, silent: Collection[str]) -> list[tuple[int, str]]:
    jobs, most = table(Job), conf.JOB_RESCUE_BATCH
    rows = fetch(
        f"SELECT id, type FROM {jobs} WHERE status = %s AND lease_until <= %s "  # noqa: S608
        "ORDER BY lease_until LIMIT %s",
        [t.RUNNING, now, most],
    )
    if silent and len(rows) < most:
        names = sorted(silent)
        rows += fetch(
            f"SELECT id, type FROM {jobs} WHERE status = %s AND worker IN ({marks(len(names))}) "  # noqa: S608
            "AND lease_until > %s LIMIT %s",
            [t.RUNNING, *names, now, most - len(rows)],
        )
    return [(number, type_) for number, type_ in rows]


@transactional
def _rescue(ids: list[int], types: set[str], now: datetime, silent: frozenset[str]) -> int:
    if not ids:
        return 0
    policies = policies_of()
    # One was held in the moment in which its type was deleted; once it waits, it is given up.
    policies |= {name: JobType(name=name).policy for name in types - policies.keys()}
    states = lock_states(name for name in types if policies[name].breaker.enabled)
    ends = [
        End(
            row=row,
            ending=outcome.Ending(end=how),
            memo=_REASONS[how],
            reason=_REASONS[how],
        )
        for row in lock_rows(ids, now=now).values()
        if (how := _how(row, silent))
    ]
    return len(end_all(ends, policies=policies, states=states, now=now, forget_token=True))


def _how(row: RunningRow, silent: frozenset[str]) -> str:
    """How the attempt ended, "" when it goes on: it may have been settled or renewed meanwhile."""
    if row.status != t.RUNNING:
        return ""
    if row.is_timed_out:
        return t.END_TIMED_OUT
    return t.END_LOST if row.is_overdue or row.worker in silent else ""


def free_hosts(*, alive: Collection[str], now: datetime) -> int:
    """Let any host have the ready jobs whose grace is over, or whose host has no live worker.

    `alive` are the hosts with one. One block per type; returns how many.
    """
    jobs, freed = table(Job), 0
    lives = f" OR affinity_host NOT IN ({marks(len(alive))})" if alive else " OR 1 = 1"
    for name in sorted(policies_of()):
        found = fetch(
            f"SELECT id FROM {jobs} WHERE status = %s AND type = %s AND affinity_host > '' "  # noqa: S608
            f"AND (affinity_until <= %s{lives}) LIMIT %s",
            [t.READY, name, now, *sorted(alive), conf.JOB_RESCUE_BATCH],
        )
        ids = sorted(row[0] for row in found)
        if ids:
            freed += execute(
                f"UPDATE {jobs} SET affinity_host = '', affinity_until = NULL "  # noqa: S608
                f"WHERE id IN ({marks(len(ids))}) AND status = %s",
                [*ids, t.READY],
            )
    if freed:
        wakeup.announce()
    return freed
