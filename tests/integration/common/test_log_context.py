"""What lines of the log carry: the request, and the dispatch, job and trace that it is about."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from apps.common.logs import JsonFormatter
from apps.dispatch.models import Dispatch
from apps.dispatch.services import ending, pull
from apps.jobs.api.control import CancelView
from apps.jobs.handlers import registry
from apps.jobs.runner import attempt
from tests import factories
from tests.clients import JsonClient
from tests.jobs import job_type, jobs, take

pytestmark = pytest.mark.django_db
logger = logging.getLogger("apps.test")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """What `logger` has logged, as programs read it."""
    logged: list[dict[str, Any]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(json.loads(JsonFormatter().format(record)))

    handler = Keep()
    logger.addHandler(handler)
    yield logged
    logger.removeHandler(handler)


def log_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Have the function log a line before it does its work."""
    original = getattr(owner, name)

    def logging(*args: Any, **kwargs: Any) -> Any:
        logger.warning("inside")
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, logging)


def test_lines_of_a_callback_carry_request_executor_dispatch_and_trace(
    api: JsonClient, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.once_task(factories.user("uid_alice"))
    number = api.post("/api/v1/dispatch/", {"uid": "uid_alice"}).json()["number"]
    log_calls(monkeypatch, pull, "call_back")

    api.post(
        "/api/v1/callback/",
        {"uid": "uid_alice", "number": number, "outcome": "succeeded"},
        headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Request-Id": "r1"},
    )

    [line] = lines
    known = {name: line[name] for name in ("request_id", "executor", "dispatch", "trace_id")}
    assert known == {
        "request_id": "r1",
        "executor": "uid_alice",
        "dispatch": number,
        "trace_id": TRACE,
    }
    logger.warning("after")
    assert "dispatch" not in lines[-1]


def test_lines_of_an_operator_carry_the_dispatch_or_job(
    api: JsonClient, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.once_task(factories.user("uid_alice"))
    api.post("/api/v1/dispatch/", {"uid": "uid_alice"})
    dispatch = Dispatch.objects.get()
    job_type()
    [job] = jobs(1)
    log_calls(monkeypatch, ending, "cancel")
    log_calls(monkeypatch, CancelView, "act")

    api.post(f"/api/v1/dispatches/{dispatch.pk}/cancel/", {"reason": "over"})
    api.post(f"/api/v1/jobs/{job}/cancel/", {"reason": "over"})

    assert [line.get("dispatch") for line in lines] == [str(dispatch.pk), None]
    assert [line.get("job") for line in lines] == [None, str(job)]


@pytest.mark.parametrize("given", ["", "nonsense", "00-XYZ-1-1", "00-" + "a" * 10_000])
def test_trace_that_is_none_is_left_out(
    api: JsonClient, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    job_type()
    [job] = jobs(1)
    log_calls(monkeypatch, CancelView, "act")
    api.post(f"/api/v1/jobs/{job}/cancel/", {"reason": "x"}, headers={"traceparent": given})
    assert "trace_id" not in lines[0]


def test_lines_of_a_handler_carry_job_type_attempt_and_trace(lines: list[dict[str, Any]]) -> None:
    def handle(_context: dict[str, Any]) -> None:
        logger.warning("in the handler")

    job_type()
    [number] = jobs(1, trace_id="t-1")
    [held] = take(1)
    handler = registry.Handler("mail", handle, is_long=False)

    attempt.run(handler, held, lambda: False)
    logger.warning("after")

    inside, after = lines
    known = {name: inside[name] for name in ("job", "type", "attempt", "trace_id")}
    assert known == {"job": str(number), "type": "mail", "attempt": 1, "trace_id": "t-1"}
    assert "job" not in after
