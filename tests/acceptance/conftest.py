"""Real processes with an environment, a folder and a database of their own."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.environment import neutral
from tests.processes import ROOT, RunningProcess

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "REDIS_URL")


@pytest.fixture
def fresh_database(tmp_path: Path) -> Iterator[str]:
    """DATABASE_URL of an empty database: a file, or in the run on MariaDB one on that server."""
    url = os.environ["DATABASE_URL"]
    if not url:
        yield f"sqlite:///{tmp_path / 'fresh.sqlite3'}"
        return
    import MySQLdb

    name = f"test_taskplatform_{secrets.token_hex(4)}"
    address = urlsplit(url)
    connection = MySQLdb.connect(
        host=address.hostname, port=address.port, user=address.username, password=address.password
    )
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        yield address._replace(path=f"/{name}").geturl()
        cursor.execute(f"DROP DATABASE {name}")


@pytest.fixture
def environment(tmp_path: Path, fresh_database: str) -> dict[str, str]:
    """What a process of the platform needs, and nothing that the shell of the tests adds."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**kept, **neutral(tmp_path / "var"), "DATABASE_URL": fresh_database}


@pytest.fixture
def manage(environment: Mapping[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`manage("migrate")` runs manage.py to its end: `.returncode`, `.stdout`, `.stderr`."""

    def manage(*arguments: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    return manage


@pytest.fixture
def start(
    environment: Mapping[str, str], tmp_path: Path
) -> Iterator[Callable[..., RunningProcess]]:
    """`start("granian", …, PORT="8123")` runs a command; what is left at the end is stopped.

    The test fails when a process does not stop on SIGTERM or leaves others behind.
    """
    with contextlib.ExitStack() as ends:

        def start(*command: str, **variables: str) -> RunningProcess:
            log = tmp_path / f"process-{secrets.token_hex(4)}.log"
            process = RunningProcess(command, {**environment, **variables}, log)
            ends.callback(process.end)
            return process

        yield start
