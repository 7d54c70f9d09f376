"""Ending waiting jobs that must not run any more: no attempt is left, they are too old, or their
type is gone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from apps.common import clock
from apps.common.db import fetch, table, transactional
from apps.common.rows import update_rows
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.ending import RunningRow, lock_rows
from apps.jobs.services.peek import first_ready
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal import services as journal
from apps.journal.models import Source

SWEEP = "jobs.give_up"
MAX_LOOKED_AT = 200


def give_up_worn(*, until: datetime) -> int:
    """Give up what stands first of each type and must not run any more; returns how many.

    A hold does so with what it meets; this is for types that nobody holds, such as paused ones and
    those that are gone.
    """
    policies = type_snapshots(max_age=0)
    given_up = 0
    for policy in policies.values():
        while (now := clock.now()) < until:
            ready = first_ready([(policy, MAX_LOOKED_AT)], [""])[policy.name]
            worn = [candidate.id for candidate in ready if candidate.is_over(policy, now)]
            done = give_up(ids=worn, policies=policies, now=now) if worn else 0
            given_up += done
            if done < MAX_LOOKED_AT:
                break
    for name in _gone_types(policies):
        while (now := clock.now()) < until:
            orphans = fetch(
                f"SELECT id FROM {table(Job)} WHERE status = '{t.READY}' AND type = %s LIMIT %s",
                [name, MAX_LOOKED_AT],
            )
            given_up += give_up(ids=[number for (number,) in orphans], policies={}, now=now)
            if len(orphans) < MAX_LOOKED_AT:
                break
    return given_up


def _gone_types(known: Collection[str]) -> Iterator[str]:
    """The types of ready jobs that do not exist: one was submitted in the very second in which its
    type was deleted. One read for each type with ready jobs."""
    name = ""
    while True:
        [(name,)] = fetch(
            f"SELECT MIN(type) FROM {table(Job)} WHERE status = '{t.READY}' AND type > %s",
            [name],
        )
        if name is None:
            return
        # It may also have been made since the others were read.
        if name not in known and not type_snapshots([name]):
            yield name


@transactional
def give_up(*, ids: Collection[int], policies: Mapping[str, TypeSnapshot], now: datetime) -> int:
    """End those of the jobs as failed that wait although they may not run; returns how many."""
    reasons = {
        row.id: (row, *why)
        for row in lock_rows(ids, now=now).values()
        if row.status in t.sources("give_up") and (why := _why(row, policies.get(row.type), now))
    }
    changed = {
        "status": t.FAILED,
        "unique_key": None,
        "finished_at": now,
        "affinity_host": "",
        "affinity_until": None,
    }
    errors = {number: journal.error_key(reason) for number, (_, _, reason) in reasons.items()}
    rows = {
        number: {**changed, "memo": reason, "error_key": errors[number]}
        for number, (_, _, reason) in reasons.items()
    }
    update_rows(Job, rows, raised=["version"])
    journal.write(
        [
            journal.Entry(
                at=now,
                source=Source.JOB,
                subject_id=row.id,
                event=event,
                from_state=row.status,
                to_state=t.FAILED,
                type_or_task=row.type,
                reason=reason,
                error_key=errors[row.id],
                trace_id=row.trace_id,
            )
            for row, event, reason in reasons.values()
        ]
    )
    return len(rows)


def _why(row: RunningRow, policy: TypeSnapshot | None, now: datetime) -> tuple[str, str] | None:
    """The event and the reason, None when the job may run."""
    if policy is None:
        return "gave_up", f"there is no job type {row.type} any more"
    if row.attempts >= row.max_attempts:
        return "gave_up", f"{row.attempts} of {row.max_attempts} attempts are used"
    expiry = policy.expires_at(row.expected_at)
    if expiry is not None and now >= expiry:
        expected = f"{row.expected_at:%Y-%m-%d %H:%M:%S} UTC"
        return "expired", f"it expired, being expected at {expected}"
    return None
