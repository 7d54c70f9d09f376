"""What a long handler is given beside the job's context."""

from __future__ import annotations

from typing import Any, Protocol


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
        """Whether to stop: somebody asked for it, or the job is another worker's by now."""

    @property
    def stopping(self) -> bool:
        """Whether the process is to end soon: save a checkpoint and raise Retry(0)."""

    def checkpoint(self, data: Any, progress: float | None = None) -> None:
        """Keep any JSON to go on from, and begin the time until the hard end anew."""

    def progress(self, percent: float) -> None:
        """Show how far it is, 0 to 100; that, too, begins the time until the hard end anew."""
