"""S0.1: the loop of the client: ask, work, call back, ask again; the server never calls it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from taskplatform import sdk
from tests.raised_errors import Speechless
from tests.stub_server import (
    ENDED,
    KEY,
    OPEN,
    Behaviour,
    Handler,
    Stub,
    hangs_up,
    offers,
    problem,
    raises,
    says,
)

Work = Callable[[sdk.Dispatch], Any]
DONE = says(200, ENDED)


class Stop(threading.Event):
    """One that remembers for how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return super().wait(timeout)


@pytest.fixture
def stop() -> Stop:
    return Stop()


@pytest.fixture
def client(stub: Stub) -> Iterator[sdk.Client]:
    with sdk.Client(stub.url, KEY, timeout=30, give_up_after=0.5) as made:
        yield made


@pytest.fixture
def stops(stop: threading.Event) -> Callable[[Behaviour], Behaviour]:
    """Wraps the last behaviour: the executor is asked to stop while the server answers."""

    def wrap(behaviour: Behaviour) -> Behaviour:
        def behave(handler: Handler) -> None:
            stop.set()
            behaviour(handler)

        return behave

    return wrap


Stops = Callable[[Behaviour], Behaviour]


def outcomes(stub: Stub) -> list[dict[str, Any]]:
    """The bodies of the callbacks, without who and what."""
    return [
        {key: value for key, value in seen.body.items() if key not in ("uid", "number")}
        for seen in stub.seen
        if seen.path.startswith("/api/v1/callback/")
    ]


def test_due_task_is_handled_and_the_next_one_comes_with_the_callback(
    stub: Stub, client: sdk.Client, stop: threading.Event, stops: Stops
) -> None:
    stub.behaves(
        offers, says(200, {**ENDED, "next": {**OPEN, "number": "902"}}), stops(says(200, ENDED))
    )
    numbers: list[str] = []

    def work(dispatch: sdk.Dispatch) -> dict[str, int]:
        numbers.append(dispatch.number)
        return {"photos": len(numbers)}

    assert client.run("uid_alice", work, stop=stop) == 2
    assert numbers == ["901", "902"]
    assert [seen.path for seen in stub.seen] == [
        "/api/v1/dispatch/",
        "/api/v1/callback/?next=1",
        "/api/v1/callback/?next=1",
    ]
    assert outcomes(stub) == [
        {"outcome": "succeeded", "result": {"photos": 1}},
        {"outcome": "succeeded", "result": {"photos": 2}},
    ]


def test_nothing_due_waits_as_long_as_the_server_asks(
    stub: Stub, client: sdk.Client, stop: Stop, stops: Stops
) -> None:
    nothing = says(204, None, Retry_After="1")
    stub.behaves(nothing, stops(nothing))
    assert client.run("uid_alice", raises(AssertionError()), stop=stop) == 0
    first, second = stub.seen
    assert second.at - first.at >= 1.0
    assert stop.waits == [1.0, 1.0]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no such shelf"), "ValueError: no such shelf"),
        (ValueError("a\0b \ud800"), "ValueError: a\ufffdb ?"),
        (KeyError("shelf " * 900), f"KeyError: '{'shelf ' * 81}".rstrip()),
        (KeyError("x" * 900), f"KeyError: '{'x' * 239}"),
        (Speechless(), "Speechless: <exception str() failed>"),
    ],
)
def test_handler_that_raises_reports_the_failure(
    stub: Stub,
    client: sdk.Client,
    stop: threading.Event,
    stops: Stops,
    error: Exception,
    message: str,
) -> None:
    stub.behaves(offers, stops(DONE))
    assert client.run("uid_alice", raises(error), stop=stop) == 1
    assert outcomes(stub) == [{"outcome": "failed", "message": message}]


@pytest.mark.parametrize("result", [{"at": {1, 2}}, {"share": float("nan")}])
def test_result_that_is_no_json_is_reported_as_failure(
    stub: Stub, client: sdk.Client, stop: threading.Event, stops: Stops, result: Any
) -> None:
    stub.behaves(offers, stops(DONE))
    client.run("uid_alice", lambda dispatch: result, stop=stop)
    (report,) = outcomes(stub)
    assert report["outcome"] == "failed"
    assert "JSON" in report["message"]


def test_result_that_the_server_refuses_is_reported_as_failure(
    stub: Stub, client: sdk.Client, stop: threading.Event, stops: Stops
) -> None:
    """A result that is never taken must not keep the executor at one task for ever."""
    stub.behaves(offers, problem(400, "too_deep", "Nested too deeply."), stops(DONE))
    client.run("uid_alice", lambda dispatch: {"deep": [[]]}, stop=stop)
    first, second = outcomes(stub)
    assert first == {"outcome": "succeeded", "result": {"deep": [[]]}}
    assert second == {"outcome": "failed", "message": "The result was refused: Nested too deeply."}


