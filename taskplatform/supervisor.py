"""Keeps the processes of one machine running: starts, logs, restarts and stops them.

A part is a name and a command. Each runs in a session of its own, so that Ctrl-C reaches only the
supervisor, which then stops the parts in order. Output goes to `<logs>/<name>.log`; errors are
repeated on the terminal.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import IO

from apps.common.error_lines import line_of_text

READY_SECONDS = 60.0
# How long the leading parts have to stop before the others are asked to, and all parts together.
HEAD_START_SECONDS = 5.0
STOP_SECONDS = 10.0
# A part that lived for so long starts again after the first delay.
HEALTHY_SECONDS = 60.0
FIRST_DELAY = 1.0
MAX_DELAY = 30.0
# How often the leading parts are asked whether they answer, and for how long they may not: longer
# than a database may keep all their threads waiting.
CHECK_SECONDS = 5.0
FROZEN_SECONDS = 60.0
# How long killed processes may take to release their ports and pipes.
GONE_SECONDS = 5.0
# Ctrl-C this soon after a stop signal is the same request: the terminal signals the whole group.
SAME_REQUEST_SECONDS = 1.0
LOG_BYTES = 5_000_000
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOG_FILES = 4

_POLL_SECONDS = 0.05
# The same while everything runs. A part that died waits longer for its next start.
_QUIET_POLL_SECONDS = 0.25
_MAX_LINE = 65_536
_MAX_MESSAGE = 300
_REPEAT_SECONDS = 60.0
# An error as `apps.common.logs` writes it for people.
_ERROR_AS_TEXT = re.compile(r"[0-9T:.-]{23}Z (?:ERROR|CRITICAL) \S+: (.*)")
# Ids as Celery makes them, and counts.
_NUMBERS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Part:
    """One process to keep running. Leading parts start and stop before the others.

    `variables` are those of the environment that only this part has.
    """

    name: str
    command: Sequence[str]
    leads: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


class PartLog(RotatingFileHandler):
    """The log of a part. An error such as a full disk is kept in `failure` and stops nothing."""

    failure = ""

    def write(self, line: str) -> None:
        self.failure = ""
        self.handle(logging.makeLogRecord({"msg": line}))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        error = sys.exc_info()[1]
        self.failure = getattr(error, "strerror", None) or str(error)
        # The next line opens the file again, without what could not be written.
        with suppress(OSError):
            self.close()


class Child:
    """A part with its current process, if any."""

    def __init__(self, part: Part, logs: Path, show: Callable[[str], None]) -> None:
        self.part = part
        self.last_line = ""
        self.log = PartLog(
            logs / f"{part.name}.log",
            maxBytes=LOG_BYTES,
            backupCount=LOG_FILES - 1,
            encoding="utf-8",
            delay=True,
        )
        self._show = show
        self._shown_at: dict[str, float] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: Thread | None = None
        self._started_at = 0.0
        self._start_at = 0.0
        self.delay = 0.0

    @property
    def age(self) -> float:
        """Seconds since its process was started, 0 when it has none."""
        return time.monotonic() - self._started_at if self.is_running else 0.0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start_when_due(self) -> None:
        """Start the process, unless it has to wait because it died."""
        if self._process is not None or time.monotonic() < self._start_at:
            return
        self._process = subprocess.Popen(  # noqa: S603
            self.part.command,
            env={**os.environ, **self.part.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent(os.getpid()),
        )
        assert self._process.stdout is not None  # noqa: S101
        self._started_at = time.monotonic()
        self._reader = Thread(target=self._read, args=[self._process.stdout], daemon=True)
        self._reader.start()

    def _read(self, output: IO[bytes]) -> None:
        with output:
            while line := output.readline(_MAX_LINE):
                self.take(line.decode(errors="backslashreplace").rstrip("\r\n"))

    def take(self, line: str) -> None:
        """Log a line, and show it on the terminal when it is an error."""
        self.log.write(line)
        if self.log.failure:
            self._show_once(f"cannot write {self.log.baseFilename}: {self.log.failure}")
        if line.strip():
            self.last_line = _printable(line.strip())
        if problem := problem_of(line):
            self._show_once(problem)

    def _show_once(self, problem: str) -> None:
        """Show a problem once a minute at most; those that differ only in counts or ids are one."""
        now = time.monotonic()
        kind = _NUMBERS.sub("0", problem)
        if now - self._shown_at.get(kind, -_REPEAT_SECONDS) >= _REPEAT_SECONDS:
            recent = {each: at for each, at in self._shown_at.items() if now - at < _REPEAT_SECONDS}
            self._shown_at = {**recent, kind: now}
            self._show(f"{self.part.name}: {problem}")

    def take_death(self) -> str:
        """Clean up after a process that ended and schedule the next start; how it ended, or ""."""
        if self._process is None or self._process.poll() is None:
            return ""
        code = self._process.returncode
        self.kill()
        self._schedule()
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with code {code}"

    def _schedule(self) -> None:
        now = time.monotonic()
        if now - self._started_at >= HEALTHY_SECONDS:
            self.delay = 0.0
        self.delay = min(self.delay * 2, MAX_DELAY) or FIRST_DELAY
        self._start_at = now + self.delay

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def end(self) -> None:
        """Kill the process and all it started; `take_death` then has it started again."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def kill(self) -> None:
        """Kill the process and all it started, and wait until they are gone."""
        if self._process is None or self._reader is None:
            return
        self.end()
        # The pipe ends with the last process that holds it.
        self._reader.join(GONE_SECONDS)
        self._process = None


