"""What becomes of a running job when its attempt ends, whoever tells of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from apps.jobs.rules import transitions as t
from apps.jobs.rules.backoff import backoff_seconds
from apps.jobs.rules.type_snapshot import PREFER_ORIGIN, TypeSnapshot

# What workers may report.
OUTCOMES = (
    t.END_SUCCEEDED,
    t.END_FAILED,
    t.END_STAGE_DONE,
    t.END_RELEASED,
    t.END_CANCELLED,
)
RETRY_BY_POLICY, RETRY_NEVER = "policy", "never"
# Reported by nobody: the sweep finds them.
LOSSES = (t.END_LOST, t.END_TIMED_OUT)


class Running(Protocol):
    """The facts of a running job that decide; `attempts` counts the present one."""

    @property
    def attempts(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def run_at(self) -> datetime: ...
    @property
    def expected_at(self) -> datetime: ...
    @property
    def host(self) -> str: ...
    @property
    def cancel_requested(self) -> bool: ...


class Ending(NamedTuple):
    """How an attempt ended; `retry_after` and `run_at` are wishes of the worker."""

    end: str
    retry: str = RETRY_BY_POLICY
    retry_after: timedelta | None = None
    run_at: datetime | None = None


class Next(NamedTuple):
    """The job after the attempt: its status, when it runs again, and where first.

    `why` says in words why it failed for good, "" otherwise.
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


def next_of(
    job: Running, ending: Ending, policy: TypeSnapshot, now: datetime, *, chance: float
) -> Next:
    """The arrow that an ending takes. The host that ran it is asked first if the type prefers it.

    A wish to cancel is granted whenever the attempt does not bring success: a retry would only
    run what nobody wants any more.
    """
    if ending.end == t.END_SUCCEEDED:
        return Next(status=t.SUCCEEDED, attempts=job.attempts, run_at=job.run_at)
    if ending.end == t.END_CANCELLED or job.cancel_requested:
        return Next(status=t.CANCELLED, attempts=job.attempts, run_at=job.run_at)
    if ending.end == t.END_STAGE_DONE:
        return _again(0, ending.run_at or now, now)
    if ending.end == t.END_RELEASED:
        return _again(max(0, job.attempts - 1), now, now)
    why = _why_final(job, ending, policy, now)
    if why:
        return Next(status=t.FAILED, attempts=job.attempts, run_at=job.run_at, why=why)
    if ending.end == t.END_LOST:
        # Nothing says that the work itself was wrong: it is tried again at once.
        wait = timedelta()
    elif ending.retry_after is not None:
        wait = ending.retry_after
    else:
        wait = timedelta(seconds=backoff_seconds(policy.backoff, job.attempts, chance=chance))
    again = _again(job.attempts, now + wait, now)
    if policy.origin != PREFER_ORIGIN or not job.host:
        return again
    return Next(
        status=again.status,
        attempts=again.attempts,
        run_at=again.run_at,
        affinity_host=job.host,
        affinity_until=again.run_at + policy.origin_grace,
    )


def _again(attempts: int, run_at: datetime, now: datetime) -> Next:
    run_at = max(run_at, now)
    return Next(status=t.SCHEDULED if run_at > now else t.READY, attempts=attempts, run_at=run_at)


def _why_final(job: Running, ending: Ending, policy: TypeSnapshot, now: datetime) -> str:
    if ending.retry == RETRY_NEVER:
        return "its handler asked for no retry"
    if job.attempts >= job.max_attempts:
        return f"attempt {job.attempts} of {job.max_attempts} was the last"
    expiry = policy.expires_at(job.expected_at)
    if expiry is not None and now >= expiry:
        return "it is past its expiry"
    return ""


def kept_end(before: str, ended: str) -> str:
    """What the job remembers as its last end: a suspect that was only given back stays one."""
    return before if ended == t.END_RELEASED and before == t.END_LOST else ended


def same_report(last_end: str, reported: str) -> bool:
    """Whether a settled attempt ended as a repeated report says: then the first answer stands.

    After a loss no token is left to report with, so there it was a suspect that was given back.
    """
    return last_end == reported or (reported == t.END_RELEASED and last_end == t.END_LOST)
