"""A4: no body keeps a process busy: what is not refused at once takes less than a second."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.common.parsers import BATCH_BYTES, BATCH_MEMBERS
from tests.clients import JsonClient
from tests.factories import make_job_type

pytestmark = [pytest.mark.django_db]

TEXTS = {"type": "object", "properties": {"rows": {"items": {"type": "string"}}}}
EITHER = {"type": "object", "anyOf": [TEXTS] * 5}
NAMES = {"type": "object", "properties": {"rows": {"items": {"required": [*"abcdefghijkl"]}}}}


def jobs(context: Any, *, times: int, **more: Any) -> bytes:
    job = {"type": "checked", "context": context, **more}
    return json.dumps({"jobs": [job] * times}).encode()


def rows(item: Any, count: int) -> dict[str, Any]:
    return {"rows": [item] * count}


FULL = BATCH_BYTES - 1000
# The address, the body and the code of the answer.
BODIES: dict[str, tuple[str, bytes, str]] = {
    "numbers": ("jobs/", b'{"jobs":[{"context":{"rows":[' + b"1," * (FULL // 2) + b"1]}}]}", "limit"),
    "texts": ("jobs/", b'{"jobs":[' + b'"",' * (FULL // 3) + b"1]}", "limit"),
    "lists": ("jobs/", b'{"jobs":[' + b"[]," * (FULL // 3) + b"1]}", "limit"),
    "brackets": ("jobs/", b"[" * FULL, "deep"),
    "long texts": ("jobs/", jobs({"text": "a, 任" * 1000}, times=1000), ""),
    "right": ("jobs/", jobs(rows("a", 90), times=1000), ""),
    "right and large": ("jobs/", jobs(rows("a", 9900), times=10), ""),
    "wrong": ("jobs/", jobs(rows(1, 90), times=1000), "invalid"),
    "wrong and large": ("jobs/", jobs(rows(1, 9900), times=10), "invalid"),
    "unknown type": ("jobs/", jobs({}, times=1000, type="nothing"), "invalid"),
    "unknown fields": (
        "jobs/",
        jobs({}, times=1000, **{f"fields{n}": 1 for n in range(90)}),
        "unknown",
    ),
    "bad fields": ("jobs/", jobs({}, times=1000, key="a b", user_id="c d", trace_id="x y", stage=" "), "invalid"),
    "one with unknown fields": (
        "jobs/",
        json.dumps({"type": "checked", **{f"{n}-" * 60: 1 for n in range(900)}}).encode(),
        "unknown",
    ),
}


@pytest.mark.parametrize("schema", [{}, TEXTS, EITHER, NAMES], ids=["none", "texts", "either", "names"])
def test_costliest_bodies(schema: Any, make_key: Callable[..., str], subtests: Any) -> None:
    make_job_type("checked", params_schema=schema)
    api = JsonClient(make_key())
    for name, (route, body, code) in BODIES.items():
        began = time.process_time()
        answer = api.post(f"/api/v1/{route}", raw=body)
        took = time.process_time() - began
        print(f"{name:24} {len(body)>>10:6} KiB {took:.3f} {answer.status_code} {len(answer.content)} {answer.content[:150]}")
