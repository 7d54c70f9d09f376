"""Workers on other machines that die or freeze, at every step of a job. I27-I31, F2, F3."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from taskplatform import sdk
from tests.processes import RunningProcess, eventually, free_port
from tests.serving import Web
from tests.workers import Workers, make_type

Outside = Callable[..., RunningProcess]

LEASE_SECONDS = 3
# How often leases are looked at, and two seconds for the rest, beside other tests.
SWEEP_SECONDS = 1 + 2
# In the order of an attempt: the job is held and the worker does not know yet; before the handler;
# in it; after it; before the report is sent; the report is taken and the worker does not know yet.
STEPS = ("hold", "start", "run", "end", "report", "answer")
# Serves the types that it is told; at its step, it is stopped by the signal.
WORKER = f"""
import signal, threading
import sdk
name, step, how, *types = sys.argv[1:]
worker = sdk.Worker(os.environ["URL"], os.environ["KEY"], name, lease_seconds={LEASE_SECONDS})
send = sdk.Client._send

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())

def reach(where):
    if where == step:
        say("at", where)
        # Itself first: another thread would let it go on for a moment.
        signal.pthread_kill(threading.get_ident(), getattr(signal, how))

def sent(client, path, payload, method):
    is_report = path.endswith("settle/")
    if is_report:
        reach("report")
    raw = send(client, path, payload, method)
    if is_report:
        reach("answer")
    elif path.endswith("hold/") and b'"lease_token"' in raw.content:
        reach("hold")
    return raw

def run(job):
    say("run", job.id)
    reach("run")
    try:
        while name != "healthy" and step == "run":
            job.checkpoint("late")
    except sdk.LeaseLost:
        say("lost", job.id)
        raise
    return {{"by": name}}

sdk.Client._send = sent
worker.before(lambda job: reach("start"))
worker.after(lambda job: reach("end"))
for each in types:
    worker.handler(each)(run)
worker.run()
say("over")
"""

MANY = """
import threading
from sdk import Worker
worker = Worker(os.environ["URL"], os.environ["KEY"], sys.argv[1], threads=4)

@worker.handler("many")
def many(job):
    os.write(1, f"run {job.id}\\n".encode())
    threading.Event().wait(0.02)