class Supervisor:
    """Runs the parts until a signal stops them. For the main thread, which receives signals."""

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        logs: Path,
        show: Callable[[str], None],
        handler_seconds: float = 0.0,
    ) -> None:
        self._logs = logs
        self._handler_seconds = handler_seconds
        self._show = show
        self._children = [Child(part, logs, show) for part in parts]
        self._leaders = [child for child in self._children if child.part.leads]
        self._stop_requests = 0
        self._is_ready = False
        self._silent_since: float | None = None

    def run(self, *, is_ready: Callable[[], bool], on_ready: Callable[[], None]) -> int:
        """Start the leading parts, once `is_ready` the others, and keep all of them running.

        The exit code: 0 after SIGTERM, SIGINT or SIGHUP; 1 when the start fails. No part is left
        running. The signal handlers stay, so that a late Ctrl-C does not interrupt the end.
        """
        on_stop(self._request_stop)
        try:
            problem = self._start(is_ready)
            if problem:
                self._show(f"{problem}; stopping everything. The logs are in {self._logs}")
                return 1
            if not self._stop_requests:
                self._is_ready = True
                on_ready()
                Thread(target=self._watch, args=[is_ready], daemon=True).start()
            while not self._stop_requests:
                self._keep_running()
                time.sleep(_QUIET_POLL_SECONDS)
            return 0
        finally:
            self._stop()
            for child in self._children:
                child.log.close()

    def _request_stop(self) -> None:
        self._stop_requests += 1

    def _start(self, is_ready: Callable[[], bool]) -> str:
        """Wait for the leading parts; returns the problem, or ""."""
        ready_by = time.monotonic() + READY_SECONDS
        for child in self._leaders:
            child.start_when_due()
        while not self._stop_requests and not is_ready():
            for child in self._leaders:
                if end := child.take_death():
                    return f"{child.part.name} {end}. Its last line: {child.last_line or 'none'}"
            if time.monotonic() > ready_by:
                return f"Nothing answers after {READY_SECONDS:.0f} s"
            time.sleep(_POLL_SECONDS)
        return ""

    def _watch(self, answers: Callable[[], bool]) -> None:
        """Note since when the leading parts do not answer. In a thread: asking takes its time."""
        while not self._stop_requests:
            if answers():
                self._silent_since = None
            elif self._silent_since is None:
                self._silent_since = time.monotonic()
            time.sleep(CHECK_SECONDS)

    def _end_frozen(self) -> None:
        """Kill leading parts that live and do not answer."""
        since = self._silent_since
        if since is None or time.monotonic() - since < FROZEN_SECONDS:
            return
        self._silent_since = None
        for child in self._leaders:
            if child.age >= FROZEN_SECONDS:
                self._show(f"{child.part.name} has not answered for {FROZEN_SECONDS:.0f} s.")
                child.end()

    def _keep_running(self) -> None:
        self._end_frozen()
        for child in self._children:
            if end := child.take_death():
                self._show(
                    f"{child.part.name} {end} and starts again in {child.delay:.0f} s. Its last "
                    f"line: {child.last_line or 'none'} (log: {child.log.baseFilename})"
                )
            child.start_when_due()

    def _stop(self) -> None:
        """Stop the leading parts, then the others, and kill what is left after STOP_SECONDS and the
        time that handlers have."""
        requests = self._stop_requests
        began = time.monotonic()
        seconds_of_all = self._handler_seconds + STOP_SECONDS
        for group, awaited, seconds in (
            (self._leaders, self._leaders, HEAD_START_SECONDS),
            (set(self._children) - set(self._leaders), self._children, seconds_of_all),
        ):
            for child in group:
                # A part that is still starting has nothing to finish, and granian loses a SIGTERM
                # that comes while it loads.
                child.terminate() if self._is_ready else child.kill()
            while (
                any(child.is_running for child in awaited)
                # A second Ctrl-C ends the wait.
                and self._stop_requests == requests
                and time.monotonic() - began < seconds
            ):
                time.sleep(_POLL_SECONDS)
        for child in self._children:
            if child.is_running:
                self._show(f"{child.part.name} did not stop by itself and is killed.")
            child.kill()


