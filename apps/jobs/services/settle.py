"""Settle: end attempts as their workers report them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from apps.common import clock
from apps.common.db import fetch, placeholders, table, transactional
from apps.common.errors import Conflict, Invalid, NotFound, PlatformError
from apps.jobs import wakeup
from apps.jobs.conf import conf
from apps.jobs.errors import LeaseLost
from apps.jobs.models import Job, TypeState
from apps.jobs.rules import outcome as rules
from apps.jobs.rules import transitions as t
from apps.jobs.rules.outcome import Next, Outcome
from apps.jobs.rules.transitions import LockedJob
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.move import attempt_facts, entry_of, lock_jobs, move
from apps.jobs.services.protection import count_ends, lock_states
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal import services as journal


def settle(*, outcomes: Sequence[Outcome]) -> list[str | PlatformError]:
    """End the attempts as reported, each on its own merits.

    Returns, in the same order, the status of each job after it, or the error why nothing was
    changed. A report whose token is not the job's any more is LeaseLost, and is kept in the journal
    as stale. The same report again is answered as at first, another one is a Conflict. What cannot
    be stored is Invalid.
    """
    answers = _settle(outcomes)
    if any(answer in t.WAITING for answer in answers):
        wakeup.announce()
    return answers


def give_back(*, token: str) -> int:
    """Release the jobs held under the token, none of which has started; returns how many."""
    # A literal, without which SQLite would not use its partial index.
    running = f"SELECT id FROM {table(Job)} WHERE status = '{t.RUNNING}' AND lease_token = %s"
    ids = [number for (number,) in fetch(running, [token])]
    settle(outcomes=[Outcome(id=each, token=token, end=t.END_RELEASED) for each in ids])
    return len(ids)


@transactional
def _settle(outcomes: Sequence[Outcome]) -> list[str | PlatformError]:
    now = clock.now()
    types = type_snapshots()
    breakers = {name for name, type_ in types.items() if type_.breaker.enabled}
    states = lock_states(_types_of(outcomes) & breakers) if breakers else {}
    jobs = lock_jobs(each.id for each in outcomes)
    if any(job.type not in types for job in jobs.values()):
        # A type may be newer than the snapshots.
        types = type_snapshots(max_age=0)
    answers: dict[int, str | PlatformError] = {}
    ends: list[tuple[LockedJob, Outcome]] = []
    stale: list[journal.Entry] = []
    first: dict[int, Outcome] = {}
    for each in outcomes:
        if each.id in first:
            continue
        first[each.id] = each
        job = jobs.get(each.id)
        if job is None or job.type not in types:
            answers[each.id] = NotFound()
        elif not each.token or job.lease_token != each.token:
            answers[each.id] = LeaseLost()
            stale.append(_stale(each, job, now))
        elif job.status != t.RUNNING:
            answers[each.id] = _repeated(each, job)
        else:
            try:
                rules.validate(each, job, types[job.type])
            except PlatformError as error:
                answers[each.id] = Invalid(error.detail)
            else:
                ends.append((job, each))
    answers |= end_attempts(ends, types=types, states=states, now=now)
    journal.write(stale)
    return [
        answers[each.id]
        if each is first[each.id] or each == first[each.id]
        else Conflict("named twice")
        for each in outcomes
    ]


def _types_of(outcomes: Sequence[Outcome]) -> set[str]:
    ids = sorted({each.id for each in outcomes})
    if not ids:
        return set()
    rows = fetch(
        f"SELECT DISTINCT type FROM {table(Job)} WHERE id IN ({placeholders(len(ids))})", ids
    )
    return {row[0] for row in rows}


def _repeated(report: Outcome, job: LockedJob) -> str | PlatformError:
    if rules.is_same_report(job.last_end, report.end):
        return job.status
    return Conflict(f"it ended as {job.last_end}")


def _stale(report: Outcome, job: LockedJob, now: datetime) -> journal.Entry:
    """The report of a worker that had lost its lease, kept for the timeline."""
    return entry_of(
        job,
        "stale",
        job.status,
        now,
        reason=f"reported {report.end} after its lease was lost",
        error=report.error,
        data={"end": report.end, "memo": report.memo[:500]},
    )


# --- ends of attempts, which the rescue shares --------------------------------------------------
def end_attempts(
    ends: Iterable[tuple[LockedJob, Outcome]],
    *,
    types: Mapping[str, TypeSnapshot],
    states: Mapping[str, TypeState],
    now: datetime,
) -> dict[int, str]:
    """End the attempts of locked, running jobs; returns the status of each job after it.

    `states` are the locked ones of types with a breaker, which counts the ends.
    """
    ends = list(ends)
    weight_ms = conf.JOB_PRIORITY_WEIGHT_MS
    moves = []
    for job, outcome in ends:
        after = rules.next_of(
            job,
            outcome,
            types[job.type],
            now,
            chance=random.random(),  # noqa: S311
        )
        changes = rules.changes_of(job, outcome, after, now, weight_ms=weight_ms)
        facts = attempt_facts(job, now) | _facts(job, outcome, after)
        if outcome.is_failure:
            changes["error_key"] = facts["error_key"]
        if outcome.end in rules.LOSSES:
            # Every later report of the attempt is stale.
            changes["lease_token"] = ""
        entry = entry_of(job, outcome.end, after.status, now, **facts)
        moves.append((rules.arrow_of(outcome, after), job, changes, entry))
    move(moves)
    if states:
        counted = [
            (job.type, outcome.is_failure)
            for job, outcome in ends
            if outcome.end not in (t.END_RELEASED, t.END_CANCELLED)
        ]
        count_ends(types, states, counted, now)
    return {job.id: entry.to_state for _arrow, job, _changes, entry in moves}


def _facts(job: LockedJob, outcome: Outcome, after: Next) -> dict[str, Any]:
    """What the journal keeps of the end of an attempt beside `attempt_facts`."""
    is_loss = outcome.end in rules.LOSSES
    return {
        "reason": rules.LOSSES[outcome.end] if is_loss else after.why,
        # What the platform itself found is a reason.
        "error": "" if is_loss else outcome.error_text,
        "error_key": journal.error_key(outcome.error_text),
        "data": _data(job.held_at, job.holds, job.stage, None if after.is_final else after.run_at),
    }


@lru_cache(maxsize=256)
def _data(held_at: datetime, hold: int, stage: str, run_at: datetime | None) -> dict[str, Any]:
    """One object for all jobs of a batch with the same facts: the journal encodes it once."""
    data: dict[str, Any] = {"held_at": held_at.isoformat(), "hold": hold}
    if stage:
        data["stage"] = stage
    if run_at is not None:
        data["run_at"] = run_at.isoformat()
    return data
