"""How much of a core work takes: in this process, and in the database's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection

from apps.common.db import fetch

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Effort:
    """Seconds of a core. `counted` says whose: a server elsewhere is told by how long its answers
    took, which is the most that it can have worked on them alone."""

    counted: str
    client: float = 0.0
    server: float = 0.0

    @property
    def seconds(self) -> float:
        return self.client + self.server


@contextmanager
def measured() -> Iterator[Effort]:
    """What the work inside takes."""
    server = None if connection.vendor == "sqlite" else _server()
    waited = 0.0

    def wait(execute: Any, *arguments: Any) -> Any:
        nonlocal waited
        begun = time.perf_counter()
        try:
            return execute(*arguments)
        finally:
            waited += time.perf_counter() - begun

    if connection.vendor == "sqlite":
        effort = Effort("one process")
    else:
        effort = Effort("client + server" if server else "client + time of statements")
    began, server_began = time.process_time(), _used(server)
    with connection.execute_wrapper(wait):
        yield effort
    effort.client = time.process_time() - began
    if connection.vendor != "sqlite":
        effort.server = _used(server) - server_began if server else waited


def _server() -> int | None:
    """The database's process, when it is one of this machine that can be looked at."""
    [(pid_file,)] = fetch("SELECT @@pid_file")
    [(data,)] = fetch("SELECT @@datadir")
    try:
        pid = int(Path(data, pid_file).read_text())
        used = _used(pid)
    except (OSError, ValueError):
        return None
    return pid if used else None


def _used(pid: int | None) -> float:
    """Seconds of a core that the process has used so far."""
    if pid is None:
        return 0.0
    # The name in parentheses may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK
