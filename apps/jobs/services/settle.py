"""Settle: what workers report of the attempts they held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.db import fetch, placeholders, table, transactional
from apps.common.errors import FieldError, Invalid, PlatformError
from apps.common.json_rules import check_json, check_size, check_text
from apps.jobs import wakeup
from apps.jobs.models import Job
from apps.jobs.rules import outcome
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.submission import context_faults, number_faults
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.ending import End, RunningRow, end_all, lock_rows
from apps.jobs.services.protection import lock_states
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal import services as journal
from apps.journal.models import Source

LEASE_LOST = "lease_lost"
CONFLICT = "conflict"
NOT_FOUND = "not_found"
INVALID = "invalid"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """One report. `end` is one of rules.outcome.OUTCOMES; `retry` and `retry_after` belong to a
    failure, the last five to the end of a stage. `result` is any JSON, None for none."""

    id: int
    token: str
    end: str
    result: Any = None
    memo: str = ""
    error: str = ""
    retry: str = outcome.RETRY_BY_POLICY
    retry_after: timedelta | None = None
    stage: str | None = None
    context: Any = None
    priority: int | None = None
    run_at: datetime | None = None


class Settled(NamedTuple):
    """The answer to one report: the job's status after it, or why nothing was changed."""

    id: int
    ok: bool
    status: str = ""
    code: str = ""
    message: str = ""


@dataclass(slots=True)
class _Sorted:
    """The reports of one settle: those to carry out, those answered at once, and stale ones."""

    ends: list[End] = field(default_factory=list)
    answers: dict[int, Settled] = field(default_factory=dict)
    stale: list[journal.Entry] = field(default_factory=list)


def settle(*, outcomes: Sequence[Outcome]) -> list[Settled]:
    """End the attempts as reported, each on its own merits; the answers come in the same order.

    A report whose token is not the job's any more changes nothing (`lease_lost`) and is kept in the
    journal as stale. The same report again is answered as at first, another one by `conflict`.
    """
    answers = _settle(outcomes)
    if any(answer.status in t.WAITING for answer in answers):
        wakeup.announce()
    return answers


def give_back(*, token: str) -> int:
    """Release whatever is held under the token, none of which was begun; returns how many."""
    # A literal, without which SQLite would not use its partial index.
    running = f"SELECT id FROM {table(Job)} WHERE status = '{t.RUNNING}' AND lease_token = %s"
    ids = [number for (number,) in fetch(running, [token])]
    return len(settle(outcomes=[Outcome(id=each, token=token, end=t.END_RELEASED) for each in ids]))


@transactional
def _settle(outcomes: Sequence[Outcome]) -> list[Settled]:
    now = clock.now()
    policies = type_snapshots()
    breakers = {name for name, policy in policies.items() if policy.breaker.enabled}
    states = lock_states(_types_of(outcomes) & breakers) if breakers else {}
    rows = lock_rows((each.id for each in outcomes), now=now)
    if any(row.type not in policies for row in rows.values()):
        # A type may be younger than what is known of them.
        policies = type_snapshots(max_age=0)
    sorted_ = _Sorted()
    seen: dict[int, Outcome] = {}
    repeats = []
    for position, each in enumerate(outcomes):
        if each.id in seen:
            repeats.append(position)
            continue
        seen[each.id] = each
        _sort(each, rows.get(each.id), policies, now, sorted_)
    statuses = end_all(sorted_.ends, policies=policies, states=states, now=now)
    journal.write(sorted_.stale)
    for number, status in statuses.items():
        sorted_.answers[number] = Settled(number, True, status)
    answers = [sorted_.answers[each.id] for each in outcomes]
    for position in repeats:
        each = outcomes[position]
        if each != seen[each.id]:
            answers[position] = Settled(each.id, False, code=CONFLICT, message="named twice")
    return answers


def _types_of(outcomes: Sequence[Outcome]) -> set[str]:
    ids = sorted({each.id for each in outcomes})
    if not ids:
        return set()
    rows = fetch(
        f"SELECT DISTINCT type FROM {table(Job)} WHERE id IN ({placeholders(len(ids))})", ids
    )
    return {row[0] for row in rows}


def _sort(
    report: Outcome,
    row: RunningRow | None,
    policies: Mapping[str, TypeSnapshot],
    now: datetime,
    into: _Sorted,
) -> None:
    if row is None or row.type not in policies:
        into.answers[report.id] = Settled(report.id, False, code=NOT_FOUND)
    elif not report.token or row.token != report.token:
        into.answers[report.id] = Settled(report.id, False, code=LEASE_LOST)
        into.stale.append(_stale(report, row, now))
    elif row.status != t.RUNNING:
        same = outcome.same_report(row.last_end, report.end)
        into.answers[report.id] = (
            Settled(report.id, True, row.status)
            if same
            else Settled(report.id, False, code=CONFLICT, message=f"it ended as {row.last_end}")
        )
    else:
        try:
            into.ends.append(_end_of(report, row, policies[row.type]))
        except PlatformError as error:
            into.answers[report.id] = Settled(report.id, False, code=INVALID, message=error.detail)


def _end_of(report: Outcome, row: RunningRow, policy: TypeSnapshot) -> End:
    """The end that the report asks for; a PlatformError says what cannot be kept."""
    if report.end not in outcome.OUTCOMES:
        raise PlatformError(f"{report.end!r} is no outcome; use {', '.join(outcome.OUTCOMES)}.")
    if report.result is not None:
        check_json(report.result, field="result")
    if report.memo:
        check_text(report.memo, field="memo")
    stage = _next_stage(report, row, policy) if report.end == t.END_STAGE_DONE else None
    return End(
        row=row,
        ending=outcome.Ending(
            end=report.end,
            retry=report.retry,
            retry_after=report.retry_after,
            run_at=report.run_at,
        ),
        result=report.result,
        memo=report.memo,
        error=report.error,
        stage=stage,
        context=report.context,
        priority=report.priority,
    )


def _next_stage(report: Outcome, row: RunningRow, policy: TypeSnapshot) -> str:
    """The stage that follows: a declared one, and after the present one."""
    stages = list(policy.stages)
    if report.stage not in stages:
        declared = ", ".join(stages) or "none"
        raise PlatformError(f"{report.stage!r} is no stage of {row.type}; it has: {declared}.")
    if row.stage in stages and stages.index(report.stage) <= stages.index(row.stage):
        raise PlatformError(f"Stage {report.stage} does not come after {row.stage}.")
    for fault in _stage_faults(report):
        raise Invalid(fault.message, errors=[fault])
    check_size(report.context, field="context")
    return report.stage


def _stage_faults(report: Outcome) -> Iterator[FieldError]:
    """What is wrong with what a stage leaves to the next one."""
    if report.context is not None:
        yield from context_faults(report.context)
    if report.priority is not None:
        yield from number_faults("priority", report.priority, LOWEST_PRIORITY, HIGHEST_PRIORITY)


def _stale(report: Outcome, row: RunningRow, now: datetime) -> journal.Entry:
    """What a worker did that had lost its lease, kept for the timeline."""
    return journal.Entry(
        at=now,
        source=Source.JOB,
        subject_id=row.id,
        event="stale",
        from_state=row.status,
        to_state=row.status,
        type_or_task=row.type,
        reason=f"reported {report.end} after its lease was lost",
        error=report.error,
        data={"end": report.end, "memo": report.memo[:500]},
        trace_id=row.trace_id,
    )
