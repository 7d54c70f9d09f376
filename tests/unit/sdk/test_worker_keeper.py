"""The worker for other machines: what it asks for, when it reports, and what troubles do."""

from __future__ import annotations

import threading
import time

import pytest

from taskplatform import sdk
from tests.processes import eventually
from tests.stub_jobs import Jobs, ended, job, running, worker_of
from tests.stub_server import (
    Behaviour,
    Handler,
    Stub,
    cuts_short,
    hangs_up,
    problem,
    resets,
    says,
    says_text,
    unused_port,
)


@pytest.fixture
def worker(stub: Stub) -> sdk.Worker:
    made = worker_of(stub)
    made.handler("mail")(lambda held: None)
    return made


def done_then(jobs: Jobs, trouble: Behaviour) -> Behaviour:
    """The server does what it is asked for, and its answer is lost."""

    def behave(handler: Handler) -> None:
        answer, handler.answer = handler.answer, lambda *args: None  # type: ignore[method-assign]
        jobs.usual(handler)
        handler.answer = answer  # type: ignore[method-assign]
        trouble(handler)

    return behave


def ids(jobs: Jobs, count: int) -> list[str]:
    return sorted(outcome["id"] for outcome in jobs.await_outcomes(count))


class TestHolds:
    def test_as_many_as_its_threads_do_in_half_a_second(self, jobs: Jobs, stub: Stub) -> None:
        worker = worker_of(stub, threads=3, lease_seconds=60)
        worker.handler("mail")(lambda held: None)
        ended(worker, jobs, *(job(str(n)) for n in range(100)))
        settled = [seen.body for seen in jobs.calls("jobs/settle/")]
        limits = [body["hold"]["limit"] for body in settled if "hold" in body]
        first = jobs.calls("jobs/hold/")[0].body
        assert (first["limit"], first["lease_seconds"]) == (3, 60)
        assert limits[0] > 50

    def test_threads_that_are_busy_for_long_do_not_count(self, subtests: pytest.Subtests) -> None:
        """Two threads do ten jobs of 0.1 s in half a second."""
        cases = {(0, 0): 9, (1, 0): 5, (1, 2): 3, (1, 3): 0}
        for (busy_for, queued), wanted in cases.items():
            with subtests.test(busy_for=busy_for, queued=queued):
                executor = sdk._Executor(2)
                answer = sdk._Answer({"now": "2026-03-02T09:00:00Z"}, 0.0, time.monotonic())
                body = job("1", lease_until="2026-03-02T09:00:30Z")
                held = [sdk.HeldJob(body, answer, executor) for _ in range(queued + 1)]
                executor.mean = 0.1
                executor.runs[1] = (time.monotonic() - busy_for, held[:1])
                executor.queue.extend(held[1:])
                assert executor.wanted() == wanted

    def test_job_that_waits_too_long_for_a_thread_is_released(
        self, jobs: Jobs, stub: Stub, monkeypatch: pytest.MonkeyPatch, may_end: threading.Event
    ) -> None:
        monkeypatch.setattr(sdk, "_UNSTARTED", 0.2)
        worker = worker_of(stub, threads=1)

        @worker.handler("mail")
        def mail(held: sdk.HeldJob) -> None:
            if held.id == "long":
                may_end.wait(20)

        jobs.has(job("1"))
        with running(worker):
            jobs.await_outcomes()
            jobs.has(job("long"), job("2"))
            assert jobs.await_outcomes(2)[1] == {"id": "2", "outcome": "released"}
            may_end.set()
            jobs.await_outcomes(3)

    def test_job_whose_worker_was_lost_runs_beside_others(
        self, jobs: Jobs, stub: Stub, may_end: threading.Event
    ) -> None:
        """Also if a server of an earlier release wants it to run alone."""
        worker = worker_of(stub, threads=2)

        @worker.handler("mail")
        def mail(held: sdk.HeldJob) -> None:
            if held.id == "long":
                may_end.wait(20)

        jobs.has(job("long"))
        with running(worker):
            eventually(lambda: worker._executor.runs)
            jobs.has(job("2", attempt=2, alone=True), job("3"))
            first, second = jobs.await_outcomes(2)
            may_end.set()
            jobs.await_outcomes(3)
        done = {"outcome": "succeeded"}
        assert [first, second] == [{"id": each, **done} for each in ("2", "3")]

    def test_idle_worker_asks_as_seldom_as_it_is_told(self, jobs: Jobs, worker: sdk.Worker) -> None:
        """S2.18"""
        jobs.retry_after = 0.4
        with running(worker):
            first, second, third = jobs.await_calls("jobs/hold/", 3)[:3]
        assert second.at - first.at >= 0.4
        assert third.at - second.at >= 0.4
        assert len({seen.body["request_id"] for seen in (first, second, third)}) == 3

    def test_new_jobs_are_asked_for_at_once_after_some(
        self, jobs: Jobs, worker: sdk.Worker
    ) -> None:
        jobs.retry_after = 30.0
        jobs.has(job("1"), job("2"), job("3"))
        with running(worker):
            assert ids(jobs, 3) == ["1", "2", "3"]

    def test_unknown_types_are_named(
        self, jobs: Jobs, worker: sdk.Worker, caplog: pytest.LogCaptureFixture
    ) -> None:
        body = {"jobs": [], "unknown": ["fax"], "retry_after": 0.1, "now": "2026-03-02T09:00:00Z"}
        jobs.fails("jobs/hold/", says(200, body), says(200, body))
        with running(worker):
            jobs.await_calls("jobs/hold/", 4)
        why = "there is no such job type, this key is not bound to it, or it is a pool (use Pool)"
        assert caplog.text.count(f"pi-1 gets no jobs of fax: {why}") == 1


