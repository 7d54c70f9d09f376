"""Whatever a client writes into a field, the answer has a code and nothing breaks. S2.12, S2.13."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.jobs.models import Job
from tests.integration.jobs.wire.worker_calls import Calls

pytestmark = pytest.mark.django_db

VALUES: tuple[Any, ...] = (
    *(None, True, 1.5, -1, 10**18, 2**63 - 1, "", "é 阶段\t", "7", "1e3"),
    *([1], {"a": {"b": [None]}}, '"\\"{}\\""', "[]", "x" * 9_000),
)
RAW = (
    *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff", b'{"a":1,"a":2}', b'{"a":NaN}', b"{}"),
    *(b'{"task_context":"\\ud800"}', b'{"a":' * 2_000, b'{"a":"' + b"x" * 300_000 + b'"}'),
    *(b'{"task_data":[]}', b'{"taskData":"x"}', b"\xef\xbb\xbf{}", b'{"a":1e999}'),
)
FIELDS = (
    *("user_id", "task_id", "task_type", "task_stage", "status", "priority", "crt_retry_num"),
    *("max_retry_num", "max_retry_interval", "schedule_log", "task_context", "order_time"),
    *("limit", "statusList", "schedule_limit", "retry_interval", "task_data"),
)


def check(answer: Any) -> None:
    # A body that is too large is refused before it is read.
    assert answer.status_code in (200, 413), answer.content
    assert type(json.loads(answer.content)["code"]) is int


@pytest.mark.parametrize("name", ["g1", "java"])
@pytest.mark.parametrize("field", FIELDS)
def test_any_value_in_any_field(name: str, field: str, lark: Any, make_key: Any) -> None:
    calls = Calls(name, make_key())
    calls.create()
    [task] = calls.hold()
    for value in VALUES:
        for route in calls.dialect.routes:
            if route.call != "ping":
                good = {"task_type": "lark", "task_id": task["task_id"], "status": 1, "limit": 5}
                words = good | {"user_id": "u", field: value}
                body = {calls.dialect.spelled(name): each for name, each in words.items()}
                check(calls.raw(route.call, body=json.dumps(body)))
    statuses = set(Job.objects.values_list("status", flat=True))
    assert statuses <= {"ready", "scheduled", "running", "failed"}


@pytest.mark.parametrize("body", RAW, ids=lambda body: repr(body[:24]))
def test_any_body(calls: Calls, body: bytes) -> None:
    for route in calls.dialect.routes:
        if route.call != "ping":
            check(calls.raw(route.call, body=body))
    assert not Job.objects.exists()
