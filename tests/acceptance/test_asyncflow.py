"""Workers of asyncflow that know nothing of this platform, each in a process of its own. S2.12."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from taskplatform import sdk
from tests.processes import ROOT, RunningProcess, eventually, free_port
from tests.serving import await_answer, server_command, status_of
from tests.workers import Workers

Manage = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., RunningProcess]

COUNT = 120
COPIES = 3
# The platform follows the clock of the database, and a worker reads its own a moment later.
CLOCKS = 0.1
# Dialects meet the database in the same way, so one of them stands for all in the short run.
G1, JAVA, API = (pytest.param(name, marks=pytest.mark.long) for name in ("g1", "java", "api"))
# Their addresses are written into them, so they can carry no key.
WITHOUT_KEY = {"g1", "java"}


class Run(NamedTuple):
    """One run of a stage, as the worker saw it."""

    task: str
    stage: str
    tries: int
    began: float
    ended: float


class Fleet:
    """The platform with one type, and copies of a worker of one dialect."""

    def __init__(self, name: str, start: Start, key: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self.workers = Workers(start, environment)
        self._start = start
        self.key = key
        client_id, _, secret = self.key.partition(".")
        port, local = free_port(), free_port()
        variables = {"ASYNCFLOW_INTERVAL": "1", "ASYNCFLOW_PORTS": f"{name}:{local}"}
        if name in WITHOUT_KEY:
            variables["ASYNCFLOW_LOOPBACK_CLIENT"] = client_id
        _, command = server_command(port)
        await_answer(start(*command, **variables), port)
        self.address = f"http://{client_id}:{secret}@127.0.0.1:{port}/asyncflow"
        self.address += "" if name == "api" else f"/{name}"
        if name in WITHOUT_KEY:
            served = [sys.executable, str(ROOT / "manage.py"), "web", "--asyncflow", name]
            start(*served, **variables)
            eventually(lambda: status_of(local, "/x") == 404)
            self.address = f"http://127.0.0.1:{local}"
        self.client = sdk.Client(f"http://127.0.0.1:{port}", self.key)

    def has_type(self, name: str, **settings: Any) -> None:
        values = {"name": name, "stages": ["*"], "retry_jitter": 0, **settings}
        self.client._call("/job-types/", values, lambda answer: None)

    def submit(self, type_: str, contexts: list[dict[str, Any]]) -> None:
        """As their applications do: the context is a text."""
        texts = [{"task_context": json.dumps(each)} for each in contexts]
        jobs = [{"type": type_, "stage": "one", "context": each} for each in texts]
        self.client.submit_many(jobs)

    def copy(self, type_: str) -> RunningProcess:
        worker = str(ROOT / "tests" / "asyncflow_worker.py")
        return self._start(sys.executable, "-I", "-S", worker, self.name, self.address, type_)


def runs_of(copies: list[RunningProcess]) -> list[Run]:
    lines = [line.split() for copy in copies for line in copy.output.splitlines()]
    return [
        Run(task.split("h")[0], stage, int(tries), float(began), float(ended))
        for word, task, stage, tries, began, ended in (line for line in lines if line[0] == "run")
        if word
    ]


def codes_of(copies: list[RunningProcess]) -> set[str]:
    lines = [line.split() for copy in copies for line in copy.output.splitlines()]
    return {line[2] for line in lines if line[0] == "set"} | {
        line[0] for line in lines if line[0] == "refused"
    }


@pytest.fixture
def fleet(
    request: pytest.FixtureRequest, start: Start, key: str, environment: Mapping[str, str]
) -> Iterator[Fleet]:
    fleet = Fleet(request.param, start, key, environment)
    with fleet.client:
        yield fleet


@pytest.mark.parametrize("fleet", ["g2", G1, JAVA, API], indirect=True)
def test_copies_of_a_worker_end_each_task_of_two_stages_once(fleet: Fleet, manage: Manage) -> None:
    """S2.12, S2.15, S2.17: with their own server and without their lock most are run twice."""
    fleet.has_type("lark", max_attempts=3, retry_delay_seconds=1)
    fails = [99 if n % 30 == 0 else 1 if n % 10 == 0 else 0 for n in range(COUNT)]
    fleet.submit("lark", [{"n": n, "fails": count} for n, count in enumerate(fails)])
    copies = [fleet.copy("lark") for _ in range(COPIES)]

    ended = fleet.workers.settled()

    assert ended == {"succeeded": COUNT - fails.count(99), "failed": fails.count(99)}
    # A copy prints its run before the report that ends it, and the answer after.
    eventually(lambda: sum(copy.output.count("set") for copy in copies) == len(runs_of(copies)))
    assert codes_of(copies) == {"0"}
    by_task = defaultdict[str, list[Run]](list)
    for run in sorted(runs_of(copies), key=lambda run: run.began):
        by_task[run.task].append(run)
    assert len(by_task) == COUNT
    for runs in by_task.values():
        stages = [(run.stage, run.tries) for run in runs]
        assert stages in (
            [("one", 0), ("two", 0)],
            [("one", 0), ("one", 1), ("two", 0)],
            [("one", 0), ("one", 1), ("one", 2)],
        )
        for before, after in pairwise(runs):
            # One at a time, and after a failure not before its delay. Some workers tell it in
            # whole seconds.
            delay = 2**before.tries - 1 if before.stage == after.stage else 0
            assert after.began >= before.ended + delay - CLOCKS
    finals = fleet.workers.rows(
        "SELECT COUNT(*), COUNT(DISTINCT subject_id) FROM journal_journalentry "
        "WHERE source = 'job' AND to_state IN ('succeeded', 'failed')"
    )
    assert finals == [(COUNT, COUNT)]
    assert all(copy.process.poll() is None for copy in copies)
    assert manage("audit").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("fleet", ["g2", "java"], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_tasks_of_a_worker_that_is_gone_are_run_by_another(fleet: Fleet, how: int) -> None:
    """S2.12, S2.16: such a worker sends no heartbeat, so its tasks come back at their deadline.
    What it reports when it thaws changes nothing."""
    fleet.workers.sweeps()
    fleet.has_type("naps", max_attempts=3, retry_delay_seconds=1, max_processing_seconds=4)
    fleet.submit("naps", [{"n": n, "naps": 2 if how == signal.SIGSTOP else 600} for n in range(5)])
    gone = fleet.copy("naps")
    eventually(lambda: fleet.workers.statuses() == {"running": 5})
    held = time.monotonic()
    os.kill(gone.pid, how)

    other = fleet.copy("naps")
    assert fleet.workers.settled() == {"succeeded": 5}

    assert time.monotonic() - held > 2
    assert {(run.stage, run.tries) for run in runs_of([other])} == {("one", 1), ("two", 0)}
    assert len(runs_of([other])) == 10
    assert codes_of([other]) == {"0"}
    if how == signal.SIGSTOP:
        os.kill(gone.pid, signal.SIGCONT)
        # Java's would die of a refusal; Go's tries twice and goes on.
        tried = 5 if fleet.name == "java" else 10
        eventually(lambda: gone.output.count("set") == tried)
        assert codes_of([gone]) == ({"0"} if fleet.name == "java" else {"8041"})
        assert gone.process.poll() is None
        [[stale]] = fleet.workers.rows(
            "SELECT COUNT(*) FROM journal_journalentry WHERE event = 'stale'"
        )
        assert stale == 5
    assert fleet.workers.statuses() == {"succeeded": 5}


@pytest.mark.parametrize("fleet", ["g2"], indirect=True)
def test_worker_of_an_unknown_type_or_with_a_wrong_key_does_not_start(fleet: Fleet) -> None:
    """S2.13: what is refused is taken for a refusal, not for an empty list."""
    unknown = fleet.copy("mail")
    eventually(lambda: unknown.process.poll() is not None)
    assert "no settings of mail" in unknown.output
    fleet.address = fleet.address.replace(fleet.key.partition(".")[2], "wrong")
    refused = fleet.copy("mail")
    eventually(lambda: refused.process.poll() is not None)
    assert "Refused: 8020" in refused.output
