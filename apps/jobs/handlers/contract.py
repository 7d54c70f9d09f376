"""The contract of handlers: the Context for long ones, and ways to end besides result and error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from apps.jobs.errors import LeaseLost
from apps.jobs.rules import failures
from apps.jobs.rules.outcome import HeldJob
from apps.jobs.rules.submission import Submission

MAX_WAIT = timedelta(days=366)
PROGRESS_SECONDS = 0.5


class Context:
    """The attempt under way. Jobs run at least once: `job_id` is the key of what must happen once.
    An attempt that is not counted is followed by one of the same number.

    `saved` is the last checkpoint, of an earlier attempt or this one; None at first.
    """

    def __init__(
        self,
        job: HeldJob,
        *,
        is_stopping: Callable[[], bool],
        store_checkpoint: Callable[..., bool],
        store_progress: Callable[..., bool],
        write_log: Callable[[HeldJob, str], object],
    ) -> None:
        self.job_id = job.id
        self.type = job.type
        self.key = job.key
        self.user_id = job.user_id
        self.stage = job.stage
        self.attempt = job.attempt
        self.max_attempts = job.max_attempts
        self.trace_id = job.trace_id
        self.saved = job.checkpoint
        self._job = job
        self._is_stopping = is_stopping
        self._store_checkpoint = store_checkpoint
        self._store_progress = store_progress
        self._write_log = write_log
        self._sequence = job.sequence
        self._shown: float | None = job.progress
        self._shown_at = 0.0

    @property
    def cancelled(self) -> bool:
        """Whether to stop: an operator cancelled the job, or the lease is lost."""
        return self._job.lost or self._job.cancel_requested

    @property
    def stopping(self) -> bool:
        """Whether the process is to end soon: save a checkpoint and raise Later(timedelta(0))."""
        return self._is_stopping()

    def checkpoint(self, data: Any, progress: float | None = None) -> None:
        """Keep any JSON to go on from, and move the deadline of the attempt."""
        self._sequence += 1
        self._store(self._store_checkpoint, data=data, sequence=self._sequence, progress=progress)
        self.saved = data

    def progress(self, percent: float) -> None:
        """Show how far it is, 0 to 100; that moves the deadline, too."""
        # In a tight loop, every step would be a commit.
        now = time.monotonic()
        if percent == self._shown or (percent < 100 and now - self._shown_at < PROGRESS_SECONDS):
            return
        self._store(self._store_progress, percent=percent)
        self._shown, self._shown_at = percent, now

    def log(self, text: str) -> None:
        """Add a line to the log of the job, which its page shows while it runs."""
        self._write_log(self._job, str(text))

    def _store(self, store: Callable[..., bool], **values: Any) -> None:
        job = self._job
        try:
            job.cancel_requested |= store(job=job.id, token=job.token, **values)
        except LeaseLost:
            job.lost = True
            raise
        job.deadline = time.monotonic() + (job.hard_end_at - job.held_at).total_seconds()


class Retry(Exception):
    """Retry after this time, or by the policy of the type; the attempt counts.

    `is_asked`: another server has named the time, so it counts up to the longest delay of the type.
    Everybody who sees the job is shown `reason`; `detail`, small JSON, only those who may see
    contexts and results.
    """

    def __init__(
        self,
        after: float | timedelta | None = None,
        reason: str = "",
        *,
        detail: dict[str, Any] | None = None,
        is_asked: bool = False,
    ) -> None:
        super().__init__(reason or "the handler asked for another try")
        self.after = None if after is None else _wait(after)
        self.is_asked = is_asked
        self.detail = detail


class Later(Exception):
    """Go on at this time, or after it, a timedelta or seconds; the attempt does not count.

    None at all, 0, is for a process that stops; otherwise it changes nothing, and the attempt fails
    when that happens 100 times in a row. ValueError for a time without a zone.
    """

    def __init__(self, run_at: datetime | timedelta | float) -> None:
        if isinstance(run_at, int | float):
            run_at = timedelta(seconds=run_at)
        super().__init__(f"the handler goes on later: {run_at}")
        if isinstance(run_at, datetime) and run_at.tzinfo is None:
            raise ValueError(f"{run_at.isoformat()} needs a time zone")
        self.run_at = run_at

    @property
    def is_at_once(self) -> bool:
        return isinstance(self.run_at, timedelta) and self.run_at <= timedelta(0)


class Fail(Exception):
    """Fail without another attempt; `detail` as of Retry."""

    def __init__(self, reason: str, *, detail: dict[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.detail = detail


class Cancelled(Exception):
    """The handler saw `ctx.cancelled` and stopped."""

    def __init__(self, reason: str = failures.AS_ASKED) -> None:
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Done:
    """Returned in place of the bare result: the job is done, and the jobs in `then`, 100 at most,
    are submitted with its end, or neither happens. TypeError for what is no Submission."""

    result: Any = None
    then: Sequence[Submission] = ()

    def __post_init__(self) -> None:
        for each in self.then:
            if not isinstance(each, Submission):
                kind = type(each).__name__
                raise TypeError(f"then has {kind}; write Submission(type, context) for each job")


@dataclass(frozen=True, slots=True)
class NextStage:
    """Returned when a stage is done: go on with another one, with a new context if given."""

    stage: str
    context: Any = None
    priority: int | None = None
    after: float | timedelta | None = None

    @property
    def wait(self) -> timedelta | None:
        return None if self.after is None else _wait(self.after)


def _wait(after: float | timedelta) -> timedelta:
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    # Not a number compares false with everything: then at once.
    return timedelta(seconds=min(seconds, MAX_WAIT.total_seconds()) if seconds > 0 else 0)
