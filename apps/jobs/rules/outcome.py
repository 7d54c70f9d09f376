"""One attempt: the job as it was held, the reported outcome, and what the job does next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common.error_lines import line_of_text
from apps.common.texts import begin_of
from apps.jobs.rules import failures, reasons
from apps.jobs.rules import transitions as t
from apps.jobs.rules.backoff import asked_seconds, backoff_seconds
from apps.jobs.rules.job_log import LogLines
from apps.jobs.rules.order import order_key
from apps.jobs.rules.submission import Submission
from apps.jobs.rules.transitions import LockedJob
from apps.jobs.rules.type_snapshot import PREFER_ORIGIN, TypeSnapshot

# The ends that workers may report.
OUTCOMES = (
    t.END_SUCCEEDED,
    t.END_FAILED,
    t.END_STAGE_DONE,
    t.END_RELEASED,
    t.END_YIELDED,
    t.END_INTERRUPTED,
    t.END_CANCELLED,
)
# The ends that put the job off: it goes on later, and the attempt is not counted.
PUT_OFF = (t.END_YIELDED, t.END_INTERRUPTED)
RETRY_BY_POLICY, RETRY_NEVER = "policy", "never"
# After the time that the other side asked for, within the bounds of `asked_seconds`.
RETRY_AS_ASKED = "asked"
# Found by the rescue, each with its reason.
LOSSES = {t.END_LOST: reasons.WORKER_LOST, t.END_TIMED_OUT: reasons.PAST_DEADLINE}
FAILURES = frozenset({t.END_FAILED, *LOSSES})
MAX_MEMO = 2000
_ARROWS = {
    t.END_SUCCEEDED: "succeed",
    t.END_FAILED: "fail",
    t.END_STAGE_DONE: "stage_done",
    t.END_RELEASED: "release",
    t.END_YIELDED: "yield",
    t.END_INTERRUPTED: "yield",
    t.END_CANCELLED: "end_cancelled",
    t.END_LOST: "rescue",
    t.END_TIMED_OUT: "rescue",
}


@dataclass(slots=True, eq=False)
class HeldJob:
    """A job as it was held. `token` is the right to write to it; `attempt` counts this hold.

    `row` are the columns that the holder asked for; context and checkpoint are then None. The last
    five are kept by the process that runs it: the deadline of the attempt on the monotonic clock,
    when its handler started (0 before), what the heartbeat learned, and what the handler logged.
    """

    id: int
    type: str
    key: str
    user_id: str
    stage: str
    attempt: int
    max_attempts: int
    sequence: int
    progress: int | None
    trace_id: str
    context: Any
    checkpoint: Any
    token: str
    held_at: datetime
    lease_until: datetime
    hard_end_at: datetime
    row: Sequence[Any] = ()
    deadline: float = 0.0
    started: float = 0.0
    lost: bool = False
    cancel_requested: bool = False
    log: Any = None

    def ended(self, end: str, **report: Any) -> Outcome:
        """The outcome of the attempt."""
        return Outcome(id=self.id, token=self.token, end=end, type=self.type, **report)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The end of one attempt. `end` is one of OUTCOMES or LOSSES.

    `retry`, `retry_after` and `detail` belong to a failure, those from `stage` to `delay` to the
    end of a stage, or to a job that is put off: it goes on at `run_at`, or after `delay`. That is
    not made a time, by which a repeated report would differ. A `checkpoint`, None for none,
    replaces the one that is kept. `exception` is the dotted path of what the handler raised,
    `summary` its class and first line; "" leaves it to be found in the text of `error`.
    `submit` are jobs to be made with the end of a success, `log` is what the attempt has logged
    since that was kept last.
    `result` is any JSON, None for none; `detail` is what only those are shown of a failure who may
    see results. `reason` is what the platform itself says about it, `type` that of the job, ""
    where the reporter does not know it. `report` is the key of the report if this is not the
    outcome as it was reported, and `noted` what the journal keeps beside the usual.
    """

    id: int
    token: str
    end: str
    result: Any = None
    memo: str = ""
    error: str = ""
    exception: str = ""
    summary: str = ""
    retry: str = RETRY_BY_POLICY
    retry_after: timedelta | None = None
    detail: dict[str, Any] | None = None
    checkpoint: Any = None
    stage: str | None = None
    context: Any = None
    priority: int | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    submit: Sequence[Submission] = ()
    log: LogLines | None = None
    reason: str = ""
    type: str = ""
    report: str = ""
    noted: Mapping[str, Any] | None = None

    @property
    def logged(self) -> list[str]:
        """The lines of its log, without their times."""
        return self.log.texts if self.log else []

    @property
    def is_failure(self) -> bool:
        return self.end in FAILURES

    def due_at(self, now: datetime) -> datetime | None:
        """When the job is to go on; None when nothing was said of it."""
        return self.run_at if self.delay is None else now + self.delay

    @property
    def has_json(self) -> bool:
        """Whether JSON of the reporter is in it; all other fields are hashable."""
        return not (
            self.result is None
            and self.detail is None
            and self.context is None
            and self.checkpoint is None
            and not self.submit
        )

    @property
    def error_text(self) -> str:
        """The error of the attempt, "" when there is none."""
        if self.end in LOSSES:
            return LOSSES[self.end]
        if self.end == t.END_FAILED:
            return self.error or self.memo or failures.NO_REASON
        return self.error

    @property
    def last_error(self) -> str:
        """The one line that the job keeps."""
        text = LOSSES.get(self.end) or self.memo or self.summary or line_of_text(self.error)
        return begin_of(text, MAX_MEMO)

    @property
    def named_error(self) -> str:
        """The text that decides the group of the error: the line that names it, else its whole
        text."""
        return self.summary or self.error_text


