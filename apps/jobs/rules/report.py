"""The rules for reports: whether one can be kept, and the failure that replaces one that cannot."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from apps.common.errors import Invalid, PlatformError
from apps.common.json_rules import check_json, check_size, check_text
from apps.common.readers import is_key
from apps.jobs.rules import failures
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.outcome import OUTCOMES, PUT_OFF, RETRY_NEVER, Outcome
from apps.jobs.rules.submission import (
    MAX_STAGE,
    context_faults,
    limit_faults,
    number_faults,
)
from apps.jobs.rules.transitions import LockedJob
from apps.jobs.rules.type_snapshot import TypeSnapshot

# At that many times in a row without a change, an attempt that is put off has failed.
MOST_IN_A_ROW = {t.END_YIELDED: 100, t.END_INTERRUPTED: 21}
_UNCHANGED = {
    t.END_YIELDED: failures.UNCHANGED,
    t.END_INTERRUPTED: failures.INTERRUPTED,
}
# In the data of the entry: how many times so far, and the number of the last checkpoint.
IN_A_ROW, SEQUENCE = "in_a_row", "sequence"


def validate(outcome: Outcome, job: LockedJob, type_: TypeSnapshot) -> None:
    """PlatformError unless the report can be kept."""
    if outcome.end not in OUTCOMES:
        raise PlatformError(f"{outcome.end!r} is no outcome; use {', '.join(OUTCOMES)}.")
    if outcome.result is not None:
        check_json(outcome.result, field="result")
    if outcome.detail is not None:
        check_json(outcome.detail, field="detail")
    if outcome.checkpoint is not None:
        check_json(outcome.checkpoint, field="checkpoint")
        check_size(outcome.checkpoint, field="checkpoint")
    if outcome.memo:
        check_text(outcome.memo, field="memo")
    if outcome.end in (t.END_STAGE_DONE, *PUT_OFF):
        _validate_step(outcome, job, type_)


def refused(outcome: Outcome, error: PlatformError) -> Outcome:
    """The failure of a job whose own report cannot be kept."""
    return replace(
        outcome,
        end=t.END_FAILED,
        retry=RETRY_NEVER,
        retry_after=None,
        detail=None,
        checkpoint=None,
        result=None,
        memo="",
        summary="",
        stage=None,
        context=None,
        submit=(),
        error=f"What the handler returned cannot be kept: {error.detail}",
    )


def changes_nothing(
    outcome: Outcome, now: datetime, *, stage: str, context: Any, checkpoint: Any
) -> bool:
    """Whether the outcome puts the job off and leaves it as it is; the other arguments are those of
    the job. A job that its worker interrupts is changed by its checkpoints alone."""
    if outcome.checkpoint is not None and outcome.checkpoint != checkpoint:
        return False
    if outcome.end != t.END_YIELDED:
        return outcome.end == t.END_INTERRUPTED
    due_at = outcome.due_at(now)
    is_later = due_at is not None and due_at > now
    is_changed = outcome.context is not None and outcome.context != context
    return not (is_later or is_changed or outcome.stage not in (None, stage))


def as_counted(outcome: Outcome, in_a_row: int, *, sequence: int, report: str) -> Outcome:
    """The outcome of an attempt that was put off without a change, so many times in a row: at some
    time a failure, because such a job would come back for ever."""
    if in_a_row < MOST_IN_A_ROW[outcome.end]:
        return replace(outcome, noted={IN_A_ROW: in_a_row, SEQUENCE: sequence})
    plain = Outcome(id=outcome.id, token=outcome.token, end=t.END_FAILED, type=outcome.type)
    error = _UNCHANGED[outcome.end].format(count=in_a_row)
    return replace(plain, error=error, checkpoint=outcome.checkpoint, report=report)


def _validate_step(outcome: Outcome, job: LockedJob, type_: TypeSnapshot) -> None:
    """The next stage is a declared one after the present one, or any name of free stages."""
    if outcome.end == t.END_STAGE_DONE or outcome.stage not in (None, job.stage):
        _validate_stage(outcome.stage or "", job, type_)
    faults = [] if outcome.context is None else list(context_faults(outcome.context))
    if outcome.context is not None and job.limit_id is not None and not faults:
        faults += limit_faults(outcome.context, type_)
    if outcome.priority is not None:
        faults += number_faults("priority", outcome.priority, LOWEST_PRIORITY, HIGHEST_PRIORITY)
    if faults:
        raise Invalid(faults[0].message, errors=faults[:1])
    check_size(outcome.context, field="context")


def _validate_stage(stage: str, job: LockedJob, type_: TypeSnapshot) -> None:
    if type_.has_free_stages and stage:
        if not is_key(stage, MAX_STAGE):
            raise PlatformError(
                f"{stage[:60]!r} is no name of a stage; use 1 to {MAX_STAGE} letters, digits and "
                "_ . : @ / + -"
            )
        return
    stages = type_.stages
    if stage not in stages:
        declared = ", ".join(stages) or "none"
        raise PlatformError(f"{stage!r} is no stage of {job.type}; it has: {declared}.")
    if job.stage in stages and stages.index(stage) <= stages.index(job.stage):
        raise PlatformError(f"Stage {stage} does not come after {job.stage}.")
