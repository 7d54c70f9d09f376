"""Discarding waiting jobs that must not run any more: exhausted, expired, or without a type."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from apps.common import clock
from apps.common.db import transactional
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.jobs.rules.outcome import discard_reason
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.move import entry_of, lock_jobs, move
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal import services as journal

SWEEP = "jobs.give_up"
MAX_READ = 200


def discard_exhausted(*, until: datetime) -> int:
    """Discard the first ready jobs of each type that must not run any more; returns how many.

    A hold discards what it reads. This sweep is for types that no worker holds, such as paused and
    deleted ones.
    """
    types = type_snapshots(max_age=0)
    discarded = 0
    for name in [*types, *_deleted_types(types)]:
        while (now := clock.now()) < until:
            # The order of the claim index.
            first = Job.objects.filter(status=t.READY, type=name).order_by(
                "affinity_host", "order_key", "id"
            )[:MAX_READ]
            rows = first.values_list("pk", "attempts", "max_attempts", "expected_at")
            found = [
                number
                for number, attempts, limit, expected_at in rows
                if name not in types
                or discard_reason(types[name], attempts, limit, expected_at, now)
            ]
            done = discard(found, types=types, now=now) if found else 0
            discarded += done
            if done < MAX_READ:
                break
    return discarded


def _deleted_types(known: Collection[str]) -> Iterator[str]:
    """Types of ready jobs that do not exist: a job was submitted in the second in which its type
    was deleted. One read for each type with ready jobs."""
    name = ""
    ready = Job.objects.filter(status=t.READY).order_by("type").values_list("type", flat=True)
    while following := ready.filter(type__gt=name).first():
        name = following
        # It may have been made since the others were read.
        if name not in known and not type_snapshots([name]):
            yield name


@transactional
def discard(ids: Collection[int], *, types: Mapping[str, TypeSnapshot], now: datetime) -> int:
    """End waiting jobs that must not run as failed; returns how many."""
    moves = []
    for job in lock_jobs(ids).values():
        if job.status not in t.WAITING:
            continue
        reason: tuple[str, str] | None = "gave_up", f"there is no job type {job.type} any more"
        if type_ := types.get(job.type):
            reason = discard_reason(type_, job.attempts, job.max_attempts, job.expected_at, now)
        if not reason:
            continue
        event, text = reason
        changes = {
            "status": t.FAILED,
            "unique_key": None,
            "finished_at": now,
            "affinity_host": "",
            "affinity_until": None,
            "memo": text,
            "error_key": journal.error_key(text),
        }
        entry = entry_of(job, event, t.FAILED, now, reason=text, error_key=changes["error_key"])
        moves.append(("discard", job, changes, entry))
    move(moves)
    return len(moves)