class StartedJob(NamedTuple):
    """The entry of a job that has started in a record of this machine.

    `outcome` is None while its handler ran, or when the outcome was too large to be kept.
    """

    has_ended: bool
    outcome: Outcome | None


# The records of this machine: by token of a hold, the jobs under it that have started.
Records = dict[str, dict[int, StartedJob]]


class Next(NamedTuple):
    """The job after the attempt: its status, when it runs again, and where first.

    `why` is the reason why it failed finally, "" otherwise.
    """

    status: str
    attempts: int
    run_at: datetime
    affinity_host: str = ""
    affinity_until: datetime | None = None
    why: str = ""

    @property
    def is_final(self) -> bool:
        return self.status in t.FINAL


# --- what follows -------------------------------------------------------------------------------
def next_of(
    job: LockedJob, outcome: Outcome, type_: TypeSnapshot, now: datetime, *, chance: float
) -> Next:
    """The job after the outcome. A type with origin `prefer` retries on the same host first; a job
    that was submitted everywhere goes on nowhere else.

    A requested cancellation is carried out unless the attempt succeeds: a retry would run what
    nobody wants any more.
    """
    after = _after(job, outcome, type_, now, chance)
    if job.together is None or after.is_final:
        return after
    return after._replace(affinity_host=job.host, affinity_until=None)


def _after(
    job: LockedJob, outcome: Outcome, type_: TypeSnapshot, now: datetime, chance: float
) -> Next:
    if outcome.end == t.END_SUCCEEDED:
        return Next(status=t.SUCCEEDED, attempts=job.attempts, run_at=job.run_at)
    if outcome.end == t.END_CANCELLED or job.cancel_requested:
        return Next(status=t.CANCELLED, attempts=job.attempts, run_at=job.run_at)
    if outcome.end == t.END_STAGE_DONE:
        return _try_again(0, outcome.due_at(now) or now, now)
    if outcome.end == t.END_RELEASED:
        return _try_again(max(0, job.attempts - 1), now, now)
    if outcome.end in PUT_OFF:
        return _try_again(max(0, job.attempts - 1), outcome.due_at(now) or now, now)
    why = _why_final(job, outcome, type_, now)
    if why:
        return Next(status=t.FAILED, attempts=job.attempts, run_at=job.run_at, why=why)
    if outcome.end == t.END_LOST and job.last_end != t.END_LOST:
        # The worker failed, not the work: it is tried again at once. If that is lost, too, one that
        # kills its worker is kept from those beside it for a while.
        wait = timedelta()
    elif outcome.retry_after is None:
        wait = timedelta(seconds=backoff_seconds(type_.backoff, job.attempts, chance=chance))
    elif outcome.retry == RETRY_AS_ASKED:
        asked = outcome.retry_after.total_seconds()
        wait = timedelta(seconds=asked_seconds(type_.backoff, job.attempts, asked, chance=chance))
    else:
        wait = outcome.retry_after
    again = _try_again(job.attempts, now + wait, now)
    if type_.origin != PREFER_ORIGIN or not job.host:
        return again
    return again._replace(affinity_host=job.host, affinity_until=again.run_at + type_.origin_grace)


