"""Recorded requests of workers are answered as their own servers do, and whatever a client writes
into a field has an answer with a code. S2.5, S2.12, S2.13."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from apps.asyncflow.dialects import BY_NAME
from apps.jobs.models import Job
from tests.frozen import FrozenClock
from tests.integration.asyncflow.replay import Replay, recorded
from tests.integration.asyncflow.worker_calls import Calls

pytestmark = pytest.mark.django_db


@pytest.mark.both
@pytest.mark.parametrize("name", BY_NAME)
def test_recorded_requests_get_the_answers_byte_by_byte(
    name: str,
    make_key: Callable[..., str],
    frozen_clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The middle of the jitter, so that times are exact.
    monkeypatch.setattr(random, "random", lambda: 0.5)
    replay = Replay(BY_NAME[name].address, make_key())
    for exchange in recorded(name):
        if "after" in exchange:
            frozen_clock.advance(seconds=exchange["after"])
        status, body = replay.send(exchange)
        expected_status, expected = exchange["answer"]
        assert status == expected_status, (exchange["what"], body)
        assert replay.matches(expected, body), f"{exchange['what']}\n{expected}\n{body}"


VALUES: tuple[Any, ...] = (
    *(None, True, 1.5, -1, 10**18, 2**63 - 1, "", "é 阶段\t", "7", "1e3"),
    *([1], {"a": {"b": [None]}}, '"\\"{}\\""', "[]", "x" * 9_000),
)
RAW = (
    *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff", b'{"a":1,"a":2}', b'{"a":NaN}', b"{}"),
    *(b'{"task_context":"\\ud800"}', b'{"a":' * 2_000, b'{"a":"' + b"x" * 300_000 + b'"}'),
    *(b'{"task_data":[]}', b'{"taskData":"x"}', b"\xef\xbb\xbf{}", b'{"a":1e999}'),
)
TASK = (
    *("user_id", "task_id", "task_type", "task_stage", "status", "priority", "crt_retry_num"),
    *("max_retry_interval", "schedule_log", "task_context", "order_time", "task_data"),
)
SETTINGS = ("schedule_limit", "max_processing_time", "retry_interval", "max_retry_num")
# The words that a call reads; the others reach it all at once.
READ: dict[str, tuple[str, ...]] = {
    "settings": (),
    "configure": ("task_type", "max_retry_interval", *SETTINGS),
    "hold": ("task_type", "status", "limit"),
    "set": TASK,
    "create": TASK,
    "get": ("task_id",),
    "list": ("task_type", "status", "limit"),
    "list_of_user": ("user_id", "statusList", "limit"),
    "count": ("task_type",),
    "register": ("task_type",),
}
WORDS = {*TASK, *SETTINGS, "limit", "statusList"}
ROUTES = [
    pytest.param(name, route.call, id=f"{name}-{route.path}")
    for name in ("g1", "java")
    for route in BY_NAME[name].routes
    if route.call != "ping"
]


def check(answer: Any) -> None:
    # A body that is too large is refused before it is read.
    assert answer.status_code in (200, 413), answer.content
    assert type(json.loads(answer.content)["code"]) is int


@pytest.mark.parametrize(("name", "call"), ROUTES)
def test_any_value_in_any_field(
    name: str, call: str, lark: Any, make_key: Any, subtests: pytest.Subtests
) -> None:
    calls = Calls(name, make_key())
    read = READ[call]
    for words in (*((word,) for word in read), WORDS - set(read)):
        calls.create()
        task = calls.hold()[0]
        good = {"task_type": "lark", "task_id": task["task_id"], "status": 1, "limit": 5}
        with subtests.test(words=words):
            for value in VALUES:
                sent = good | {"user_id": "u"} | dict.fromkeys(words, value)
                check(calls.raw(call, body=json.dumps(calls.dialect.spelled_all(sent))))
    statuses = set(Job.objects.values_list("status", flat=True))
    assert statuses <= {"ready", "scheduled", "running", "failed"}


def test_any_body(calls: Calls, subtests: pytest.Subtests) -> None:
    for body in RAW:
        with subtests.test(body=body[:24]):
            for route in calls.dialect.routes:
                if route.call != "ping":
                    check(calls.raw(route.call, body=body))
    assert not Job.objects.exists()