class TestRepeats:
    @pytest.mark.parametrize("trouble", [cuts_short, resets, hangs_up, problem(503, "unavailable")])
    def test_hold_whose_answer_is_lost_is_repeated_byte_for_byte(
        self, jobs: Jobs, worker: sdk.Worker, trouble: Behaviour
    ) -> None:
        jobs.fails("jobs/hold/", trouble)
        jobs.has(job("1"))
        with running(worker):
            assert ids(jobs, 1) == ["1"]
        first, second = jobs.calls("jobs/hold/")[:2]
        assert first.raw == second.raw
        assert first.body["request_id"]

    @pytest.mark.parametrize("trouble", [cuts_short, resets, hangs_up])
    def test_settle_whose_answer_is_lost_is_repeated_byte_for_byte(
        self, jobs: Jobs, worker: sdk.Worker, trouble: Behaviour
    ) -> None:
        jobs.fails("jobs/settle/", done_then(jobs, trouble))
        jobs.has(job("1"))
        with running(worker):
            assert ids(jobs, 2) == ["1", "1"]
        first, second = jobs.calls("jobs/settle/")[:2]
        assert first.raw == second.raw

    def test_outcomes_outlive_a_server_that_is_away(
        self, jobs: Jobs, stub: Stub, may_end: threading.Event
    ) -> None:
        worker = worker_of(stub, threads=4)
        worker.handler("mail")(lambda held: may_end.wait(20))
        jobs.has(*(job(str(n)) for n in range(4)))
        with running(worker):
            eventually(lambda: len(worker._executor.runs) == 4)
            jobs.away.set()
            may_end.set()
            eventually(lambda: not worker._executor.runs)
            jobs.await_calls("jobs/settle/", 2)
            assert jobs.outcomes == []
            jobs.away.clear()
            assert ids(jobs, 4) == ["0", "1", "2", "3"]

    def test_server_that_is_away_at_the_start_is_waited_for(
        self, jobs: Jobs, worker: sdk.Worker
    ) -> None:
        jobs.fails("workers/register/", resets, problem(503, "unavailable"))
        jobs.has(job("1"))
        with running(worker):
            assert ids(jobs, 1) == ["1"]


