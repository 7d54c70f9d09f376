"""How a handler says that its attempt ends otherwise than by a result or an accident."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

MAX_WAIT = timedelta(days=366)


class Retry(Exception):
    """Try again, after so many seconds or by the type's policy; the attempt counts."""

    def __init__(self, after: float | timedelta | None = None, reason: str = "") -> None:
        super().__init__(reason or "the handler asked for another try")
        self.after = None if after is None else _wait(after)


class Fail(Exception):
    """Fail for good, whatever attempts are left."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Cancelled(Exception):
    """The wish to cancel was seen (`ctx.cancelled`) and obeyed."""

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
