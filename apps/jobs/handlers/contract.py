"""The contract of handlers: the Context that a long one is given, and how it ends otherwise than by
a result or an error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

MAX_WAIT = timedelta(days=366)


class Context(Protocol):
    """The attempt under way. `job_id` and `attempt` together serve as an idempotency key."""

    @property
    def job_id(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def user_id(self) -> str: ...
    @property
    def stage(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def trace_id(self) -> str: ...

    @property
    def saved(self) -> Any:
        """The last checkpoint, of an earlier attempt or this one; None at first."""

    @property
    def cancelled(self) -> bool:
        """Whether to stop: an operator cancelled the job, or the lease is lost."""

    @property
    def stopping(self) -> bool:
        """Whether the process is to end soon: save a checkpoint and raise Retry(0)."""

    def checkpoint(self, data: Any, progress: float | None = None) -> None:
        """Keep any JSON to go on from, and move the deadline of the attempt."""

    def progress(self, percent: float) -> None:
        """Show how far it is, 0 to 100; that moves the deadline, too."""


class Retry(Exception):
    """Try again, after this time or by the type's policy; the attempt counts."""

    def __init__(self, after: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason or "the handler asked for another try")
        self.after = None if after is None else _wait(after)


class Fail(Exception):
    """Fail finally, whatever attempts are left."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Cancelled(Exception):
    """The handler saw `ctx.cancelled` and stopped."""

    def __init__(self, reason: str = "cancelled as asked for") -> None:
        super().__init__(reason)


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