class TestRefusals:
    @pytest.mark.parametrize(
        "trouble",
        [problem(401, "not_authenticated"), problem(403, "forbidden"), problem(400, "invalid")],
    )
    def test_refused_key_at_the_start_raises(
        self, jobs: Jobs, worker: sdk.Worker, trouble: Behaviour
    ) -> None:
        jobs.fails("workers/register/", trouble)
        with pytest.raises(sdk.ApiError):
            worker.run()
        assert [seen.path for seen in jobs.stub.seen] == ["/api/v1/workers/register/"]

    def test_wrong_address_at_the_start_raises(self, jobs: Jobs, worker: sdk.Worker) -> None:
        jobs.fails("workers/register/", says_text(404, b"<html>", "text/html"))
        with pytest.raises(sdk.UnexpectedAnswer, match="Is base_url the address"):
            worker.run()

    @pytest.mark.parametrize(
        "trouble",
        [problem(401, "not_authenticated"), problem(403, "forbidden"), problem(404, "not_found")],
    )
    def test_refusal_later_is_logged_and_asked_again_slowly(
        self,
        jobs: Jobs,
        worker: sdk.Worker,
        trouble: Behaviour,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(sdk, "_REFUSED_PAUSE", (0.3, 0.3))
        jobs.fails("jobs/hold/", trouble)
        with running(worker):
            first, second = jobs.await_calls("jobs/hold/", 2)[:2]
        assert second.at - first.at >= 0.3
        assert "pi-1 is refused and asks again in 0 s: No." in caplog.text

    def test_hold_that_is_refused_does_not_keep_outcomes_back(self, jobs: Jobs, stub: Stub) -> None:
        worker = worker_of(stub, threads=1)
        worker.handler("mail")(lambda held: None)
        jobs.fails("jobs/settle/", problem(404, "not_found"))
        jobs.has(job("1"))
        with running(worker):
            assert ids(jobs, 1) == ["1"]
        refused, taken = jobs.calls("jobs/settle/")
        assert refused.body["outcomes"] == taken.body["outcomes"]
        assert "hold" in refused.body
        assert "hold" not in taken.body

    def test_outcome_that_cannot_be_stored_fails_for_good(
        self, jobs: Jobs, worker: sdk.Worker
    ) -> None:
        jobs.refusals["succeeded"] = {"ok": False, "code": "invalid", "message": "Too deep."}
        jobs.has(job("1"))
        with running(worker):
            first, second = jobs.await_outcomes(2)
        assert first["outcome"] == "succeeded"
        assert second == {
            "id": "1",
            "outcome": "failed",
            "error": "The outcome was refused: Too deep.",
            "retry": "never",
        }

    def test_failure_that_cannot_be_stored_is_not_sent_for_ever(
        self, jobs: Jobs, worker: sdk.Worker
    ) -> None:
        refusal = {"ok": False, "code": "invalid", "message": "No."}
        jobs.refusals = {"succeeded": refusal, "failed": refusal}
        jobs.has(job("1"))
        with running(worker):
            jobs.await_outcomes(2)
            eventually(lambda: not worker._executor.held)
        assert len(jobs.outcomes) == 2

    @pytest.mark.parametrize("code", ["lease_lost", "not_found", "conflict"])
    def test_outcome_that_comes_too_late_is_logged_and_left(
        self, jobs: Jobs, worker: sdk.Worker, code: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        jobs.refusals["succeeded"] = {"ok": False, "code": code, "message": "Late."}
        jobs.has(job("1"))
        with running(worker):
            jobs.await_outcomes()
            eventually(lambda: not worker._executor.held)
        assert len(jobs.outcomes) == 1
        assert f"its outcome does not count: {code}" in caplog.text

    def test_one_outcome_that_spoils_a_call_is_found_and_replaced(
        self, jobs: Jobs, stub: Stub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server that refuses the whole request for one result must not block the others."""
        real = jobs.usual

        def usual(handler: Handler) -> None:
            bodies = handler.seen.body.get("outcomes", [])
            spoilt = any(each.get("result") == "poison" for each in bodies)
            (problem(400, "bad_text") if spoilt else real)(handler)

        monkeypatch.setattr(jobs, "usual", usual)
        worker = worker_of(stub, threads=4)
        worker.handler("mail")(lambda held: "poison" if held.id == "5" else held.id)
        jobs.has(*(job(str(n)) for n in range(10)))
        with running(worker):
            outcomes = {each["id"]: each for each in jobs.await_outcomes(10)}
        assert len(outcomes) == len(jobs.outcomes) == 10
        assert outcomes["5"]["outcome"] == "failed"
        assert outcomes["5"]["retry"] == "never"
        assert {outcomes[str(n)]["outcome"] for n in range(10) if n != 5} == {"succeeded"}


class TestReports:
    def test_one_call_has_at_most_four_megabytes(
        self, jobs: Jobs, stub: Stub, may_end: threading.Event
    ) -> None:
        worker = worker_of(stub, threads=30)

        @worker.handler("mail")
        def mail(held: sdk.HeldJob) -> str:
            may_end.wait(20)
            return "x" * 250_000

        jobs.has(*(job(str(n)) for n in range(30)))
        with running(worker):
            eventually(lambda: len(worker._executor.runs) == 30)
            jobs.away.set()
            may_end.set()
            eventually(lambda: not worker._executor.runs)
            jobs.away.clear()
            jobs.await_outcomes(30)
        sizes = [len(seen.raw) for seen in jobs.calls("jobs/settle/")]
        assert max(sizes) <= 4.1 * 1024 * 1024
        assert len(jobs.outcomes) == 30

    def test_outcome_waits_for_others_no_longer_than_a_moment(
        self, jobs: Jobs, stub: Stub, may_end: threading.Event
    ) -> None:
        """Beside a job that runs for long, and before the next hold is due."""
        worker = worker_of(stub, threads=3)

        @worker.handler("mail")
        def mail(held: sdk.HeldJob) -> None:
            if held.id == "1":
                may_end.wait(20)
            jobs.await_calls("jobs/hold/", 2)

        jobs.retry_after = 30.0
        jobs.has(job("1"), job("2"))
        with running(worker):
            assert ids(jobs, 1) == ["2"]
            may_end.set()


def test_nobody_at_the_address_is_waited_for_until_the_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so after the first try, and not after each."""
    monkeypatch.setattr(sdk, "_FIRST_PAUSE", 0.01)
    with unused_port() as port:
        worker = sdk.Worker(f"http://127.0.0.1:{port}", "a.b")
        worker.handler("mail")(lambda held: None)
        with running(worker) as thread:
            eventually(lambda: worker._client._warn_at > 0)
            thread.join(0.3)
            assert thread.is_alive()
    said = [each.getMessage() for each in caplog.records if "no usable" in each.getMessage()]
    assert f"http://127.0.0.1:{port} gave no usable answer (tries: 1)" in said[0]
    assert "Check the address and that the server is running" in said[0]
    # The other one says at the end that the worker stops.
    assert [each.startswith("http") for each in said] == [True, False]


def test_server_that_stays_away_is_named_again_after_a_while(
    jobs: Jobs,
    worker: sdk.Worker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sdk, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(sdk, "_WARNING_PAUSE", 0.0)
    jobs.fails("workers/register/", *[problem(503, "unavailable")] * 2)
    with running(worker):
        jobs.await_calls("jobs/hold/")
    assert caplog.text.count("gave no usable answer (tries: 1)") == 1
    assert caplog.text.count("gave no usable answer (tries: 2)") == 1
