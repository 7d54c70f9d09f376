"""I4, I35: jobs through the client for other machines; what may be repeated and what may not."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.jobs.services.request import REPEATABLE
from taskplatform import sdk
from tests.stub_server import (
    KEY,
    SteppingClock,
    Stub,
    cuts_short,
    problem,
    says,
)

MADE = {"id": "7012", "created": True, "status": "ready", "a_later_field": 1}
JOB: dict[str, Any] = {
    "id": "7012",
    "type": "mail",
    "key": "order-7",
    "user_id": "",
    "status": "running",
    "stage": "",
    "priority": 0,
    "run_at": "2026-03-02T09:00:00Z",
    "attempts": 1,
    "max_attempts": 3,
    "holds": 1,
    "progress": None,
    "cancel_requested": False,
    "worker": "host-a:1",
    "host": "host-a",
    "held_at": "2026-03-02T09:00:01.250000Z",
    "lease_until": None,
    "memo": "",
    "result": None,
    "created_at": "2026-03-02T09:00:00Z",
    "started_at": "2026-03-02T09:00:01.250000Z",
    "finished_at": None,
    "trace_id": "",
    "version": 2,
    "context": {"to": "a"},
    "checkpoint": None,
    "order_key": 5,
}


def test_submit_says_what_was_given_and_no_more(stub: Stub, client: sdk.Client) -> None:
    """S1.4: the server knows the defaults."""
    stub.behaves(says(201, MADE))
    plain = client.submit("mail")
    client.submit(
        "mail",
        {"to": "ä"},
        key="order-7",
        unique=True,
        run_at=datetime(2026, 3, 2, 9, tzinfo=UTC),
        priority=0,
        stage="send",
    )
    for delay in (timedelta(minutes=1), 0):
        client.submit("mail", delay=delay)

    assert plain == sdk.Submitted("7012", True, "ready")
    assert [seen.path for seen in stub.seen] == ["/api/v1/jobs/"] * 4
    requests = [seen.body.pop("request_id") for seen in stub.seen]
    assert len({*requests}) == 4
    assert [seen.body for seen in stub.seen] == [
        {"type": "mail", "context": {}},
        {
            "type": "mail",
            "context": {"to": "ä"},
            "key": "order-7",
            "stage": "send",
            "priority": 0,
            "run_at": "2026-03-02T09:00:00.000000+00:00",
            "unique": True,
        },
        {"type": "mail", "context": {}, "delay": 60},
        {"type": "mail", "context": {}, "delay": 0},
    ]


def test_what_was_done_to_the_twin_and_where_each_runs_is_told(
    stub: Stub, client: sdk.Client
) -> None:
    stub.behaves(says(200, {**MADE, "created": False, "twin": "moved"}))
    moved = client.submit(
        "mail", key="a", unique=True, unique_for=timedelta(minutes=1), on_twin="later", delay=5
    )
    assert (moved.created, moved.twin) == (False, "moved")
    said = {"unique": True, "unique_for": 60, "on_twin": "later", "delay": 5}
    assert stub.seen[-1].body.items() >= said.items()

    stub.behaves(says(201, {"jobs": [{**MADE, "twin": "", "host": "host-a"}]}))
    [there] = client.submit_everywhere("reload", priority=3)
    assert (there.host, there.created) == ("host-a", True)
    said = {"type": "reload", "context": {}, "priority": 3, "everywhere": True}
    assert stub.seen[-1].body.items() >= said.items()


def test_id_that_is_no_string_is_refused(stub: Stub, client: sdk.Client) -> None:
    with pytest.raises(TypeError, match=r"id is a string, .* not 5"):
        client.job(5)  # type: ignore[arg-type]
    assert stub.seen == []


def test_time_without_zone_is_refused(client: sdk.Client) -> None:
    with pytest.raises(ValueError, match="needs a time zone"):
        client.submit("mail", run_at=datetime(2026, 3, 2, 9))


def test_many_jobs_are_one_call(stub: Stub, client: sdk.Client) -> None:
    """S1.16"""
    twin = {**MADE, "created": False}
    stub.behaves(says(201, {"jobs": [MADE, twin]}))
    jobs = [{"type": "mail", "delay": timedelta(seconds=5)}, {"type": "mail"}]

    answers = client.submit_many(jobs)

    assert [answer.created for answer in answers] == [True, False]
    [seen] = stub.seen
    assert seen.body["jobs"] == [{"type": "mail", "delay": 5}, {"type": "mail"}]
    assert client.submit_many([]) == []
    with pytest.raises(ValueError, match="too many"):
        client.submit_many([{"type": "mail"}] * 1001)


def test_batch_may_be_larger_than_a_single_body(stub: Stub, client: sdk.Client) -> None:
    stub.behaves(says(201, {"jobs": [MADE] * 10}))
    big = {"type": "mail", "context": {"text": "x" * 100_000}}

    assert len(client.submit_many([big] * 10)) == 10
    with pytest.raises(sdk.ApiError, match="too_large"):
        client.submit("mail", {"text": "x" * 300_000})


def test_job_is_read_with_times_in_utc(stub: Stub, client: sdk.Client) -> None:
    stub.behaves(says(200, JOB))
    job = client.job("7012")
    assert (job.id, job.status, job.context) == ("7012", "running", {"to": "a"})
    assert job.held_at == datetime(2026, 3, 2, 9, 0, 1, 250_000, tzinfo=UTC)
    assert (job.finished_at, job.is_final) == (None, False)
    assert (stub.seen[0].path, stub.seen[0].body) == ("/api/v1/jobs/7012/", {})


def test_unknown_job_raises(stub: Stub, client: sdk.Client) -> None:
    stub.behaves(problem(404, "not_found"))
    with pytest.raises(sdk.ApiError) as caught:
        client.job("../7012")
    assert caught.value.code == "not_found"
    assert stub.seen[0].path == "/api/v1/jobs/..%2F7012/"


def test_submissions_and_reading_are_repeated(stub: Stub, client: sdk.Client) -> None:
    """I4, I25, I35: the server knows a repeat by its request, and says what it said first. After
    which troubles is in test_client."""
    trouble = cuts_short
    stub.behaves(trouble, says(201, MADE))
    assert client.submit("mail").id == "7012"
    stub.behaves(trouble, says(201, {"jobs": [MADE]}))
    assert client.submit_many([{"type": "mail", "key": "a"}])[0].id == "7012"
    first, again, many, many_again = (seen.body for seen in stub.seen)
    assert first == again
    assert many == many_again
    assert first["request_id"] != many["request_id"]
    stub.behaves(trouble, says(200, JOB))
    assert client.job("7012").id == "7012"


def test_submission_is_repeated_no_longer_than_the_server_knows_it(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be another job then."""
    SteppingClock(monkeypatch).step = 500.0
    stub.behaves(problem(503, "unavailable"))
    with sdk.Client(stub.url, KEY, give_up_after=math.inf) as client:
        with pytest.raises(sdk.Unavailable):
            client.submit("mail")
    assert len(stub.seen) > 1
    assert sdk._MAX_REPEATS < REPEATABLE.total_seconds()


def test_flows_are_started_and_read_page_by_page(stub: Stub, client: sdk.Client) -> None:
    """A lost answer is asked for again with the same request."""
    started = {"id": "70", "created": True, "status": "running"}
    pages = [
        {"results": [{"id": "1", "status": "succeeded", "result": 7}], "after": "1"},
        {"results": [{"id": "2", "status": "failed", "result": None}], "after": None},
    ]
    stub.behaves(cuts_short, says(201, started), *(says(200, page) for page in pages))

    assert client.start_flow("night", {"shop": "Bern"}, key="k").id == "70"
    found = [*client.flow_results({"run": "70", "step": "many", "count": 2})]

    assert [each["id"] for each in found] == ["1", "2"]
    first, again, *read = stub.seen
    assert first.body == again.body and first.body["flow"] == "night"
    assert [each.path for each in read] == [
        "/api/v1/flow-runs/70/steps/many/results/",
        "/api/v1/flow-runs/70/steps/many/results/?after=1",
    ]
