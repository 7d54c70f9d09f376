"""The worker for other machines when its signs of life are refused, or answered by a proxy."""

from __future__ import annotations

import time

import pytest

from taskplatform import sdk
from tests.processes import eventually
from tests.stub_jobs import Jobs, job, running
from tests.stub_server import problem, says


def test_refused_signs_of_life_are_repeated_slowly(
    jobs: Jobs, worker: sdk.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "_REFUSED_PAUSE", (0.5, 0.5))
    jobs.heartbeat_seconds = 0.02
    jobs.fails("workers/heartbeat/", *[problem(403, "forbidden")] * 2)
    worker.handler("mail")(lambda held: None)
    with running(worker):
        calls = jobs.await_calls("workers/heartbeat/", 4)
    assert calls[1].at - calls[0].at >= 0.5
    assert calls[2].at - calls[1].at >= 0.5
    assert calls[3].at - calls[2].at < 0.5


def test_one_strange_answer_to_a_sign_of_life_loses_no_lease(
    jobs: Jobs, worker: sdk.Worker
) -> None:
    """After a redirect to a page of maintenance it gave none for up to a minute, and all that it
    held ran a second time elsewhere."""
    jobs.lease_seconds = 4.0
    # The first while it holds nothing.
    jobs.heartbeat_seconds = 0.05
    redirect = says(302, location="http://127.0.0.1:1/")
    jobs.fails("workers/heartbeat/", redirect)
    jobs.fails("jobs/heartbeat/", redirect, problem(403, "forbidden"))

    @worker.handler("mail")
    def mail(held: sdk.HeldJob) -> int:
        eventually(lambda: jobs.signs, seconds=20)
        return 5

    with running(worker):
        jobs.await_calls("workers/heartbeat/")
        held_at = time.monotonic()
        jobs.has(job("7"))
        [outcome] = jobs.await_outcomes()
    assert (outcome["outcome"], outcome["result"]) == ("succeeded", 5)
    assert jobs.calls("jobs/heartbeat/")[2].at - held_at < 4.0
