"""The log of the attempt under way: lines of `ctx.log`, and of `logging` in the thread or context
that runs it. They are sent every two seconds, and the rest with its outcome."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar

from apps.jobs.rules.job_log import MAX_BYTES, LogLines, line
from apps.jobs.rules.outcome import HeldJob

FLUSH_SECONDS = 2.0

# The job whose handler runs in this context.
running: ContextVar[HeldJob | None] = ContextVar("running_job", default=None)


class AttemptLog:
    """The lines of one attempt that are not kept yet. The thread of the handler adds, another one
    sends."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = self._at = self._left_out = 0
        self._since = 0.0
        # A part whose storing was not answered may be stored.
        self._was_sent = False
        self._sending = threading.Lock()

    def add(self, at: float, text: str) -> None:
        """Add a text that was said then, in seconds since 1970."""
        if self._size > MAX_BYTES:
            self._left_out += 1
            return
        added = line(at, text)
        self._size += len(added)
        if not self._lines:
            self._since = time.monotonic()
        self._lines.append(added)

    def is_due(self, now: float) -> bool:
        """Whether its first line has waited long enough."""
        return bool(self._lines) and now - self._since >= FLUSH_SECONDS

    def send(self, keep: Callable[[LogLines], object]) -> None:
        """Store the lines by `keep`; when that raises, they stay here for the next time."""
        with self._sending:
            self._was_sent = True
            added = LogLines(self._lines[:], self._at)
            keep(added)
            self._at += len(added.lines)
            self._since = time.monotonic()
            del self._lines[: len(added.lines)]

    def rest(self) -> LogLines:
        """The lines that are not stored yet when the attempt ends."""
        with self._sending:
            return LogLines(self._lines[:], self._at, self._left_out, not self._was_sent)


def say(job: HeldJob, text: str, at: float | None = None) -> None:
    """Add the text to the log of the attempt."""
    log: AttemptLog | None = job.log
    if log is None:
        log = job.log = AttemptLog()
    log.add(time.time() if at is None else at, text)


def is_due(job: HeldJob, now: float) -> bool:
    """Whether some of its log has waited long enough."""
    log: AttemptLog | None = job.log
    return log is not None and log.is_due(now)


def rest_of(job: HeldJob) -> LogLines | None:
    """Return the lines that go with the end of its attempt; None when none are left."""
    log: AttemptLog | None = job.log
    return (log and log.rest()) or None


class AttemptLogHandler(logging.Handler):
    """Adds what is logged to the log of the attempt that logs it."""

    def __init__(self, level: int = logging.INFO) -> None:
        super().__init__(level)
        self.formatter = logging.Formatter("%(levelname)s %(name)s: %(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        job = running.get()
        if job is None:
            return
        try:
            say(job, self.format(record), record.created)
        except Exception:  # noqa: BLE001 - a record may have anything for its arguments
            self.handleError(record)
