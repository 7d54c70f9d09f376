"""Settle: end attempts as their workers report them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.db import fetch, fetch_each, placeholders, table, transactional
from apps.common.error_lines import line_of_text
from apps.common.errors import Conflict, Invalid, PlatformError
from apps.common.texts import begin_of
from apps.jobs import wakeup
from apps.jobs.conf import conf
from apps.jobs.errors import LeaseLost, not_held
from apps.jobs.models import Job, TypeState
from apps.jobs.rules import outcome as rules
from apps.jobs.rules import reasons
from apps.jobs.rules import transitions as t
from apps.jobs.rules.caller import IN_HOUSE, Caller
from apps.jobs.rules.outcome import Next, Outcome
from apps.jobs.rules.report import IN_A_ROW, SEQUENCE, as_counted, changes_nothing, validate
from apps.jobs.rules.transitions import LockedJob
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import follow, job_log
from apps.jobs.services.find import holders_of
from apps.jobs.services.hold import running_under
from apps.jobs.services.move import attempt_facts, entry_of, lock_jobs, move
from apps.jobs.services.protection import count_ends, lock_states
from apps.jobs.services.repeats import STALE, earlier_reports, late_answer, report_key
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal import services as journal
from apps.journal.models import JournalEntry, Source

# Ends that say nothing about the systems that the handler depends on.
_UNJUDGED = frozenset({t.END_RELEASED, *rules.PUT_OFF, t.END_CANCELLED, t.END_LOST})


def settle(*, outcomes: Sequence[Outcome], caller: Caller = IN_HOUSE) -> list[str | PlatformError]:
    """End the attempts as reported, each on its own merits.

    Returns, in the same order, the status of each job after it, or the error why nothing was
    changed. The same report again is answered as at first, even when the job has moved on; another
    one under the same token is a Conflict. A report whose lease was lost is LeaseLost, and the
    first of each token is kept in the journal as stale. What cannot be stored is Invalid. A job of
    another caller is NotFound.
    """
    answers = _settle(outcomes, caller) if outcomes else []
    wake_for(answers)
    return answers


def wake_for(answers: Iterable[str | PlatformError]) -> None:
    """Wake drains when jobs wait again after their reports were answered so."""
    if any(answer in t.WAITING for answer in answers):
        wakeup.announce()


def give_back(*, token: str) -> int:
    """Release the jobs held under the token, none of which has started; returns how many."""
    ids = running_under([token])
    settle(outcomes=[Outcome(id=each, token=token, end=t.END_RELEASED) for each in ids])
    return len(ids)


@transactional
def _settle(outcomes: Sequence[Outcome], caller: Caller) -> list[str | PlatformError]:
    guarded = guarded_types(outcomes)
    states = lock_states(guarded) if guarded else {}
    return settle_locked(outcomes, states, caller).answers


def guarded_types(outcomes: Sequence[Outcome]) -> set[str]:
    """The types of these outcomes that have a breaker."""
    guarded = {name for name, type_ in type_snapshots().items() if type_.breaker.enabled}
    return _types_of(outcomes) & guarded if guarded else set()


class Settled(NamedTuple):
    """The answers to reports, and how many attempts of each type ended by them."""

    answers: list[str | PlatformError]
    ended: Mapping[str, int]


def settle_locked(
    outcomes: Sequence[Outcome], states: Mapping[str, TypeState], caller: Caller
) -> Settled:
    """`settle` within a transaction that has locked the states of the guarded types."""
    now = clock.now()
    types = type_snapshots()
    jobs = lock_jobs(each.id for each in outcomes)
    # In the archive, or back from it just now.
    archived = holders_of({each.id for each in outcomes} - jobs.keys())
    if any(job.type not in types for job in jobs.values()):
        # A type may be newer than the snapshots.
        types = type_snapshots(max_age=0)
    answers: dict[int, str | PlatformError] = {}
    ends: list[tuple[LockedJob, Outcome]] = []
    late: list[Outcome] = []
    first: dict[int, Outcome] = {}
    leading = [each for each in outcomes if each.submit]
    unfit = follow.refusals(leading, caller) if leading else {}
    for each in outcomes:
        if each.id in first:
            continue
        first[each.id] = each
        job = jobs.get(each.id)
        if each.id in archived and caller.holds(*archived[each.id]):
            # Its earlier reports are no longer repeated as answers.
            answers[each.id] = LeaseLost()
        elif job is None or job.type not in types or not caller.may_use(job.type):
            answers[each.id] = not_held(each.id)
        elif not (caller.client == job.client and _is_running_under(each.token, job)):
            late.append(each)
        else:
            try:
                validate(each, job, types[job.type])
                if each.id in unfit:
                    raise unfit[each.id]
            except PlatformError as error:
                answers[each.id] = Invalid(error.detail)
            else:
                ends.append((job, each))
    counted = _as_counted(ends, now)
    answers |= end_attempts(counted, types=types, states=states, now=now)
    logs = [
        job_log.AttemptLines(job.id, job.holds, job.attempts, each.log)
        for job, each in ends
        if each.log is not None
    ]
    if logs:
        job_log.write(logs)
    answers |= _answer_late(late, jobs, caller.client, now)
    in_order = [
        answers[each.id]
        if each is first[each.id] or report_key(each) == report_key(first[each.id])
        else Conflict("named twice")
        for each in outcomes
    ]
    return Settled(in_order, Counter(job.type for job, _ in ends))


def _is_running_under(token: str, job: LockedJob) -> bool:
    return bool(token) and job.lease_token == token and job.status == t.RUNNING


def _as_counted(
    ends: Sequence[tuple[LockedJob, Outcome]], now: datetime
) -> Sequence[tuple[LockedJob, Outcome]]:
    """The ends; a job that is put off without any change too many times in a row has failed."""
    put_off = [each.id for _, each in ends if each.end in rules.PUT_OFF]
    if not put_off:
        return ends
    columns = ("pk", "context", "checkpoint", "sequence")
    rows = {pk: row for pk, *row in Job.objects.filter(pk__in=put_off).values_list(*columns)}
    idle = {
        job.id: rows[job.id][2]
        for job, each in ends
        if job.id in rows
        and changes_nothing(
            each, now, stage=job.stage, context=rows[job.id][0], checkpoint=rows[job.id][1]
        )
    }
    # A job that is put off for the first time has no such entry before this one.
    again = [job.id for job, each in ends if job.id in idle and job.last_end == each.end]
    before = _in_a_row({number: idle[number] for number in again}) if again else {}
    return [
        (
            job,
            as_counted(
                each,
                before.get(job.id, 0) + 1,
                sequence=idle[job.id],
                report=report_key(each),
            )
            if job.id in idle
            else each,
        )
        for job, each in ends
    ]


def _in_a_row(sequences: Mapping[int, int]) -> dict[int, int]:
    """How many times in a row these jobs were put off without a change before, since the checkpoint
    of that number."""
    rows = fetch_each(
        (
            f"SELECT subject_id, data FROM {table(JournalEntry)} "
            "WHERE source = %s AND subject_id = %s ORDER BY id DESC LIMIT 1",
            [Source.JOB, number],
        )
        for number in sequences
    )
    found = {}
    for number, text in rows:
        data = json.loads(text or "{}")
        if data.get(SEQUENCE) == sequences[number]:
            found[number] = data[IN_A_ROW]
    return found


def _types_of(outcomes: Sequence[Outcome]) -> set[str]:
    known = {each.type for each in outcomes if each.type}
    ids = sorted({each.id for each in outcomes if not each.type})
    if not ids:
        return known
    rows = fetch(
        f"SELECT DISTINCT type FROM {table(Job)} WHERE id IN ({placeholders(len(ids))})", ids
    )
    return known | {row[0] for row in rows}


def _answer_late(
    reports: Sequence[Outcome], jobs: Mapping[int, LockedJob], client: str, now: datetime
) -> dict[int, str | PlatformError]:
    """The answers to reports by a client of attempts that are over, or not its own, by job."""
    answers: dict[int, str | PlatformError] = {}
    stale = []
    earlier = earlier_reports([each.id for each in reports])
    for each in reports:
        job = jobs[each.id]
        answers[each.id], is_kept = late_answer(each, job, earlier[each.id], client)
        if is_kept:
            stale.append(_stale(each, job, client, now))
    journal.write(stale)
    return answers


def _stale(report: Outcome, job: LockedJob, client: str, now: datetime) -> journal.Entry:
    """The report of a worker that had lost its lease, kept for the timeline."""
    data = {"end": report.end, "memo": begin_of(report.memo, 500), "report": report_key(report)}
    return entry_of(
        job,
        STALE,
        job.status,
        now,
        reason=reasons.REPORTED_LATE.format(end=report.end),
        error=report.error,
        data={**data, "client": client} if client else data,
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
        changes = rules.changes_of(job, outcome, after, types[job.type], weight_ms=weight_ms)
        facts = _facts(job, outcome, after)
        if outcome.is_failure:
            changes["error_key"] = facts["error_key"]
        if outcome.end in rules.LOSSES:
            # Every later report of the attempt is stale.
            changes["lease_token"] = ""
        entry = entry_of(job, outcome.end, after.status, now, **attempt_facts(job, now), **facts)
        moves.append((rules.arrow_of(outcome, after), job, changes, entry))
    if any(outcome.submit for _, outcome in ends):
        entries = [entry for *_move, entry in moves]
        written = move(moves, between=lambda: follow.submit([*zip(ends, entries, strict=True)]))
    else:
        written = move(moves)
    if states:
        counted = [
            (job.type, job.held_at, outcome.is_failure)
            for job, outcome in ends
            if outcome.end not in _UNJUDGED
        ]
        count_ends(types, states, counted, now)
    return {number: columns["status"] for number, columns in written.items()}


def _facts(job: LockedJob, outcome: Outcome, after: Next) -> dict[str, Any]:
    """The facts of the end of an attempt that the journal keeps beside `attempt_facts`."""
    is_loss = outcome.end in rules.LOSSES
    key = "" if is_loss else report_key(outcome)
    run_at = None if after.is_final else after.run_at
    data = _data(job.held_at, job.holds, job.stage, run_at, key, job.client)
    if outcome.exception:
        data = {**data, "exception": outcome.exception}
    if outcome.summary and outcome.summary != line_of_text(outcome.error_text):
        data = {**data, "summary": outcome.summary}
    if outcome.noted:
        data = {**data, **outcome.noted}
    if outcome.detail is not None:
        data = {**data, "detail": outcome.detail}
    return {
        "reason": rules.LOSSES[outcome.end] if is_loss else after.why or outcome.reason,
        # An error that the platform itself found is stored as the reason.
        "error": "" if is_loss else outcome.error_text,
        "error_key": journal.error_key(outcome.named_error),
        "data": data,
    }


@lru_cache(maxsize=256)
def _data(
    held_at: datetime,
    hold: int,
    stage: str,
    run_at: datetime | None,
    report: str,
    client: str,
) -> dict[str, Any]:
    """One object for all jobs of a batch with the same facts: the journal encodes it once."""
    data: dict[str, Any] = {"held_at": held_at.isoformat(), "hold": hold}
    if stage:
        data["stage"] = stage
    if run_at is not None:
        data["run_at"] = run_at.isoformat()
    if report:
        data["report"] = report
    if client:
        # Workers of two keys may have the same name.
        data["client"] = client
    return data
