"""Real processes that a test starts, watches and ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
STOP_SECONDS = 60.0

T = TypeVar("T")


def eventually(condition: Callable[[], T], *, seconds: float = 60.0, pause: float = 0.02) -> T:
    """The first true answer of the condition; AssertionError when none comes in time."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {condition}"
        time.sleep(pause)
    return answer


_kept_ports = contextlib.ExitStack()
atexit.register(_kept_ports.close)


def free_port() -> int:
    """A port of 127.0.0.1 that is the caller's as long as this process runs.

    It stays bound, so that nobody else is given it while a server of the test is down; a server
    takes it all the same, because it may use again an address at which nobody listens.
    """
    kept = _kept_ports.enter_context(socket.socket())
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept.getsockname()[1]


def usual_signals(ignored: signal.Signals | None = None) -> Callable[[], None]:
    """What a process that a test starts runs before its command: signals mean what they usually do,
    but the ignored one, although the tests may run under nohup."""

    def prepare() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number == ignored else signal.SIG_DFL)

    return prepare


class RunningProcess:
    """A command in a process group of its own; output goes to a file.

    `prepare` is what it runs before the command, `usual_signals` if there is nothing else; `root`
    is the folder of the project whose code it runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        prepare: Callable[[], None] | None = None,
        *,
        root: Path = ROOT,
    ) -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=prepare or usual_signals(),
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        """What it has written so far, to standard output and error."""
        return self._log.read_text(errors="replace")

    def await_output(self, text: str, *, seconds: float = 60.0) -> str:
        """Wait until it has written the text; all output. AssertionError when it ends without."""

        def has_come() -> bool:
            ended = self.process.poll() is not None
            if text in self.output:
                return True
            assert not ended, f"ended with {self.process.returncode}:\n{self.output}"
            return False

        eventually(has_come, seconds=seconds)
        return self.output

    def lives(self) -> bool:
        """Whether any process of the group is left."""
        self.process.poll()
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def signal_all(self, number: int) -> None:
        """Send a signal to every process of the group, as the terminal sends Ctrl-C."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def end(self) -> None:
        """Ask the first process to stop and the group to be gone; AssertionError when it is not."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            eventually(lambda: not self.lives(), seconds=STOP_SECONDS)
        finally:
            self.signal_all(signal.SIGKILL)
            self.process.wait()
