"""The worker for other machines: its signs of life, and what it hears in their answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from taskplatform import sdk
from tests.processes import eventually
from tests.stub_jobs import AHEAD, Jobs, ended, job, running, worker_of
from tests.stub_server import Handler, Stub, problem


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints and progress do not wait a second for others."""
    monkeypatch.setattr(sdk, "_CHECKPOINT_AGE", 0.05)


def until_told(held: sdk.HeldJob, tell: Callable[[], None]) -> str:
    """Tell again and again; the name of what that raises at last."""
    while True:
        try:
            tell()
        except (sdk.Cancelled, sdk.LeaseLost) as error:
            return type(error).__name__
        threading.Event().wait(0.005)


def test_newest_checkpoint_and_progress_are_sent_with_a_sign_of_life(
    jobs: Jobs, worker: sdk.Worker
) -> None:
    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> int:
        first = held.saved
        held.checkpoint({"part": 1}, progress=20)
        held.checkpoint({"part": 2}, progress=140)
        assert held.saved == {"part": 2}
        eventually(lambda: jobs.signs)
        return first

    [outcome] = ended(worker, jobs, job("7", checkpoint=5, sequence=41))
    assert outcome["result"] == 5
    assert jobs.signs == [
        {
            "id": "7",
            "lease_token": "token-7",
            "progress": 100,
            "sequence": 43,
            "checkpoint": {"part": 2},
        }
    ]


def test_checkpoint_now_is_kept_when_it_returns(jobs: Jobs, worker: sdk.Worker) -> None:
    kept: list[Any] = []

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        for n in range(3):
            held.checkpoint(n, now=True)
            kept.append([sign["checkpoint"] for sign in jobs.signs])

    ended(worker, jobs, job("7"))
    assert kept == [[0], [0, 1], [0, 1, 2]]
    assert [sign["sequence"] for sign in jobs.signs] == [1, 2, 3]


def test_what_the_server_knows_is_not_sent_again(
    jobs: Jobs, worker: sdk.Worker, may_end: threading.Event
) -> None:
    jobs.lease_seconds = 0.8

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        held.checkpoint("a", progress=3, now=True)
        may_end.wait(20)

    jobs.has(job("7"))
    with running(worker):
        eventually(lambda: len(jobs.signs) >= 3)
        may_end.set()
        jobs.await_outcomes()
    assert jobs.signs[0]["checkpoint"] == "a"
    assert jobs.signs[1] == jobs.signs[2] == {"id": "7", "lease_token": "token-7"}


@pytest.mark.usefixtures("soon")
def test_progress_that_repeats_is_a_sign_of_its_own(jobs: Jobs, worker: sdk.Worker) -> None:
    """It moves the deadline of the attempt."""

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        held.progress(50)
        eventually(lambda: len(jobs.signs) == 1)
        held.progress(50)
        eventually(lambda: len(jobs.signs) == 2)

    ended(worker, jobs, job("7"))
    assert [sign["progress"] for sign in jobs.signs] == [50, 50]


def test_failure_takes_the_checkpoint_along_that_was_not_sent(
    jobs: Jobs, worker: sdk.Worker
) -> None:
    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        held.checkpoint({"part": 9})
        raise sdk.Retry(0, "moved")

    [outcome] = ended(worker, jobs, job("7"))
    assert jobs.signs == []
    assert (outcome["outcome"], outcome["checkpoint"]) == ("failed", {"part": 9})


@pytest.mark.parametrize("data", [{"at": {1}}, "x" * 300_000])
def test_checkpoint_that_cannot_be_sent_raises_in_the_handler(
    jobs: Jobs, worker: sdk.Worker, data: Any
) -> None:
    worker.handler("mail")(lambda held: held.checkpoint(data))
    [outcome] = ended(worker, jobs, job("7"))
    assert outcome["exception"] in ("builtins.TypeError", "builtins.ValueError")


