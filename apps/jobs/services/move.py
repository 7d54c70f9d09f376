"""The one way to change the state of a job: lock, arrow of the table, guarded UPDATE, journal.

`move` takes locked rows, each with its changes and its journal entry. `rows.arrow_update` is for
rows that nobody has locked: promotion, admission and hold, which lose a race by changing fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial, reduce
from typing import Any

from django.db import transaction

from apps.common.db import exclusive_lock
from apps.common.errors import Conflict
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.rows import update_rows
from apps.jobs.models import AnyJob, Job
from apps.jobs.rules import transitions as t
from apps.jobs.rules.transitions import LockedJob
from apps.jobs.services import admission
from apps.jobs.services.parts import parts
from apps.jobs.services.rows import read_jobs
from apps.jobs.signals import job_ended
from apps.journal import services as journal
from apps.journal.models import Source

# An arrow, the job that takes it, the columns that it changes and the journal entry, which says the
# new state.
Move = tuple[str, LockedJob | Job, Mapping[str, Any], journal.Entry]
_MS = timedelta(milliseconds=1)


def lock_jobs(ids: Iterable[int], *, skip_locked: bool = False) -> dict[int, LockedJob]:
    """The jobs of these ids, locked in the order of ids until the transaction ends.

    With `skip_locked`, without those that another transaction has locked.
    """
    return read_jobs(LockedJob, ids, exclusive_lock(skip_locked=skip_locked))


def move(
    moves: Sequence[Move], *, between: Callable[[], object] | None = None
) -> dict[int, Mapping[str, Any]]:
    """Take these arrows; returns the written columns of each job, by its number.

    What a state means by itself is added here: also that a job of a limited key is blocked until it
    has a place, and that the places that others leave are filled. An UPDATE for each group with the
    same columns, one INSERT of entries, with a call `between` them. Conflict when the table has no
    such arrow, or a row was not locked and has changed.
    """
    written: dict[int, Mapping[str, Any]] = {}
    concerned: set[int] = set()
    groups: dict[tuple[Any, ...], dict[int, Mapping[str, Any]]] = {}
    keys: dict[int, str] = {}
    gated = [_gated(each, keys) for each in moves]
    for arrow, job, changes, entry in gated:
        source, target = job.status, entry.to_state
        require_arrow(job, arrow, target)
        change = {"status": target, **changes, **t.implied(source, target, entry.at)}
        if job.unique_for and target in t.FINAL:
            # It keeps its key for a while.
            del change["unique_key"]
        if job.together is not None and source in t.WAITING and target in t.FINAL:
            # It never ran there, and a retry goes nowhere else.
            change["host"] = job.affinity_host
        if arrow == "undo":
            # Even the end has the time that it had.
            change |= changes
        # The new status keeps apart what ends differently: within a group most values are equal.
        if job.part_of is not None and source != target and {source, target} & {*t.FINAL}:
            concerned.add(job.part_of)
        groups.setdefault((source, target, *change), {})[job.id] = written[job.id] = change
    for (status, *_names), rows in groups.items():
        changed = update_rows(
            Job, rows, guard="status = %s", parameters=[status], raised=["version"]
        )
        if changed < len(rows):
            raise Conflict(
                _(
                    "Job {number} was changed by somebody else just now; read it again.",
                    number=min(rows),
                )
            )
    if between is not None:
        between()
    if keys:
        admission.admit(keys)
    journal.write([entry for *_move, entry in gated])
    parts.ended(concerned)
    if job_ended.has_listeners():
        transaction.on_commit(partial(_notify_receivers, [entry for *_move, entry in gated]))
    return written


def _gated(move_: Move, keys: dict[int, str]) -> Move:
    """The move, to `blocked` where the job would become ready without a place of its key; `keys`
    gets those in which a place is free now, or is wanted."""
    arrow, job, changes, entry = move_
    before, after = job.limit_id, changes.get("limit_id", job.limit_id)
    if before is None and after is None:
        return move_
    had_place = job.status in t.PLACED and before == after
    if entry.to_state in (t.READY, t.BLOCKED):
        target = t.READY if after is None or had_place else t.BLOCKED
        changes, entry = {**changes, "status": target}, replace(entry, to_state=target)
    if entry.to_state == t.BLOCKED and after is not None:
        keys[after] = job.type
    if (
        job.status in t.PLACED
        and before is not None
        and not (had_place and entry.to_state in t.PLACED)
    ):
        keys[before] = job.type
    return arrow, job, changes, entry


def _notify_receivers(entries: Sequence[journal.Entry]) -> None:
    """Notify the receivers of the jobs that have ended by these entries."""
    for entry in entries:
        if entry.to_state in t.FINAL and entry.to_state != entry.from_state:
            job_ended.send_robust(
                sender=None,
                number=entry.subject_id,
                type=entry.type_or_task,
                status=entry.to_state,
            )


def require_arrow(job: LockedJob | Job, arrow: str, target: str | None = None) -> None:
    """Conflict unless the job may take the arrow; ValueError if the arrow never leads there."""
    known = t.ARROWS[arrow]
    if job.status not in known.sources:
        raise Conflict(
            _(
                "Job {number} is {status}; only while {sources} is that possible.",
                number=job.id,
                status=Message(job.status),
                sources=reduce(_either, map(Message, known.sources)),
            )
        )
    if target is not None and target not in known.targets:
        raise ValueError(f"{arrow}: {job.status} -> {target}")


def _either(first: str, other: str) -> Message:
    return _("{first} or {other}", first=first, other=other)


def attempt_facts(job: LockedJob | Job, now: datetime) -> dict[str, Any]:
    """The fields of the journal entry of every end of an attempt, but for its data."""
    held_at = job.held_at or now
    return {
        "attempt": job.attempts,
        "worker": job.worker,
        "host": job.host,
        "wait_ms": max(0, (held_at - job.run_at) // _MS),
        "run_ms": max(0, (now - held_at) // _MS),
    }


def entry_of(
    job: LockedJob | AnyJob,
    event: str,
    to_state: str,
    now: datetime,
    *,
    attempt: int | None = None,
    worker: str = "",
    host: str = "",
    wait_ms: int | None = None,
    run_ms: int | None = None,
    actor: str = "",
    reason: str = "",
    error: str = "",
    error_key: str = "",
    data: Mapping[str, Any] | None = None,
) -> journal.Entry:
    """The journal entry of a job before it is changed."""
    # Each by its name: to hand a dict on takes as long as all the rest.
    return journal.Entry(
        at=now,
        source=Source.JOB,
        subject_id=job.id,
        event=event,
        from_state=job.status,
        to_state=to_state,
        attempt=attempt,
        type_or_task=job.type,
        worker=worker,
        host=host,
        actor=actor,
        reason=reason,
        wait_ms=wait_ms,
        run_ms=run_ms,
        error=error,
        error_key=error_key,
        data=data,
        trace_id=job.trace_id,
    )