def test_release_gives_the_task_back_with_its_reason(
    stub: Stub, client: sdk.Client, stop: threading.Event, stops: Stops
) -> None:
    stub.behaves(offers, stops(says(200, {"number": "901", "state": "released"})))
    client.run("uid_alice", raises(sdk.Release("battery low")), stop=stop)
    assert stub.seen[-1].path == "/api/v1/dispatch/release/"
    assert stub.seen[-1].body == {"uid": "uid_alice", "number": "901", "reason": "battery low"}


@pytest.mark.parametrize(("status", "code"), [(409, "closed"), (404, "not_found")])
def test_task_that_ended_meanwhile_is_left_and_the_next_one_pulled(
    stub: Stub, client: sdk.Client, stop: threading.Event, stops: Stops, status: int, code: str
) -> None:
    stub.behaves(offers, problem(status, code), stops(says(204, None, Retry_After="1")))
    assert client.run("uid_alice", lambda dispatch: None, stop=stop) == 1
    assert [seen.path for seen in stub.seen] == [
        "/api/v1/dispatch/",
        "/api/v1/callback/?next=1",
        "/api/v1/dispatch/",
    ]


def test_result_outlives_an_outage_longer_than_the_patience(
    stub: Stub, client: sdk.Client, stop: threading.Event, stops: Stops
) -> None:
    away = problem(503, "unavailable", Retry_After="1")
    stub.behaves(offers, away, hangs_up, stops(DONE))
    client.run("uid_alice", lambda dispatch: {"n": 1}, stop=stop)
    reports = outcomes(stub)
    assert len(reports) == 3
    assert all(one == reports[0] for one in reports)


def test_outage_while_pulling_is_waited_out(
    stub: Stub, client: sdk.Client, stop: threading.Event, stops: Stops
) -> None:
    stub.behaves(problem(503, "unavailable", Retry_After="1"), offers, stops(DONE))
    assert client.run("uid_alice", lambda dispatch: None, stop=stop) == 1


@pytest.mark.parametrize(("status", "code"), [(401, "not_authenticated"), (404, "not_found")])
def test_refused_key_or_uid_ends_the_loop(
    stub: Stub, client: sdk.Client, stop: threading.Event, status: int, code: str
) -> None:
    stub.behaves(problem(status, code, "No such executor."))
    with pytest.raises(sdk.ApiError, match="No such executor"):
        client.run("uid_alice", lambda dispatch: None, stop=stop)


def test_stop_while_working_reports_and_asks_for_nothing_more(
    stub: Stub, client: sdk.Client, stop: threading.Event
) -> None:
    stub.behaves(offers, DONE)

    def work(dispatch: sdk.Dispatch) -> None:
        stop.set()

    assert client.run("uid_alice", work, stop=stop) == 1
    assert [seen.path for seen in stub.seen] == ["/api/v1/dispatch/", "/api/v1/callback/"]


def test_stop_with_a_task_not_begun_releases_it(
    stub: Stub, client: sdk.Client, stop: threading.Event, stops: Stops
) -> None:
    stub.behaves(stops(offers), says(200, {"number": "901", "state": "released"}))
    assert client.run("uid_alice", raises(AssertionError()), stop=stop) == 0
    assert [seen.path for seen in stub.seen] == ["/api/v1/dispatch/", "/api/v1/dispatch/release/"]


def test_stop_while_the_server_is_away_raises_what_could_not_be_reported(
    stub: Stub, client: sdk.Client, stop: threading.Event
) -> None:
    stub.behaves(offers, problem(503, "unavailable"))

    def work(dispatch: sdk.Dispatch) -> None:
        stop.set()

    with pytest.raises(sdk.Unavailable):
        client.run("uid_alice", work, stop=stop)


def test_stop_while_pulling_from_a_server_that_is_away_ends_at_once(
    stub: Stub, stop: threading.Event, stops: Stops
) -> None:
    stub.behaves(stops(problem(503, "unavailable")))
    with sdk.Client(stub.url, KEY, give_up_after=600) as client:
        assert client.run("uid_alice", lambda dispatch: None, stop=stop) == 0
    assert len(stub.seen) == 1


def test_interrupt_of_the_handler_rises_and_leaves_the_task_open(
    stub: Stub, client: sdk.Client, stop: threading.Event
) -> None:
    stub.behaves(offers)

    def work(dispatch: sdk.Dispatch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.run("uid_alice", work, stop=stop)
    assert outcomes(stub) == []