@pytest.mark.usefixtures("soon")
def test_checkpoint_that_the_server_refuses_raises_only_with_now(
    jobs: Jobs, worker: sdk.Worker, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.sign_answers = {"code": "invalid", "message": "Nested too deeply."}

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> str:
        held.checkpoint([[]])
        eventually(lambda: "is not kept" in caplog.text)
        with pytest.raises(ValueError, match=r"Nested too deeply\."):
            held.checkpoint([[[]]], now=True)
        return "done"

    [outcome] = ended(worker, jobs, job("7"))
    assert outcome == {"id": "7", "outcome": "succeeded", "result": "done"}


def test_request_refused_for_a_checkpoint_is_sent_without(jobs: Jobs, worker: sdk.Worker) -> None:
    """The lease must not end for it."""
    jobs.fails("jobs/heartbeat/", problem(400, "bad_text"))

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        with pytest.raises(ValueError, match="bad_text"):
            held.checkpoint("a", now=True)

    ended(worker, jobs, job("7"))
    assert jobs.signs == [{"id": "7", "lease_token": "token-7"}]


def test_checkpoint_that_is_refused_takes_no_other_along(
    jobs: Jobs, stub: Stub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server takes no part of a heartbeat in which one cannot be stored."""
    usual, bad = jobs.usual, {"v": "\udcff"}

    def answer(handler: Handler) -> None:
        is_bad = any(each.get("checkpoint") == bad for each in handler.seen.body["leases"])
        (problem(400, "bad_text") if is_bad else usual)(handler)

    monkeypatch.setattr(jobs, "usual", answer)
    worker = worker_of(stub)
    said = sdk._Answer({"now": "2026-03-02T09:00:00Z"}, 0.0, time.monotonic())
    for n in range(9):
        body = job(str(n), lease_until="2026-03-02T09:00:30Z")
        held = worker._executor.held[str(n)] = sdk.HeldJob(body, said, worker._executor)
        held.checkpoint(bad if n in (3, 8) else {"n": n})
        held._beat_at = 0.0

    worker._beat_jobs()
    worker._beats.close()

    kept = {sign["id"]: sign.get("checkpoint") for sign in jobs.signs}
    assert kept == {str(n): None if n in (3, 8) else {"n": n} for n in range(9)}
    assert all(not held._unsent for held in worker._executor.held.values())
    assert caplog.text.count("is refused") == 2
    assert len(jobs.calls("jobs/heartbeat/")) < 20


@pytest.mark.usefixtures("soon")
def test_cancelled_job_hears_of_it(jobs: Jobs, worker: sdk.Worker) -> None:
    heard: list[Any] = []
    jobs.cancelled.add("7")

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        heard.append(until_told(held, lambda: held.progress(1)))
        heard.append((held.cancelled, held.lost))
        held.checkpoint(1)

    [outcome] = ended(worker, jobs, job("7"))
    assert heard == ["Cancelled", (True, False)]
    assert outcome == {"id": "7", "outcome": "cancelled", "memo": "cancelled as asked for"}


@pytest.mark.usefixtures("soon")
def test_outcome_of_a_lost_lease_is_dropped(
    jobs: Jobs, worker: sdk.Worker, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []
    jobs.lost.add("7")

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        if held.id == "7":
            heard.append(until_told(held, lambda: held.checkpoint(1)))
            heard.append(held.lost)
            with pytest.raises(sdk.LeaseLost, match="job 7 of type mail is no longer this"):
                held.checkpoint(1, now=True)

    jobs.has(job("7"))
    with running(worker):
        eventually(lambda: "its outcome succeeded is dropped" in caplog.text)
        jobs.has(job("8"))
        assert jobs.await_outcomes() == [{"id": "8", "outcome": "succeeded"}]
    assert heard == ["LeaseLost", True]


def test_checkpoint_now_without_an_answer_ends_with_the_lease(
    jobs: Jobs, worker: sdk.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "_LONGEST_PAUSE", 0.3)
    jobs.lease_seconds = 1.0

    # Also after the end of the lease: a heartbeat that arrives then would bring the checkpoint.
    jobs.fails("jobs/heartbeat/", *[problem(503, "unavailable")] * 1_000)

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        held.checkpoint(1, now=True)

    [outcome] = ended(worker, jobs, job("7"))
    assert outcome["exception"] == "taskplatform.sdk.Unavailable"
    assert outcome["checkpoint"] == 1


def test_lease_is_renewed_after_a_quarter_of_it(subtests: pytest.Subtests) -> None:
    """And after the usual pause at the latest, counted from when the server was asked."""
    executor = sdk._Executor(1)
    for until, seconds in (("00.4", 0.1), ("10", 2.5), ("59", executor.heartbeat)):
        with subtests.test(until=until):
            answer = sdk._Answer({"now": "2026-03-02T09:00:00Z"}, 0.0, sent_at=1000.0)
            held = sdk.HeldJob(job("7", lease_until=f"2026-03-02T09:00:{until}Z"), answer, executor)
            assert held._beat_at == pytest.approx(1000 + seconds)


def test_short_lease_is_renewed_for_as_long(
    jobs: Jobs, stub: Stub, may_end: threading.Event
) -> None:
    worker = worker_of(stub, lease_seconds=1)
    jobs.lease_seconds = 0.4
    worker.handler("mail")(lambda held: may_end.wait(20))
    jobs.has(job("7"))
    with running(worker):
        calls = jobs.await_calls("jobs/heartbeat/", 5)
        may_end.set()
        jobs.await_outcomes()
    pauses = [later.at - earlier.at for earlier, later in pairwise(calls)]
    assert jobs.calls("jobs/hold/")[0].body["lease_seconds"] == 1
    assert jobs.signs[-1] == {"id": "7", "lease_token": "token-7", "lease_seconds": 1}
    # After one that came late, the next may follow at once.
    assert sum(pauses) > len(pauses) * 0.05


def test_nothing_starts_late_in_its_lease_wherever_the_clocks_are(jobs: Jobs, stub: Stub) -> None:
    """The stub's clock is a day ahead; the second job waits for the thread of the first."""
    worker = worker_of(stub, threads=1)
    started: list[str] = []

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        started.append(held.id)
        if held.id == "2":
            eventually(lambda: time.monotonic() > held._lease_end)

    jobs.lease_seconds = 0.4
    jobs.has(job("1"))
    with running(worker):
        jobs.await_outcomes()
        jobs.fails("jobs/heartbeat/", *[problem(503, "unavailable")] * 99)
        jobs.has(job("2"), job("3"))
        outcomes = {each["id"]: each["outcome"] for each in jobs.await_outcomes(3)}
    assert started == ["1", "2"]
    assert outcomes == {"1": "succeeded", "2": "succeeded", "3": "released"}


def test_operator_quiets_and_resumes_a_worker(jobs: Jobs, worker: sdk.Worker) -> None:
    jobs.heartbeat_seconds = 0.05
    jobs.is_quiet = True
    worker.handler("mail")(lambda held: None)
    jobs.has(job("7"))
    with running(worker):
        beats = jobs.await_calls("workers/heartbeat/", 4)
        assert jobs.calls("jobs/hold/") == []
        jobs.is_quiet = False
        jobs.await_outcomes()
    assert beats[0].body == {"name": "pi-1", "running": 0, "stopping": False}


def test_worker_that_the_server_forgot_registers_again(jobs: Jobs, worker: sdk.Worker) -> None:
    jobs.heartbeat_seconds = 0.05
    jobs.fails("workers/heartbeat/", problem(404, "not_found"))
    worker.handler("mail")(lambda held: None)
    with running(worker):
        first, second = jobs.await_calls("workers/register/", 2)
        jobs.await_calls("workers/heartbeat/", 3)
    assert first.body == second.body
    assert len(jobs.calls("workers/register/")) == 2


def test_log_is_sent_with_signs_of_life_and_the_rest_with_the_outcome(
    jobs: Jobs, worker: sdk.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clock of the server, and each line once; it moves no deadline."""
    monkeypatch.setattr(sdk, "_LINE_AGE", 0.05)

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        held.progress(5)
        held.log("one \x00\ud800")
        eventually(lambda: len(jobs.signs) == 1 and not held._lines)
        held.log("two")
        eventually(lambda: len(jobs.signs) == 2 and not held._lines)
        monkeypatch.setattr(sdk, "_LINE_AGE", 60)
        held.log("three")
        for _ in range(30):
            held.log("x" * 100_000)

    [outcome] = ended(worker, jobs, job("7"))
    first, second = jobs.signs
    tomorrow = f"{datetime.now(UTC) + AHEAD:%Y-%m-%dT}"
    assert first["log"][0].startswith(tomorrow)
    assert [line.partition(" ")[2] for line in first["log"] + second["log"]] == [
        "one \ufffd?",
        "two",
    ]
    assert (first["log_at"], second["log_at"], outcome["log_at"]) == (0, 1, 2)
    assert "progress" not in second
    assert outcome["log"][0].endswith("Z three")
    assert len(outcome["log"]) + outcome["log_left_out"] == 31
    assert sum(map(len, outcome["log"])) < 80_000


def test_log_takes_no_place_from_a_result(jobs: Jobs, worker: sdk.Worker) -> None:
    result = "r" * 230_000

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> str:
        for _ in range(60):
            held.log("\u2713" * 1000)
        return result

    [outcome] = ended(worker, jobs, job("7"))
    assert outcome["result"] == result
    assert len(json.dumps(outcome)) < 256 * 1024
    assert outcome["log_left_out"] > 0


def test_log_that_is_refused_costs_no_job(
    jobs: Jobs, worker: sdk.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older server knows of no logs; beside a large result one may be too much."""
    usual = jobs.usual
    monkeypatch.setattr(sdk, "_LINE_AGE", 0.05)

    def answer(handler: Handler) -> None:
        body = handler.seen.body
        parts = [*body.get("leases", ()), *body.get("outcomes", ())]
        has_log = any("log" in part for part in parts)
        if has_log and "outcomes" in body:
            # A sign of life finds out first, while the outcome is on its way.
            eventually(lambda: jobs.signs)
        (problem(400, "unknown_field") if has_log else usual)(handler)

    monkeypatch.setattr(jobs, "usual", answer)

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> str:
        held.log("one")
        if held.id == "7":
            eventually(lambda: jobs.signs)
            held.log("two")
        held.checkpoint("kept", now=held.id == "7")
        return "sent"

    jobs.has(job("7"), job("8"))
    with running(worker):
        outcomes = jobs.await_outcomes(2)
    assert [each["result"] for each in outcomes] == ["sent", "sent"]
    assert "kept" in [sign.get("checkpoint") for sign in jobs.signs]