def _try_again(attempts: int, run_at: datetime, now: datetime) -> Next:
    run_at = max(run_at, now)
    return Next(status=t.SCHEDULED if run_at > now else t.READY, attempts=attempts, run_at=run_at)


def _why_final(job: LockedJob, outcome: Outcome, type_: TypeSnapshot, now: datetime) -> str:
    if outcome.retry == RETRY_NEVER:
        return reasons.NO_RETRY
    if job.attempts >= job.max_attempts:
        return reasons.LAST_ATTEMPT.format(number=job.attempts, max=job.max_attempts)
    if type_.is_expired(job.expected_at, now):
        return reasons.EXPIRED
    return ""


def arrow_of(outcome: Outcome, after: Next) -> str:
    """The arrow of rules/transitions that the outcome takes."""
    if after.status == t.CANCELLED and outcome.end not in LOSSES:
        return "end_cancelled"
    return _ARROWS[outcome.end]


def changes_of(
    job: LockedJob,
    outcome: Outcome,
    after: Next,
    type_: TypeSnapshot,
    *,
    weight_ms: int,
) -> dict[str, Any]:
    """The columns of the row after the attempt, beside those that its new state sets. The error key
    is set where the error is known.

    A job of a pool keeps its score; one that counts for a key counts for that of its new context.
    """
    changes: dict[str, Any] = {"last_end": outcome.end, "memo": outcome.last_error}
    if outcome.end in (t.END_SUCCEEDED, t.END_STAGE_DONE):
        changes["error_key"] = ""
    if outcome.checkpoint is not None:
        changes["checkpoint"] = outcome.checkpoint
    if after.is_final:
        if after.status == t.SUCCEEDED:
            changes["result"] = outcome.result
        return changes
    priority = job.priority if outcome.priority is None else outcome.priority
    changes |= {
        "attempts": after.attempts,
        "run_at": after.run_at,
        "affinity_host": after.affinity_host,
        "affinity_until": after.affinity_until,
    }
    if not type_.pool:
        changes["order_key"] = order_key(
            after.run_at, priority=priority, attempts=after.attempts, weight_ms=weight_ms
        )
    if outcome.end == t.END_STAGE_DONE:
        changes |= {
            "stage": outcome.stage,
            "priority": priority,
            "checkpoint": outcome.checkpoint,
            "sequence": 0,
            "progress": None,
        }
    elif outcome.end in PUT_OFF:
        changes |= {"stage": outcome.stage or job.stage, "priority": priority}
    if outcome.context is not None:
        changes["context"] = outcome.context
        limit = type_.key_limit
        if job.limit_id is not None and limit is not None and not limit.is_column:
            changes["limit_id"] = type_.limit_id(key="", user_id="", context=outcome.context)
    return changes


def found_outcome(job: LockedJob, end: str, records: Records) -> Outcome:
    """The outcome of a lost worker's attempt: `end`, one of LOSSES, unless a record has another.

    Only a job whose handler was running is lost. A job that had ended keeps its outcome; a job that
    had not started is released, so that it does not pay for the crash of another.
    """
    lost = Outcome(id=job.id, token=job.lease_token, end=end)
    if job.lease_token not in records:
        return lost
    seen = records[job.lease_token].get(job.id)
    if seen is None:
        return replace(lost, end=t.END_RELEASED, reason=reasons.NOT_STARTED)
    if not seen.has_ended:
        return lost
    return seen.outcome or replace(
        lost, end=t.END_FAILED, error=failures.RESULT_LOST, retry_after=timedelta()
    )


def discard_reason(
    type_: TypeSnapshot, attempts: int, max_attempts: int, expected_at: datetime, now: datetime
) -> tuple[str, str] | None:
    """The event and the reason why a waiting job must not run any more; None when it may."""
    if attempts >= max_attempts:
        return "gave_up", reasons.ATTEMPTS_USED.format(used=attempts, max=max_attempts)
    if type_.is_expired(expected_at, now):
        at = f"{expected_at:%Y-%m-%d %H:%M:%S} UTC"
        return "expired", reasons.EXPIRED_BEFORE.format(time=at)
    return None
