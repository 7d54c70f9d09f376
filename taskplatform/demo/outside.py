"""Programs on other machines: processes that have sdk.py and a key, and nothing else of the
platform."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from apps.access import services as access
from taskplatform import sdk
from taskplatform.demo.company import ACTOR
from taskplatform.supervisor import STOP_SIGNALS, end_with_parent, on_stop

STOP_SECONDS = 40


@dataclass
class Outside:
    """The folder of a program, and its processes by the names that they were started with."""

    folder: Path
    key: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *arguments: str) -> None:
        """Start a process with these arguments, and the key in its environment as KEY."""
        self.processes[name] = subprocess.Popen(  # noqa: S603 - our own file, with our arguments
            [sys.executable, "program.py", *arguments],
            cwd=self.folder,
            env={**os.environ, "KEY": self.key},
            start_new_session=True,
            preexec_fn=end_with_parent(os.getpid()),
        )

    def kill(self, name: str) -> None:
        """End a process by SIGKILL, so that it can give nothing back."""
        self.processes[name].kill()

    def died(self) -> list[str]:
        """The processes that have ended."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def stop(self) -> None:
        """End the processes and wait for them."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _interrupt() -> None:
    raise KeyboardInterrupt


@contextmanager
def _interrupted_by_stops() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    on_stop(_interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def outside(program: str, **terms: Any) -> Iterator[Outside]:
    """A folder with a program of the demo, of which processes can be started; in the end these are
    stopped, and their key, which has these terms, is revoked; also after SIGTERM and when the
    terminal is closed."""
    with _interrupted_by_stops(), TemporaryDirectory() as name:
        client, key = access.create_client(actor=ACTOR, **terms)
        there = Outside(Path(name), key)
        shutil.copy(str(sdk.__file__), there.folder / "sdk.py")
        shutil.copy(Path(__file__).with_name(program), there.folder / "program.py")
        try:
            yield there
        finally:
            there.stop()
            access.revoke(client, actor=ACTOR, reason="The demo has ended.")
