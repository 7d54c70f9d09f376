"""Celery workers as an operator starts them, with a database of their own to look into."""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import sqlite3
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from apps.jobs.rules.transitions import FINAL
from taskplatform import sdk
from tests import forks
from tests.databases import execute_mysql
from tests.processes import ROOT, RunningProcess, eventually

CELERY = (sys.executable, "-m", "celery", "-A", "taskplatform", "worker")
_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO")
_DRAIN = """
import sys
from taskplatform.celery import app
app.send_task("jobs.drain", args=[sys.argv[1]], queue=sys.argv[1])
"""


def rows(database_url: str, sql: str) -> list[tuple[Any, ...]]:
    """The answer of a database, on a connection that nobody else uses."""
    if not database_url.startswith("sqlite"):
        return execute_mysql(database_url, sql)
    address = database_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(address, timeout=20)) as connection:
        return list(connection.execute(sql))


def _submit(jobs: Sequence[dict[str, Any]]) -> None:
    from apps.jobs.runner.worker import verify
    from apps.jobs.services.submit import Submission, submit_many

    # As EXTRA_APPS does in the workers.
    importlib.import_module("tests.poison.handlers")
    verify()
    made = submit_many([Submission(**each) for each in jobs])
    print(json.dumps([each.id for each in made]))  # noqa: T201


def make_type(client: sdk.Client, name: str, **settings: Any) -> None:
    """A type for workers over HTTP alone."""
    client._call("/job-types/", {"name": name, **settings}, lambda answer: None)


class Workers:
    """Sweeps with beat, and drains under either pool; `start` is the fixture of that name."""

    def __init__(
        self, start: Callable[..., RunningProcess], environment: Mapping[str, str]
    ) -> None:
        self.environment = {**environment, "EXTRA_APPS": "tests.poison"}
        self._start = start

    def sweeps(self, **variables: str) -> RunningProcess:
        options = ("--pool", "threads", "-c", "2", "--beat", "-Q", "sweeps", "-n", "sweeps@%h")
        return self._run(*options, **variables)

    def drains(
        self, *, pool: str = "prefork", slots: int = 2, name: str = "drains", **variables: str
    ) -> RunningProcess:
        return self._run(
            *("--pool", pool, "-c", str(slots), "-Q", "fast,slow", "-n", f"{name}@%h"), **variables
        )

    def _run(self, *options: str, **variables: str) -> RunningProcess:
        return self._start(
            *CELERY, *_QUIET, *options, **{"EXTRA_APPS": "tests.poison", **variables}
        )

    def submit(self, *jobs: dict[str, Any]) -> list[int]:
        """Submit jobs in a process of their own; their numbers."""
        done = forks.forked(self.environment, partial(_submit, jobs))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def send_drain(self, lane: str) -> None:
        """Send the message that starts a drain, as the scan does."""
        subprocess.run(
            [sys.executable, "-c", _DRAIN, lane],
            cwd=ROOT,
            env={**self.environment, "DJANGO_SETTINGS_MODULE": "taskplatform.settings"},
            timeout=120,
            check=True,
        )

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The answer of the database."""
        return rows(self.environment["DATABASE_URL"], sql)

    def job(self, number: int) -> tuple[str, int, str]:
        """Status, attempts and memo of a job."""
        [row] = self.rows(f"SELECT status, attempts, memo FROM jobs_job WHERE id = {number}")
        return row  # type: ignore[return-value]

    def statuses(self) -> dict[str, int]:
        """How many jobs there are in each status."""
        return dict(self.rows("SELECT status, COUNT(*) FROM jobs_job GROUP BY status"))

    def ends(self) -> Counter[int]:
        """How often each job has ended for good, by the journal."""
        final = ", ".join(f"'{status}'" for status in FINAL)
        return Counter(
            number
            for (number,) in self.rows(
                "SELECT subject_id FROM journal_journalentry "
                f"WHERE source = 'job' AND to_state IN ({final}) AND from_state <> to_state"
            )
        )

    def open(self) -> int:
        """How many jobs have not ended."""
        return sum(count for status, count in self.statuses().items() if status not in FINAL)

    def events(self, number: int) -> list[str]:
        """The journal of a job, ordered by name: the clocks of two processes may differ by more
        milliseconds than lie between two entries."""
        sql = f"SELECT event FROM journal_journalentry WHERE subject_id = {number} ORDER BY event"
        return [row[0] for row in self.rows(sql)]

    def losses(self) -> set[str]:
        """The reasons for which workers were lost, from the journal."""
        sql = "SELECT reason FROM journal_journalentry WHERE source = 'worker' AND event = 'lost'"
        return {row[0] for row in self.rows(sql)}

    def processes(self) -> list[int]:
        """The processes that the register has as active."""
        living = "SELECT pid FROM jobs_worker WHERE state = 'active' ORDER BY pid"
        return [row[0] for row in self.rows(living)]

    def settled(self, *, seconds: float = 90.0) -> dict[str, int]:
        """Wait until no job is open; how many ended in each way."""

        def is_over() -> dict[str, int]:
            found = self.statuses()
            return found if set(found) <= set(FINAL) else {}

        return eventually(is_over, seconds=seconds)


def traces(file: Path) -> list[int]:
    """The process ids that handlers have written, in order."""
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended but was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in text.split() if int(each) != os.getpid()]


def unread(pids: Collection[int]) -> set[str]:
    """Those pipes of the processes in which something waits to be read."""
    found = set()
    for file in (each for pid in pids for each in Path(f"/proc/{pid}/fd").iterdir()):
        pipe = file.readlink()
        if pipe.name.startswith("pipe:"):
            end = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
            try:
                waiting = fcntl.ioctl(end, termios.FIONREAD, bytes(4))
            finally:
                os.close(end)
            if any(waiting):
                found.add(pipe.name)
    return found
