"""The actions of operators on runs: pause, resume, cancel, retry, and skip or finish a step.

Each is one transaction under the lock of the run, which then goes on as far as it can.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from apps.common.db import transactional
from apps.common.errors import Conflict, Invalid, NotFound, PlatformError
from apps.common.json_rules import check_json
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.texts import begin_of
from apps.flows.models import MAX_MEMO, FlowRun, FlowStep
from apps.flows.rules import joins, shapes
from apps.flows.rules.ends import End
from apps.flows.services import people, programs
from apps.flows.services.advance import Advance
from apps.jobs.models import ArchivedJob
from apps.jobs.rules import transitions as t
from apps.jobs.services import control as of_jobs

Status = FlowRun.Status


@transactional
def pause(*, run: FlowRun, actor: str, reason: str = "") -> FlowRun:
    """Begin no more steps until it is resumed; what is active goes on."""
    return _set_paused(run, True, "paused", actor, reason)


@transactional
def resume(*, run: FlowRun, actor: str, reason: str = "") -> FlowRun:
    """Begin steps again."""
    return _set_paused(run, False, "resumed", actor, reason)


def _set_paused(run: FlowRun, is_paused: bool, event: str, actor: str, reason: str) -> FlowRun:
    going = _locked(run, actor, reason, Status.RUNNING)
    if going.run.is_paused != is_paused:
        going.write_run(is_paused=is_paused)
        going.note(event)
        going.go()
    return going.run


@transactional
def cancel(*, run: FlowRun, actor: str, reason: str, force: bool = False) -> FlowRun:
    """Begin nothing more and cancel what is open; the run is cancelled when nothing is.

    With `force` running jobs and open dispatches are cancelled at once, else they are waited for.
    """
    _require_reason(reason)
    going = _locked(run, actor, reason, Status.RUNNING, Status.CANCELLING)
    if going.run.status == Status.RUNNING or (force and not going.run.is_forced):
        going.write_run(
            status=Status.CANCELLING.value,
            reason=reason,
            is_forced=force or going.run.is_forced,
        )
        going.note("cancel_asked", to_state=Status.CANCELLING.value, data={"forced": force})
    going.go()
    return going.run


@transactional
def skip(*, run: FlowRun, step: str, actor: str, reason: str, result: Any = None) -> FlowRun:
    """Go on without a step that has not succeeded, with this result in place of its own; what it
    has open is cancelled. A failed run is running again."""
    _require_reason(reason)
    check_json(result, field="result")
    going = _locked(run, actor, reason, Status.RUNNING, Status.FAILED)
    row = _step(going, step)
    if row.state not in (joins.BLOCKED, joins.ACTIVE, joins.FAILED):
        raise _conflict_of(row)
    _require_reopened(going)
    if row.state == joins.FAILED and programs.is_open(row.first, row.last, row.pk):
        # Somebody has just retried a job of it.
        going.reopen(row)
    memo = begin_of(reason, MAX_MEMO)
    if row.state == joins.ACTIVE and row.kind != shapes.WAIT:
        # Ends when nothing of it is open.
        going.write(row, by=actor[:160], memo=memo, result=result)
        going.note("skip_asked", row)
    else:
        going.end(row, End(joins.SKIPPED, result, memo), by=actor)
    going.go()
    return going.run


@transactional
def finish(*, run: FlowRun, step: str, actor: str, reason: str = "", result: Any = None) -> FlowRun:
    """End a step that waits, with a result: what is waited for has come; a repeat changes
    nothing."""
    check_json(result, field="result")
    going = _locked(run, actor, reason)
    row = _step(going, step)
    if row.kind != shapes.WAIT:
        message = _("{step} is no step that waits; skip it instead.", step=row.name)
        raise Conflict(message)
    if row.state == joins.SUCCEEDED and row.by:
        return going.run
    if row.state != joins.ACTIVE or going.run.status != Status.RUNNING:
        raise _conflict_of(row)
    going.end(row, End(joins.SUCCEEDED, result), by=actor)
    going.go()
    return going.run


# --- retry ----------------------------------------------------------------------------------------
class _Retried(NamedTuple):
    """The jobs of a step in these states, live or in the archive, of which those up to a number
    have been retried."""

    row: FlowStep
    statuses: Collection[str]
    is_archived: bool = False
    after: int = 0


def retry(*, run: FlowRun, actor: str, reason: str = "") -> FlowRun:
    """Try again what has failed: failed and cancelled jobs of failed steps, and failed jobs of
    steps that go on, in blocks; tasks, and steps that made no job, from the start. Conflict when
    nothing has failed, or another run of its key is open.
    """
    done, jobs = _retry_first(run, actor, reason)
    for each in jobs:
        left: _Retried | None = each
        while left is not None:
            left = _retry_block(left, actor, reason)
    return FlowRun.objects.get(pk=done.pk)


@transactional
def _retry_first(run: FlowRun, actor: str, reason: str) -> tuple[FlowRun, list[_Retried]]:
    going = _locked(run, actor, reason, Status.FAILED, Status.RUNNING)
    failed = [row for row in going.steps.values() if row.state == joins.FAILED]
    active = [row for row in going.steps.values() if row.state == joins.ACTIVE]
    counts = programs.counts_of_each(active)
    jobs = [_Retried(row, [t.FAILED]) for row in active if row.pk in counts]
    jobs = [each for each in jobs if counts[each.row.pk][t.FAILED]]
    if not failed and not jobs:
        raise Conflict(_("No step of run {number} has failed.", number=run.pk))
    _require_reopened(going)
    going.note("retried")
    for row in failed:
        if row.first is None or row.task is not None:
            if row.task is not None:
                people.stop(row, actor=actor, reason=reason or "retried", force=True)
            going.write(
                row,
                state=joins.BLOCKED,
                result=None,
                memo="",
                ended_at=None,
                started_at=None,
                task=None,
            )
        else:
            jobs.append(_Retried(row, [t.FAILED, t.CANCELLED]))
    # Those in the archive last, because the mover brings others there.
    jobs += [each._replace(is_archived=True) for each in jobs]
    left = [after for each in jobs if (after := _retry_some(each, actor, reason)) is not None]
    going.go()
    return going.run, left


@transactional
def _retry_block(each: _Retried, actor: str, reason: str) -> _Retried | None:
    return _retry_some(each, actor, reason)


def _retry_some(each: _Retried, actor: str, reason: str) -> _Retried | None:
    """Retry a block of the jobs; what is left, None for nothing."""
    if each.is_archived:
        found = programs.archived(each.row, each.statuses, after=each.after)
        for number in found:
            of_jobs.retry(job=ArchivedJob(pk=number), actor=actor, reason=reason)
        last = max(found, default=None)
    else:
        last = programs.retry_ended(
            each.row, each.statuses, after=each.after, actor=actor, reason=reason
        )
    return None if last is None else each._replace(after=last)


# --- steps ----------------------------------------------------------------------------------------
def _locked(run: FlowRun, actor: str, reason: str, *statuses: FlowRun.Status) -> Advance:
    """The run as it is now, locked; Conflict unless it is in one of these states."""
    current = FlowRun.objects.select_for_update().filter(pk=run.pk).first()
    if current is None:
        raise NotFound(_("There is no flow run {number}.", number=run.pk))
    if statuses and current.status not in statuses:
        message = _(
            "Run {number} is {status}.", number=run.pk, status=Message(current.get_status_display())
        )
        raise Conflict(message)
    return Advance(current, actor=actor, reason=reason)


def _step(going: Advance, name: str) -> FlowStep:
    row = going.steps.get(name)
    if row is None:
        raise NotFound(_("Run {number} has no step {name!r}.", number=going.run.pk, name=name[:64]))
    return row


def _conflict_of(row: FlowStep) -> PlatformError:
    return Conflict(_("Step {step} is {state}.", step=row.name, state=Message(row.state)))


def _require_reopened(going: Advance) -> None:
    if going.run.status == Status.FAILED and not going.reopen_run():
        raise Conflict(
            _(
                "Another run of {flow} with the key {key} is open; cancel that one or let it end.",
                flow=going.run.flow,
                key=going.run.key,
            )
        )


def _require_reason(reason: str) -> None:
    if not reason.strip():
        message = _("Say why; the journal keeps it.")
        raise Invalid.field("reason", message)
