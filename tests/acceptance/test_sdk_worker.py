"""A worker by the client against the real API; how others die is in test_sdk_deaths."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

from taskplatform import sdk
from tests.processes import eventually
from tests.stub_jobs import running
from tests.workers import make_type


def test_each_way_to_end_is_understood(client: sdk.Client, url: str, key: str) -> None:
    make_type(client, "sdk-ends", stages=["cut", "mix"], max_attempts=2)
    worker = sdk.Worker(url, key, threads=4)
    waits = threading.Event()

    @worker.handler("sdk-ends")
    def ends(job: sdk.HeldJob) -> Any:
        way = job.context["way"]
        job.log(f"{way}\x00 \ud800")
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
            job.log("x" * 7000)
        return {"saved": job.saved, "attempt": job.attempt, "stage": job.stage}

    def log_of(way: str) -> list[dict[str, Any]]:
        path = f"/jobs/{submitted[way]}/log/"
        return client._call(path, None, lambda a: a.body["attempts"])

    names = ("stage", "later", "retry", "fail", "raise", "cancel", "plain")
    submitted = {way: client.submit("sdk-ends", {"way": way}).id for way in names}
    with running(worker):
        assert waits.wait(60)
        eventually(lambda: log_of("cancel"))
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
    logs = {way: log_of(way) for way in names}
    for way in names[:-2]:
        assert {line["text"] for each in logs[way] for line in each["lines"]} == {f"{way}\ufffd ?"}
    attempts = {way: len(logs[way]) for way in names}
    assert attempts == {**dict.fromkeys(names, 1), "stage": 2, "later": 2, "retry": 2, "raise": 2}
    [cancelled] = logs["cancel"]
    assert cancelled["left_out"] > 0
    assert len(cancelled["lines"]) == 10
    assert jobs["plain"].result == {"saved": None, "attempt": 1, "stage": "cut"}
    assert jobs["stage"].result == {"saved": None, "attempt": 1, "stage": "mix"}
    assert (jobs["stage"].context["cut"], jobs["stage"].priority) == (1, 3)
    assert jobs["later"].result == {"saved": "seen", "attempt": 1, "stage": "cut"}
    assert jobs["retry"].result == {"saved": "again", "attempt": 2, "stage": "cut"}
    assert "wrong address" in jobs["fail"].memo
    assert (jobs["raise"].attempts, jobs["fail"].attempts) == (2, 1)
