"""The worker for other machines: how it ends, by itself, by signals and without a server."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from taskplatform import sdk
from tests.processes import RunningProcess, eventually
from tests.stub_jobs import Jobs, ended, job, running, worker_of
from tests.stub_server import KEY, Stub

PROGRAM = """
import signal, sys
sys.path.insert(0, {folder!r})
from sdk import Fail, Later, NextStage, Retry, Worker
import threading
worker = Worker({url!r}, {key!r}, name="pi-1", threads=2, stop_seconds={seconds})

@worker.handler("mail")
def mail(job):
    print("at work on", job.id, flush=True)
    while not (job.stopping and job.id == "polite"):
        threading.Event().wait(0.01)
    return "ended politely"

worker.run()
default = [signal.SIG_DFL, signal.default_int_handler]
assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == default
print("the end", flush=True)
"""

Program = Callable[..., RunningProcess]


@pytest.fixture
def program(stub: Stub, tmp_path: Path) -> Iterator[Program]:
    """Starts a worker in a process of its own, with a copy of the file."""
    started: list[RunningProcess] = []
    (tmp_path / "sdk.py").write_text(Path(sdk.__file__).read_text())

    def start(seconds: float) -> RunningProcess:
        values = {"folder": str(tmp_path), "url": stub.url, "key": KEY, "seconds": seconds}
        command = [sys.executable, "-I", "-S", "-W", "error", "-c", PROGRAM.format(**values)]
        started.append(RunningProcess(command, {}, tmp_path / "program.log"))
        return started[-1]

    yield start
    for process in started:
        process.signal_all(signal.SIGKILL)
        process.process.wait()


def test_stop_lets_handlers_end_and_releases_what_has_not_begun(
    jobs: Jobs, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "_UNSTARTED", 60.0)
    worker = worker_of(stub, threads=1)

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> str | None:
        if held.id == "1":
            return None
        # No hold is under way then, whose answer would release it as well.
        jobs.retry_after = 30.0
        eventually(lambda: worker._hold_at > time.monotonic() + 5)
        worker.stop()
        eventually(lambda: len(jobs.outcomes) == 2)
        return "stopping" if held.stopping else "not told"

    jobs.has(job("1"))
    with running(worker) as thread:
        jobs.await_outcomes()
        jobs.has(job("2"), job("3"))
        thread.join(20)
        assert not thread.is_alive()
    _, released, ended = jobs.await_outcomes(3)
    assert released == {"id": "3", "outcome": "released"}
    assert ended == {"id": "2", "outcome": "succeeded", "result": "stopping"}
    [left] = jobs.calls("workers/leave/")
    assert left.body == {"name": "pi-1"}
    assert stub.seen[-1] is left


@pytest.mark.parametrize(
    ("later", "outcome"),
    [
        (timedelta(0), {"outcome": "released"}),
        (timedelta(hours=1), {"outcome": "yielded", "delay": 3600}),
    ],
)
def test_job_put_off_while_the_worker_stops_keeps_its_checkpoint(
    jobs: Jobs, worker: sdk.Worker, later: timedelta, outcome: dict[str, object]
) -> None:
    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        worker.stop()
        held.checkpoint({"part": 3})
        raise sdk.Later(later)

    [found] = ended(worker, jobs, job("7"))
    assert found == {"id": "7", **outcome, "checkpoint": {"part": 3}}


def test_job_whose_handler_does_not_end_is_put_back_and_uses_up_no_attempt(
    jobs: Jobs, stub: Stub
) -> None:
    worker = worker_of(stub, stop_seconds=0.2)
    at_work, may_end, heard = threading.Event(), threading.Event(), list[str]()

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        held.checkpoint({"part": 3})
        at_work.set()
        may_end.wait(20)
        try:
            held.checkpoint({"part": 4})
        except sdk.LeaseLost:
            heard.append("lost")

    jobs.has(job("7"))
    with running(worker) as thread:
        assert at_work.wait(20)
        worker.stop()
        thread.join(20)
        assert not thread.is_alive()
    assert jobs.await_outcomes() == [
        {
            "id": "7",
            "outcome": "interrupted",
            "delay": 5.0,
            "checkpoint": {"part": 3},
        }
    ]
    assert jobs.calls("workers/leave/")
    may_end.set()
    eventually(lambda: heard)
    assert len(jobs.outcomes) == 1


def test_worker_that_stops_says_so_and_goes_on_beating(jobs: Jobs, stub: Stub) -> None:
    jobs.heartbeat_seconds = 0.05
    worker = worker_of(stub)
    said: list[bool] = []

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        worker.stop()
        count = len(jobs.calls("workers/heartbeat/"))
        calls = jobs.await_calls("workers/heartbeat/", count + 3)
        said.append(calls[-1].body["stopping"])

    ended(worker, jobs, job("7"))
    assert said == [True]


def test_nothing_is_held_after_the_stop(jobs: Jobs, stub: Stub) -> None:
    worker = worker_of(stub, threads=1)

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        worker.stop()
        jobs.has(job("8"))

    jobs.has(job("7"))
    with running(worker) as thread:
        thread.join(20)
    assert [outcome["id"] for outcome in jobs.outcomes] == ["7"]
    assert len(jobs.ready) == 1


def test_what_was_held_just_before_the_stop_is_released(jobs: Jobs, stub: Stub) -> None:
    worker = worker_of(stub)
    worker.handler("mail")(lambda held: None)
    hold = jobs._hold

    def holds_while_it_stops(body: dict[str, object]) -> dict[str, object]:
        worker.stop()
        return hold(body)

    jobs._hold = holds_while_it_stops  # type: ignore[method-assign, assignment]
    assert ended(worker, jobs, job("7")) == [{"id": "7", "outcome": "released"}]
    assert len(jobs.outcomes) == 1


def test_server_that_stays_away_does_not_keep_a_worker(
    jobs: Jobs, stub: Stub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sdk, "_DELIVERY", 0.2)
    worker = worker_of(stub)

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        jobs.away.set()
        worker.stop()

    jobs.has(job("7"))
    with running(worker) as thread:
        thread.join(20)
        assert not thread.is_alive()
    assert jobs.outcomes == []
    assert "stops with 1 reports" in caplog.text


def test_stop_before_the_run_ends_it(jobs: Jobs, stub: Stub) -> None:
    worker = worker_of(stub)
    worker.handler("mail")(lambda held: None)
    worker.stop()
    worker.run()
    assert jobs.calls("jobs/hold/") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_worker_in_good_order(
    jobs: Jobs, program: Program, number: signal.Signals
) -> None:
    jobs.has(job("polite"))
    process = program(20)
    process.await_output("at work on polite")
    process.process.send_signal(number)
    process.await_output("the end")
    assert process.process.wait() == 0
    lines = process.output.splitlines()
    assert "pi-1 stops: 1 job may run on for at most 20 s; Ctrl-C again ends it at once" in lines
    assert lines[-2:] == ["pi-1 stopped; 0 jobs went back", "the end"]
    [outcome] = jobs.await_outcomes()
    assert outcome == {"id": "polite", "outcome": "succeeded", "result": "ended politely"}
    assert jobs.calls("workers/leave/")


def test_job_that_a_signal_left_undone_is_put_back(jobs: Jobs, program: Program) -> None:
    jobs.has(job("stubborn"))
    process = program(0.2)
    process.await_output("at work on stubborn")
    process.process.send_signal(signal.SIGTERM)
    process.await_output("pi-1 stopped; 1 job went back")
    assert process.process.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_the_process_at_once(
    jobs: Jobs, program: Program, number: signal.Signals
) -> None:
    jobs.has(job("stubborn"))
    jobs.heartbeat_seconds = 0.05
    process = program(600)
    process.await_output("at work on stubborn")
    jobs.await_calls("workers/heartbeat/")
    process.process.send_signal(number)
    eventually(lambda: jobs.calls("workers/heartbeat/")[-1].body["stopping"])
    process.process.send_signal(number)
    assert process.process.wait(20) == -number
    assert jobs.outcomes == []
    assert "Traceback" not in process.output
