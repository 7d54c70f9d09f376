"""Workers on other machines against the real API: each in a process of its own, with a copy of the
client and without the project's packages."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from taskplatform import sdk
from tests.processes import RunningProcess, eventually
from tests.stub_jobs import running
from tests.workers import Workers, make_type

Manage = Callable[..., subprocess.CompletedProcess[str]]
Outside = Callable[..., RunningProcess]

COUNT = 1000
WORKER = """
import threading
from sdk import Worker
worker = Worker(os.environ["URL"], os.environ["KEY"], sys.argv[1], threads=4, lease_seconds=3)

@worker.handler("sdk-many")
def many(job):
    os.write(1, f"run {job.id}\\n".encode())
    threading.Event().wait(0.01)
    return {"n": job.context["n"]}

@worker.handler("sdk-parts")
def parts(job):
    os.write(1, f"attempt {job.attempt} goes on from {job.saved}\\n".encode())
    for part in range(job.saved or 0, 5):
        if part == 3 and job.attempt == 1:
            threading.Event().wait()
        job.checkpoint(part + 1, progress=20 * (part + 1), now=True)
        os.write(1, f"kept {part + 1}\\n".encode())
    return {"parts": job.saved}

worker.run()
os.write(1, b"the end\\n")
"""


@pytest.mark.both
def test_every_job_ends_once_though_a_worker_is_killed(
    client: sdk.Client,
    workers: Workers,
    outside: Outside,
    manage: Manage,
) -> None:
    """S2.1, I27, I29: the workers that ran them speak HTTP alone."""
    workers.sweeps()
    make_type(client, "sdk-many", max_attempts=5, retry_delay_seconds=1)
    client.submit_many([{"type": "sdk-many", "context": {"n": n}} for n in range(COUNT)])
    killed, other = outside(WORKER, "killed"), outside(WORKER, "other")
    eventually(lambda: killed.output.count("run") > 50 and other.output.count("run") > 50)
    os.kill(killed.pid, signal.SIGKILL)

    assert workers.settled() == {"succeeded": COUNT}
    ends = workers.rows(
        "SELECT COUNT(*), COUNT(DISTINCT subject_id) FROM journal_journalentry "
        "WHERE source = 'job' AND event = 'succeeded'"
    )
    assert ends == [(COUNT, COUNT)]
    runs = [line.split()[1] for line in other.output.splitlines() if line.startswith("run")]
    assert len(runs) == len(set(runs))
    assert manage("audit").returncode == 0


@pytest.mark.long
def test_killed_worker_s_job_goes_on_from_its_checkpoint(
    client: sdk.Client, workers: Workers, outside: Outside
) -> None:
    workers.sweeps()
    make_type(client, "sdk-parts", retry_delay_seconds=1)
    submitted = client.submit("sdk-parts")
    first = outside(WORKER, "first")
    first.await_output("kept 3")
    os.kill(first.pid, signal.SIGKILL)
    assert client.job(submitted.id).progress == 60

    second = outside(WORKER, "second")
    second.await_output("attempt 2 goes on from 3")
    eventually(lambda: client.job(submitted.id).is_final)
    second.process.terminate()
    second.await_output("the end")
    job = client.job(submitted.id)
    assert (job.status, job.result) == ("succeeded", {"parts": 5})


def test_job_put_off_while_its_worker_stops_uses_up_no_attempt(
    client: sdk.Client, url: str, key: str
) -> None:
    make_type(client, "sdk-stops", max_attempts=1)
    first, second = (sdk.Worker(url, key, name) for name in ("first", "second"))

    @first.handler("sdk-stops")
    def begins(job: sdk.HeldJob) -> None:
        first.stop()
        job.checkpoint("begun")
        raise sdk.Later(timedelta(0))

    @second.handler("sdk-stops")
    def ends(job: sdk.HeldJob) -> Any:
        return {"saved": job.saved, "attempt": job.attempt}

    submitted = client.submit("sdk-stops")
    first.run()
    assert client.job(submitted.id).attempts == 0
    with running(second):
        job = eventually(lambda: (job := client.job(submitted.id)).is_final and job)
    assert (job.status, job.result) == ("succeeded", {"saved": "begun", "attempt": 1})


def test_each_way_to_end_is_understood(client: sdk.Client, url: str, key: str) -> None:
    make_type(client, "sdk-ends", stages=["cut", "mix"], max_attempts=2)
    worker = sdk.Worker(url, key, threads=4)
    waits = threading.Event()

    @worker.handler("sdk-ends")
    def ends(job: sdk.HeldJob) -> Any:
        way = job.context["way"]
        if way == "stage" and job.stage == "cut":
            return sdk.NextStage("mix", {"way": "stage", "cut": 1}, priority=3)
        if way == "later" and job.saved is None:
            job.checkpoint("seen")
            raise sdk.Later(timedelta(seconds=1))
        if way == "retry" and job.attempt == 1:
            job.checkpoint("again")
            raise sdk.Retry(after=0.2)
        if way == "fail":
            raise sdk.Fail("wrong address")
        if way == "raise":
            raise sdk.Retry(after=0, reason="still wrong")
        while way == "cancel":
            waits.set()
            job.progress(10)
        return {"saved": job.saved, "attempt": job.attempt, "stage": job.stage}

    names = ("stage", "later", "retry", "fail", "raise", "cancel", "plain")
    submitted = {way: client.submit("sdk-ends", {"way": way}).id for way in names}
    with running(worker):
        assert waits.wait(60)
        path = f"/jobs/{submitted['cancel']}/cancel/"
        client._call(path, {"reason": "not wanted"}, lambda answer: None)
        jobs = {
            way: eventually(lambda way=way: (job := client.job(submitted[way])).is_final and job)
            for way in names
        }

    assert {way: job.status for way, job in jobs.items()} == {
        **dict.fromkeys(names, "succeeded"),
        **{"fail": "failed", "raise": "failed", "cancel": "cancelled"},
    }
    assert jobs["plain"].result == {"saved": None, "attempt": 1, "stage": "cut"}
    assert jobs["stage"].result == {"saved": None, "attempt": 1, "stage": "mix"}
    assert (jobs["stage"].context["cut"], jobs["stage"].priority) == (1, 3)
    assert jobs["later"].result == {"saved": "seen", "attempt": 1, "stage": "cut"}
    assert jobs["retry"].result == {"saved": "again", "attempt": 2, "stage": "cut"}
    assert "wrong address" in jobs["fail"].memo
    assert (jobs["raise"].attempts, jobs["fail"].attempts) == (2, 1)
