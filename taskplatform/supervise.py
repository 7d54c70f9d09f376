"""The supervisor without Django that `manage.py serve` becomes once the machine is set up.

The set-up needs the whole platform in memory, some 100 MB that nothing would use afterwards. So the
process replaces itself: same number, same terminal, same signals, and the plan comes in
an open file without a name.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

from taskplatform.supervisor import STOP_SIGNALS, Part, Supervisor

# `manage.py` handles it before Django; the file descriptor of the plan follows.
COMMAND = [sys.executable, str(Path(__file__).parent.parent / "manage.py"), "serve", "--plan"]


@dataclass(frozen=True)
class Plan:
    """The parts to keep running, and the greeting once they answer.

    `host`, `port` and `headers` are those of the web process as it is asked whether it lives.
    """

    parts: Sequence[Part]
    logs: str
    host: str
    port: int
    headers: Mapping[str, str]
    greeting: str
    # How long handlers may go on after a stop.
    handler_seconds: float = 0.0

    def answers(self) -> bool:
        """Whether the web process answers; it does so before it is ready for everything."""
        client = http.client.HTTPConnection(self.host, self.port, timeout=2.0)
        try:
            client.request("GET", "/health/live", headers=dict(self.headers))
            return client.getresponse().status < 500
        except (OSError, http.client.HTTPException):
            return False
        finally:
            client.close()

    def run(self) -> int:
        """Run the parts until a signal stops them; the exit code, as of `Supervisor.run`."""
        supervisor = Supervisor(
            self.parts,
            logs=Path(self.logs),
            handler_seconds=self.handler_seconds,
            show=lambda line: show(f"{time.strftime('%H:%M:%S')} {line}"),
        )
        return supervisor.run(is_ready=self.answers, on_ready=self._greet)

    def _greet(self) -> None:
        with suppress(OSError):
            sys.stdout.write(f"{self.greeting}\n")
            sys.stdout.flush()


def show(line: str) -> None:
    """Print a line on the terminal. A closed terminal does not stop the parts."""
    with suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def become_supervisor(plan: Plan, *, lock: int) -> NoReturn:
    """Replace this process by one that runs the plan and keeps the open file `lock`. Signals that
    come meanwhile wait for it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    # A file without a name: a pipe would stand still at a plan of many parts.
    with TemporaryFile("w+") as file:
        json.dump(asdict(plan), file)
        file.seek(0)
        reader = os.dup(file.fileno())
    os.set_inheritable(reader, True)
    os.set_inheritable(lock, True)
    sys.stdout.flush()
    os.execv(COMMAND[0], [*COMMAND, str(reader)])  # noqa: S606


def main(descriptor: str) -> int:
    """Run the plan that `become_supervisor` handed over; the exit code."""
    with open(int(descriptor)) as pipe:
        terms = json.load(pipe)
    plan = Plan(**{**terms, "parts": [Part(**part) for part in terms["parts"]]})
    try:
        code = plan.run()
    except OSError as error:
        show(f"{error.filename or plan.logs}: {error.strerror or error}")
        code = 1
    # While the interpreter ends, one more would be the exit code.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return code