worker.run()
"""


@pytest.fixture
def submit(client: sdk.Client, workers: Workers) -> Callable[..., dict[str, str]]:
    """One job for each step, of a type of its own, under sweeps that run; their ids."""

    def submitted(max_attempts: int) -> dict[str, str]:
        workers.sweeps().await_output(" ready.")
        ids = {}
        for step in STEPS:
            make_type(client, step, max_attempts=max_attempts, retry_delay_seconds=0)
            ids[step] = client.submit(step).id
        return ids

    return submitted


def state_of(process: RunningProcess) -> str:
    """T: stopped."""
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0]


@contextmanager
def frozen(outside: Outside) -> Iterator[dict[str, RunningProcess]]:
    """A worker that has stopped at each step; at the end all of them go on."""
    processes = {step: outside(WORKER, step, step, "SIGSTOP", step) for step in STEPS}
    try:
        for step, process in processes.items():
            process.await_output(f"at {step}")
            eventually(lambda process=process: state_of(process) == "T")
        yield processes
    finally:
        for process in processes.values():
            os.kill(process.pid, signal.SIGCONT)


def final(client: sdk.Client, ids: Mapping[str, str]) -> dict[str, sdk.Job]:
    """The jobs when all of them are over."""

    def read() -> dict[str, sdk.Job]:
        jobs = {step: client.job(number) for step, number in ids.items()}
        return jobs if all(job.is_final for job in jobs.values()) else {}

    return eventually(read)


def runs(process: RunningProcess) -> list[str]:
    """The ids of the jobs whose handlers it has begun."""
    return [line.split()[1] for line in process.output.splitlines() if line.startswith("run ")]


def lost_at(client: sdk.Client, number: str) -> datetime:
    """When the attempt of the dead worker was ended."""
    read = client._call(f"/jobs/{number}/journal/", None, lambda answer: answer.body["results"])
    [instant] = [entry["at"] for entry in read if entry["event"] == "lost"]
    return sdk._instant(instant)


@pytest.mark.long
def test_frozen_worker_is_replaced_and_its_outcome_refused(
    submit: Callable[..., dict[str, str]],
    client: sdk.Client,
    outside: Outside,
    workers: Workers,
    manage: Callable[..., Any],
) -> None:
    """I30, I31, F3: each job has one end, that of the worker which had the lease."""
    ids = submit(max_attempts=2)
    with frozen(outside) as sick:
        healthy = outside(WORKER, "healthy", "nowhere", "SIGSTOP", *STEPS)
        ends = {step: (job.status, job.result) for step, job in final(client, ids).items()}

    expected = {step: ("succeeded", {"by": "healthy"}) for step in STEPS}
    assert ends == {**expected, "answer": ("succeeded", {"by": "answer"})}
    sick["run"].await_output(f"lost {ids['run']}")
    for process in sick.values():
        os.kill(process.pid, signal.SIGTERM)
        process.await_output("over")
    # Each has said what it had to say, and nothing has come of it.
    assert {step: client.job(number).result for step, number in ids.items()} == {
        step: result for step, (_, result) in ends.items()
    }
    for step, number in ids.items():
        told = [each for each in workers.events(int(number)) if each != "stale"]
        assert told == (["succeeded"] if step == "answer" else ["lost", "succeeded"])
        assert ("lease_lost" in sick[step].output) == (step != "answer")
    assert "stale" in workers.events(int(ids["report"]))
    assert runs(sick["hold"]) == []
    assert sorted(runs(healthy)) == sorted(set(ids.values()) - {ids["answer"]})
    assert manage("audit").returncode == 0


@pytest.mark.parametrize("max_attempts", [pytest.param(1, marks=pytest.mark.long), 2])
def test_killed_worker_is_replaced_as_soon_as_its_lease_is_over(
    submit: Callable[..., dict[str, str]],
    client: sdk.Client,
    outside: Outside,
    manage: Callable[..., Any],
    max_attempts: int,
) -> None:
    """S2.1, I28, I29, F2: no job starts more often than it may; what was reported stands."""
    ids = submit(max_attempts)
    sick = {step: outside(WORKER, step, step, "SIGKILL", step) for step in STEPS}
    for process in sick.values():
        process.process.wait(60)
    killed_at = time.time()
    healthy = outside(WORKER, "healthy", "nowhere", "SIGKILL", *STEPS)

    jobs = final(client, ids)

    assert jobs.pop("answer").result == {"by": "answer"}
    expected = "succeeded" if max_attempts == 2 else "failed"
    assert {(job.status, job.attempts) for job in jobs.values()} == {(expected, max_attempts)}
    begun = [*runs(healthy), *(each for process in sick.values() for each in runs(process))]
    assert max(map(begun.count, begun)) <= max_attempts
    latest = max(lost_at(client, job.id) for job in jobs.values())
    assert latest.timestamp() <= killed_at + LEASE_SECONDS + SWEEP_SECONDS
    assert manage("audit").returncode == 0


@pytest.mark.long
def test_web_server_that_is_killed_again_and_again_loses_and_doubles_nothing(
    start: Callable[..., RunningProcess],
    key: str,
    outside_at: Callable[..., RunningProcess],
    workers: Workers,
    manage: Callable[..., Any],
) -> None:
    """I40, I41, F1: workers repeat what was not answered, with the same words."""
    web = Web(start, free_port())
    with sdk.Client(web.url, key, give_up_after=60) as client:
        make_type(client, "many", lease_seconds=120)
        client.submit_many([{"type": "many", "context": {"n": n}} for n in range(1000)])
    outsiders = [outside_at(web.url, MANY, name) for name in ("one", "two")]
    for _ in range(4):
        seen = sum(len(runs(each)) for each in outsiders)
        eventually(lambda seen=seen: sum(len(runs(each)) for each in outsiders) > seen + 20)
        web.kill()
        web.begin()

    assert workers.settled() == {"succeeded": 1000}
    begun = [number for each in outsiders for number in runs(each)]
    assert len(begun) == len(set(begun)) == 1000
    assert workers.rows("SELECT DISTINCT attempts FROM jobs_job") == [(1,)]
    assert manage("audit").returncode == 0
