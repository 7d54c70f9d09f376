"""The worker for other machines: how what a handler returns or raises becomes an outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from taskplatform import sdk
from tests.stub_jobs import Jobs, ended, job, running, worker_of
from tests.stub_server import Stub, raises


def outcome_of(jobs: Jobs, worker: sdk.Worker, work: Callable[[sdk.HeldJob], Any]) -> Any:
    """The outcome of one job that runs this handler."""
    worker.handler("mail")(work)
    [outcome] = ended(worker, jobs, job("7"))
    assert len(jobs.outcomes) == 1
    assert outcome.pop("id") == "7"
    return outcome


def test_result_is_reported_with_the_next_hold(jobs: Jobs, worker: sdk.Worker) -> None:
    seen: list[Any] = []

    def work(held: sdk.HeldJob) -> dict[str, str]:
        seen.append((held.id, held.type, held.key, held.stage, held.attempt, held.max_attempts))
        seen.append((held.context, held.saved, held.trace_id, held.user_id))
        seen.append((held.cancelled, held.lost, held.stopping))
        return {"message": "sent"}

    outcome = outcome_of(jobs, worker, work)

    assert outcome == {"outcome": "succeeded", "result": {"message": "sent"}}
    assert seen == [
        ("7", "mail", "key-7", "", 1, 3),
        ({"n": "7"}, None, "", ""),
        (False, False, False),
    ]
    [registered] = jobs.calls("workers/register/")
    assert registered.body == {
        "name": "pi-1",
        "host": worker.host,
        "types": ["mail"],
        "capacity": 2,
        "version": "",
    }
    first = jobs.calls("jobs/hold/")[0].body
    assert len(first.pop("request_id")) == 32
    assert first == {"worker": "pi-1", "host": worker.host, "types": ["mail"], "limit": 2}


def test_jobs_are_submitted_with_the_end(jobs: Jobs, worker: sdk.Worker) -> None:
    receipt = sdk.Submission("receipt", {"n": 1}, key="r-1", priority=0, delay=timedelta(minutes=1))
    done = sdk.Done({"sent": 1}, then=[receipt, {"type": "mail"}])
    assert outcome_of(jobs, worker, lambda held: done) == {
        "outcome": "succeeded",
        "result": {"sent": 1},
        "submit": [
            {"type": "receipt", "context": {"n": 1}, "key": "r-1", "priority": 0, "delay": 60},
            {"type": "mail"},
        ],
    }


def test_name_is_host_process_and_chance(stub: Stub) -> None:
    one, other = (sdk.Worker(stub.url, "a.b", host="pi") for _ in range(2))
    assert one.name.startswith("pi:")
    assert one.name.count(":") == 2
    assert one.name != other.name


def test_handlers_that_cannot_be_are_refused(stub: Stub, worker: sdk.Worker) -> None:
    """None at all, one without its type, and a second one of a type."""
    with pytest.raises(ValueError, match="no handler is registered"):
        worker.run()
    assert stub.seen == []
    for decorator in ("handler", "batch"):
        with pytest.raises(TypeError, match=f"write @worker.{decorator}"):
            getattr(worker, decorator)(lambda held: None)
    worker.handler("mail")(lambda held: None)
    with pytest.raises(ValueError, match="'mail' has a handler already"):
        worker.batch("mail")(lambda batch: [])


def test_exception_fails_with_its_traceback_and_path(jobs: Jobs, worker: sdk.Worker) -> None:
    outcome = outcome_of(jobs, worker, raises(LookupError("no such\0 shelf \ud800")))
    error = outcome.pop("error")
    line = "LookupError: no such\ufffd shelf ?"
    assert outcome == {"outcome": "failed", "exception": "builtins.LookupError", "summary": line}
    assert error.startswith("Traceback (most recent call last)")
    assert error.endswith(line)


def test_long_traceback_keeps_its_end_and_is_logged_in_short(
    jobs: Jobs, worker: sdk.Worker, caplog: pytest.LogCaptureFixture
) -> None:
    huge = LookupError("x" * 3_000_000 + "the end")
    worker.before(raises(huge))
    outcome = outcome_of(jobs, worker, raises(huge))
    assert "failed: LookupError: xxx" in caplog.text
    assert len(caplog.text) < 50_000
    assert len(outcome["error"]) <= 15_000
    assert outcome["error"].startswith("Traceback")
    assert outcome["error"].endswith("xthe end")


def test_exception_that_cannot_be_shown_fails_all_the_same(jobs: Jobs, worker: sdk.Worker) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise AttributeError

    outcome = outcome_of(jobs, worker, raises(Mute()))
    assert outcome["outcome"] == "failed"
    assert "Mute" in outcome["error"]


def test_exit_in_a_handler_fails_the_job_and_the_thread_goes_on(jobs: Jobs, stub: Stub) -> None:
    worker = worker_of(stub, threads=1)

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        if held.id == "1":
            sys.exit(3)

    first, second = ended(worker, jobs, job("1"), job("2"))
    assert (first["outcome"], first["exception"]) == ("failed", "builtins.SystemExit")
    assert second == {"id": "2", "outcome": "succeeded"}


def test_what_a_handler_raises_or_returns_is_its_outcome(
    subtests: pytest.Subtests, jobs: Jobs, worker: sdk.Worker
) -> None:
    """When the next attempt is, when the job goes on, and which stage follows."""
    failed = {"outcome": "failed", "exception": "taskplatform.sdk.Fail"}
    again = {"outcome": "failed", "exception": "taskplatform.sdk.Retry"}
    asked = "the handler asked for another try"
    mixed = {"outcome": "stage_done", "stage": "mix"}
    after = sdk.NextStage("mix", {"a": 1}, priority=0, run_at=timedelta(seconds=5))
    later = {
        datetime(2026, 3, 2, 9, tzinfo=UTC): {"run_at": "2026-03-02T09:00:00.000000+00:00"},
        timedelta(minutes=2): {"delay": 120},
        # Rounded to none, it would change nothing and count as a failure.
        timedelta(seconds=0.4): {"delay": 0.4},
        timedelta(seconds=-5): {"delay": 0},
    }
    table = [
        (sdk.Fail("wrong address"), {**failed, "error": "wrong address", "retry": "never"}),
        (sdk.Retry(after=60, reason="busy"), {**again, "error": "busy", "retry_after": 60}),
        (sdk.Retry(timedelta(minutes=1)), {**again, "error": asked, "retry_after": 60}),
        (sdk.Retry(-5, "soon"), {**again, "error": "soon", "retry_after": 0}),
        (sdk.Retry(reason="soon"), {**again, "error": "soon"}),
        *((sdk.Later(at), {"outcome": "yielded", **when}) for at, when in later.items()),
        (sdk.NextStage("mix"), mixed),
        (sdk.Cancelled("not wanted"), {"outcome": "cancelled", "memo": "not wanted"}),
        (None, {"outcome": "succeeded"}),
        ({}, {"outcome": "succeeded", "result": {}}),
        (0, {"outcome": "succeeded", "result": 0}),
        (after, {**mixed, "context": {"a": 1}, "priority": 0, "delay": 5}),
    ]

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> Any:
        what, _ = table[int(held.id)]
        if isinstance(what, Exception):
            raise what
        return what

    outcomes = ended(worker, jobs, *(job(str(number)) for number in range(len(table))))
    found = {outcome["id"]: outcome for outcome in outcomes}
    for number, (what, expected) in enumerate(table):
        with subtests.test(what=what):
            assert found[str(number)] == {"id": str(number), **expected}
    assert len(outcomes) == len(table)


@pytest.mark.parametrize("result", [{"at": {1, 2}}, {"share": float("nan")}])
def test_result_that_is_no_json_fails(jobs: Jobs, worker: sdk.Worker, result: Any) -> None:
    outcome = outcome_of(jobs, worker, lambda held: result)
    assert outcome["outcome"] == "failed"
    assert "JSON" in outcome["error"]


def test_job_cancelled_before_its_start_does_not_start(jobs: Jobs, worker: sdk.Worker) -> None:
    worker.handler("mail")(raises(AssertionError()))
    assert ended(worker, jobs, job("7", cancel_requested=True)) == [
        {"id": "7", "outcome": "cancelled"}
    ]


def test_batch_gets_jobs_of_its_type_and_each_its_own_outcome(jobs: Jobs, stub: Stub) -> None:
    worker = worker_of(stub, threads=1)
    sizes: list[list[str]] = []

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> None:
        """The first one; afterwards the worker holds more than one at a time."""

    @worker.batch("points", size=3)
    def points(batch: list[sdk.HeldJob]) -> list[Any]:
        sizes.append([held.id for held in batch])
        return [ValueError("odd") if held.id == "3" else {"n": held.id} for held in batch]

    jobs.has(job("1"), *(job(str(n), "points") for n in range(2, 6)), job("6"))
    with running(worker):
        outcomes = {outcome["id"]: outcome for outcome in jobs.await_outcomes(6)}
    assert sizes == [["2", "3", "4"], ["5"]]
    assert outcomes["2"] == {"id": "2", "outcome": "succeeded", "result": {"n": "2"}}
    assert outcomes["3"]["outcome"] == "failed"
    assert outcomes["3"]["exception"] == "builtins.ValueError"
    assert outcomes["5"]["outcome"] == outcomes["6"]["outcome"] == "succeeded"


@pytest.mark.parametrize(
    ("results", "words"), [([], "0 results for a batch of 1 jobs"), (None, "not iterable")]
)
def test_batch_without_a_result_for_each_fails_whole(
    jobs: Jobs, worker: sdk.Worker, results: Any, words: str
) -> None:
    worker.batch("mail")(lambda batch: results)
    [outcome] = ended(worker, jobs, job("7"))
    assert outcome["outcome"] == "failed"
    assert words in outcome["error"]


def test_hooks_are_called_around_each_job(jobs: Jobs, worker: sdk.Worker) -> None:
    """S2.19"""
    calls: list[tuple[str, str]] = []

    @worker.before
    def before(held: sdk.HeldJob) -> None:
        calls.append(("before", held.id))

    @worker.after
    def after(held: sdk.HeldJob) -> None:
        calls.append(("after", held.id))

    worker.on_failed(lambda held, error: calls.append((repr(error), held.id)))
    outcome_of(jobs, worker, raises(sdk.Fail("no")))
    assert calls == [("before", "7"), ("Fail('no')", "7"), ("after", "7")]


def test_hooks_around_run_for_each_job_of_a_batch(worker: sdk.Worker) -> None:
    """One that fails before it takes its job out of the batch."""
    seen: list[Any] = []

    @worker.around
    def hook(held: sdk.HeldJob) -> Iterator[None]:
        if held.id == "8":
            raise OSError("no tracer")
        try:
            yield
        except sdk.Retry as error:
            seen.append((held.id, str(error)))

    @worker.batch("mail")
    def mail(batch: list[sdk.HeldJob]) -> list[Any]:
        seen.append([held.id for held in batch])
        return ["sent", sdk.Retry(5, "later")][: len(batch)]

    batch: Any = [SimpleNamespace(id=number) for number in "789"]
    first, second, third = worker._executor.ended_of(batch, mail, 100)
    assert seen == [["7", "9"], ("9", "later")]
    assert first == "sent"
    assert "no tracer" in str(second)
    assert isinstance(third, sdk.Retry)


def test_hook_that_fails_is_logged_and_blocks_nothing(
    jobs: Jobs, worker: sdk.Worker, caplog: pytest.LogCaptureFixture
) -> None:
    """S2.19"""
    worker.before(raises(OSError("no pager")))
    worker.after(raises(OSError("no pager")))
    outcome = outcome_of(jobs, worker, lambda held: {"n": 1})
    assert outcome == {"outcome": "succeeded", "result": {"n": 1}}
    assert "hook before of job 7 of type mail failed" in caplog.text
    assert "hook after of job 7 of type mail failed" in caplog.text


def test_failed_hook_is_not_called_for_what_is_no_failure(jobs: Jobs, worker: sdk.Worker) -> None:
    calls: list[Any] = []
    worker.on_failed(lambda held, error: calls.append(error))
    outcome_of(jobs, worker, raises(sdk.Later(timedelta(seconds=1))))
    assert calls == []
