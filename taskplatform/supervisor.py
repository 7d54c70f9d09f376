"""Keeps the processes of one machine running, and leaves none behind when it ends.

It knows nothing of what they do: a part is a name and a command. Each part runs in a session of
its own, so that Ctrl-C reaches the supervisor alone, which then stops the parts in good order. What
they print goes to `<logs>/<name>.log`; errors are repeated on the terminal.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from taskplatform.processes import (
    adopt_orphans,
    bury,
    bury_orphans,
    end_with_parent,
    kill_group,
    on_stop,
)

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
# How long the parts that lead have to end before the others are told too.
HEAD_START_SECONDS = 5.0
FIRST_DELAY = 1.0
LONGEST_DELAY = 30.0
MAX_DEATHS = 5
DEATHS_WITHIN = 60.0
# Longer than the death of what was killed takes.
GONE_SECONDS = 5.0
LOG_BYTES = 5_000_000
LOG_FILES = 4
LONGEST_LINE = 65_536

_REPEAT_SECONDS = 60.0
# As `apps.common.logs` writes it for people.
_ERROR_AS_TEXT = re.compile(rb"[0-9T:.-]{23}Z (?:ERROR|CRITICAL) \S+: (.*)")
_LONGEST_MESSAGE = 300
# Ids as Celery makes them, and counts.
_NUMBERS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")


@dataclass(frozen=True)
class Part:
    """One process to keep running. Those that lead are up before the others start, and have ended
    before the others are told to. One that may die does so as often as what it needs is away or the
    code of others kills it: it starts again, and the others go on."""

    name: str
    command: Sequence[str]
    leads: bool = False
    may_die: bool = False


class RotatingLog:
    """An append-only file that takes at most LOG_FILES * LOG_BYTES with its predecessors.

    `write` never raises: a full disk must not end what is being logged. `failure` says what it was.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure = ""
        self._fd: int | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        try:
            fd = self._open()
            self._size += os.write(fd, data)
            if self._size >= LOG_BYTES:
                self._rotate()
            self.failure = ""
        except OSError as error:
            self.failure = error.strerror or str(error)

    def _open(self) -> int:
        if self._fd is None:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
            self._size = os.fstat(self._fd).st_size
        return self._fd

    def _rotate(self) -> None:
        self.close()
        for number in range(LOG_FILES - 1, 0, -1):
            newer = self.path if number == 1 else self._older(number - 1)
            if newer.exists():
                newer.replace(self._older(number))

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class Child:
    """A part and the process that plays it at the moment, if any."""

    def __init__(self, part: Part, log: RotatingLog, tell: Callable[[str], None]) -> None:
        self.part = part
        self.log = log
        self.start_at = 0.0
        self.last_line = ""
        self._tell = tell
        self._process: subprocess.Popen[bytes] | None = None
        self._unfinished = b""
        self._deaths: deque[float] = deque(maxlen=MAX_DEATHS)
        self._told_at: dict[str, float] = {}

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> int:
        """Start the process; the file descriptor of what it prints."""
        self._process = subprocess.Popen(  # noqa: S603
            self.part.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent(os.getpid()),
        )
        assert self._process.stdout is not None  # noqa: S101
        os.set_blocking(self._process.stdout.fileno(), False)
        return self._process.stdout.fileno()

    def read(self) -> bool:
        """Log what the process has printed since, and repeat its errors on the terminal; False
        when it can print no more."""
        assert self._process is not None and self._process.stdout is not None  # noqa: S101
        try:
            while data := os.read(self._process.stdout.fileno(), LONGEST_LINE):
                self._take(data)
        except BlockingIOError:
            return True
        return False

    def _take(self, data: bytes) -> None:
        self.log.write(data)
        if self.log.failure:
            self._repeat(f"cannot write {self.log.path}: {self.log.failure}")
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        self._unfinished = self._unfinished[-LONGEST_LINE:]
        for line in filter(None, map(bytes.strip, lines)):
            self.last_line = _shown(line.decode(errors="replace"))
            problem = problem_of(line)
            if problem:
                self._repeat(problem)

    def _repeat(self, problem: str) -> None:
        """Once a minute is enough for a problem that differs from an earlier one by a count or an
        id."""
        now = time.monotonic()
        self._told_at = {
            kind: at for kind, at in self._told_at.items() if now - at < _REPEAT_SECONDS
        }
        kind = _NUMBERS.sub("0", problem)
        if kind not in self._told_at:
            self._told_at[kind] = now
            self._tell(f"{self.part.name}: {problem}")

    @property
    def pid(self) -> int:
        """0 when it is down."""
        return 0 if self._process is None else self._process.pid

    def has_ended(self) -> int | None:
        """The exit code if the process has ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    def clear(self) -> None:
        """Forget an ended process, and await the end of what it may have left running in its
        session: killed, that still has its port for a while, and could outlive a supervisor."""
        assert self._process is not None and self._process.stdout is not None  # noqa: S101
        deadline = time.monotonic() + GONE_SECONDS
        while kill_group(self._process.pid) and time.monotonic() < deadline:
            bury(self._process.pid)
            time.sleep(0.005)
        self.read()
        self._unfinished = b""
        self._process.stdout.close()
        self._process = None

    def note_death(self) -> float | None:
        """Seconds to wait before the next start; None when it has died too often."""
        now = time.monotonic()
        self._deaths.append(now)
        too_often = len(self._deaths) == MAX_DEATHS and now - self._deaths[0] < DEATHS_WITHIN
        if too_often and not self.part.may_die:
            return None
        recent = sum(1 for at in self._deaths if now - at < DEATHS_WITHIN)
        delay = min(FIRST_DELAY * 2.0 ** (recent - 1), LONGEST_DELAY)
        self.start_at = now + delay
        return delay

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """kill -9 for the process and all it started."""
        if self._process is not None:
            kill_group(self._process.pid)


class Supervisor:
    """Runs the parts until it is told to stop. Use it in the main thread: signals and the tie
    between the life of a part and that of its parent belong to threads."""

    def __init__(self, parts: Sequence[Part], *, logs: Path, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._children = [
            Child(part, RotatingLog(logs / f"{part.name}.log"), tell) for part in parts
        ]
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._stop_requests = 0
        self._ready = False

    def run(self, *, is_ready: Callable[[], bool], on_ready: Callable[[], None]) -> int:
        """Start the parts that lead, and once `is_ready` says so the others; call `on_ready` and
        keep all of them running.

        The exit code: 0 after SIGTERM, SIGINT or SIGHUP; 1 when a part cannot be kept running or
        nothing became ready within READY_SECONDS. No part is left running in either case. The
        signal handlers stay, so that a late Ctrl-C does not break off the end.
        """
        self._listen()
        try:
            return self._supervise(is_ready, on_ready)
        finally:
            self._stop()
            for child in self._children:
                child.log.close()
            signal.set_wakeup_fd(-1)
            self._selector.close()
            self._wake_reader.close()
            self._wake_writer.close()

    def _listen(self) -> None:
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        on_stop(self._request_stop)
        adopt_orphans()

    def _request_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stop_requests += 1

    def _supervise(self, is_ready: Callable[[], bool], on_ready: Callable[[], None]) -> int:
        ready_by = time.monotonic() + READY_SECONDS
        while not self._stop_requests:
            self._start([child for child in self._children if self._ready or child.part.leads])
            self._wait(1.0 if self._ready else 0.05)
            bury_orphans({child.pid for child in self._children})
            if not all(self._lives_on(child) for child in self._children):
                return 1
            if not self._ready and is_ready():
                self._ready = True
                self._start(self._children)
                on_ready()
            if not self._ready and time.monotonic() > ready_by:
                self._tell(
                    f"Nothing answers after {READY_SECONDS:.0f} s; stopping everything. The logs "
                    f"are in {self._children[0].log.path.parent}"
                )
                return 1
        return 0

    def _start(self, children: Sequence[Child]) -> None:
        """Start those that do not run, unless they have to wait because they died."""
        for child in children:
            if not child.is_running and child.start_at <= time.monotonic():
                self._selector.register(child.start(), selectors.EVENT_READ, child)

    def _lives_on(self, child: Child) -> bool:
        """False when the child has ended once too often; an end is told on the terminal."""
        code = child.has_ended()
        if code is None:
            return True
        self._forget(child)
        delay = child.note_death()
        if delay is None:
            what = f"for the {MAX_DEATHS}th time within a minute; stopping everything"
        else:
            what = f"and starts again in {delay:.0f} s"
        self._tell(
            f"{child.part.name} {_told_code(code)} {what}. Its last line was: "
            f"{child.last_line or 'none'} All of them are in {child.log.path}"
        )
        return delay is not None

    def _forget(self, child: Child) -> None:
        self._unwatch(child)
        child.clear()

    def _unwatch(self, child: Child) -> None:
        for key in list(self._selector.get_map().values()):
            if key.data is child:
                self._selector.unregister(key.fileobj)

    def _wait(self, seconds: float) -> None:
        """Until something was printed, a signal came or the time is over; logs what was printed."""
        for key, _events in self._selector.select(seconds):
            if key.fileobj is self._wake_reader:
                with suppress(BlockingIOError):
                    while self._wake_reader.recv(4096):
                        continue
            elif not key.data.read():
                self._unwatch(key.data)

    def _stop(self) -> None:
        """End every part: the first ones, then the others, and by force what is left then."""
        requests = self._stop_requests
        began = time.monotonic()
        leaders = [child for child in self._children if child.part.leads]
        others = [child for child in self._children if not child.part.leads]
        for group, seconds in ((leaders, HEAD_START_SECONDS), (others, STOP_SECONDS)):
            for child in group:
                # What never answered has nothing to finish, and granian loses a signal that comes
                # while it loads.
                child.terminate() if self._ready else child.kill()
            # A second Ctrl-C is the wish to wait no longer.
            while self._stop_requests == requests and time.monotonic() - began < seconds:
                for child in self._children:
                    if child.has_ended() is not None:
                        self._forget(child)
                waited_for = leaders if group is leaders else self._children
                if not any(child.is_running for child in waited_for):
                    break
                self._wait(0.1)
        for child in self._children:
            if child.is_running:
                self._tell(f"{child.part.name} did not stop by itself and is killed.")
                child.kill()
                while child.has_ended() is None:
                    self._wait(0.1)
                self._forget(child)


def problem_of(line: bytes) -> str:
    """What the terminal shows of one log line: the message of an error, "" for anything else."""
    if told := _ERROR_AS_TEXT.match(line):
        return _shown(told[1].decode(errors="replace"))
    if not line.startswith(b"{"):
        return ""
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(entry, dict) or entry.get("level") not in {"ERROR", "CRITICAL"}:
        return ""
    cause = str(entry.get("exception", "")).strip().rpartition("\n")[2]
    return _shown(": ".join(filter(None, [str(entry.get("message", "")), cause])))


def _shown(text: str) -> str:
    """Text on one line without anything that a terminal would obey, cut to a bearable length."""
    clean = "".join(sign if sign.isprintable() else " " for sign in text)
    return clean if len(clean) <= _LONGEST_MESSAGE else clean[:_LONGEST_MESSAGE] + "…"


def _told_code(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with code {code}"