def on_stop(call: Callable[[], None]) -> None:
    """Call the function at the first SIGINT, SIGTERM or SIGHUP, and at each later Ctrl-C.

    Further SIGTERMs say nothing new, whenever they come: systemd signals every process of the unit,
    and `make` passes its own on. A service manager that loses patience sends SIGKILL.
    """
    requested_at: float | None = None

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal requested_at
        now = time.monotonic()
        again = number == signal.SIGINT
        if requested_at is None or (again and now - requested_at >= SAME_REQUEST_SECONDS):
            requested_at = now
            call()

    for number in STOP_SIGNALS:
        # nohup ignores SIGHUP on purpose. A shell has background commands ignore SIGINT too, but
        # then kill -INT would do nothing.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    # Take the signals that came before there was a handler.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def end_with_parent(parent: int) -> Callable[[], None]:
    """The function that a child runs before its command: SIGTERM comes when the parent ends, so
    that kill -9 of the parent leaves nothing running. Signals keep their usual meaning, also under
    nohup."""
    # Resolved here: little is safe between fork and exec.
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def prepare() -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

    return prepare


def problem_of(line: str) -> str:
    """The message of an error in a log line, "" for any other line."""
    if match := _ERROR_AS_TEXT.match(line):
        return _printable(match[1])
    if not line.startswith("{"):
        return ""
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(entry, dict) or entry.get("level") not in {"ERROR", "CRITICAL"}:
        return ""
    cause = line_of_text(str(entry.get("exception", "")))
    return _printable(": ".join(filter(None, [str(entry.get("message", "")), cause])))


def _printable(text: str) -> str:
    """Text on one line without control characters, cut to _MAX_MESSAGE."""
    clean = "".join(sign if sign.isprintable() else " " for sign in text)
    return clean if len(clean) <= _MAX_MESSAGE else clean[:_MAX_MESSAGE] + "…"
