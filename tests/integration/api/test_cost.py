"""No body keeps a process busy; what is not refused at once takes less than a second."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.common.parsers import BATCH_BYTES, BATCH_MEMBERS
from apps.common.serializers import MAX_NAMED
from tests import factories
from tests.clients import JsonClient
from tests.integration.api.world import World

pytestmark = pytest.mark.django_db

SECONDS = 1.0
ROWS = {"type": "object", "properties": {"rows": {"items": {"type": "string"}}}}
SCHEMAS: dict[str, Any] = {
    "free": {},
    "texts": ROWS,
    "either": {"type": "object", "anyOf": [ROWS] * 5},
    "names": {"type": "object", "properties": {"rows": {"items": {"required": [*"abcdefgh"]}}}},
}
# Envelopes take some of the budget.
FEW, MANY = BATCH_MEMBERS // 1000 - 20, 9_900
FULL = BATCH_BYTES - 1000
LARGE = BATCH_MEMBERS // MANY


def rows(item: Any, count: int) -> dict[str, Any]:
    return {"rows": [item] * count}


def jobs(type_: str, context: Any, times: int, **more: Any) -> bytes:
    return json.dumps({"jobs": [{"type": type_, "context": context, **more}] * times}).encode()


def reports(field: str, times: int = 1000, **item: Any) -> bytes:
    items = [{"id": str(n), "lease_token": "token", **item} for n in range(times)]
    return json.dumps({"worker": "pi-1", field: items}).encode()


def pool(context: Any, times: int) -> bytes:
    keys = [f"point-{n}" for n in range(times)]
    body = {"items": dict.fromkeys(keys, 1), "contexts": dict.fromkeys(keys, context)}
    return json.dumps(body).encode()


UNKNOWN = {f"fields{n}": 1 for n in range(FEW)}
NUMBERS = b'{"jobs":[{"context":{"rows":[' + b"1," * (FULL // 2) + b"1]}}]}"
# Address, body, status.
BODIES: list[tuple[str, str, bytes, int]] = [
    ("numbers", "jobs/", NUMBERS, 400),
    ("within each limit but one", "jobs/", jobs("free", rows(1, MANY), 280), 400),
    ("texts", "jobs/", b'{"jobs":[' + b'"",' * (FULL // 3) + b"1]}", 400),
    ("lists", "jobs/", b'{"jobs":[' + b"[]," * (FULL // 3) + b"1]}", 400),
    ("brackets", "jobs/", b"[" * FULL, 400),
    ("long texts", "jobs/", jobs("texts", {"text": "a, b" * 2000}, 1000), 201),
    *(("right", "jobs/", jobs(name, rows("a", FEW), 1000), 201) for name in ("free", "texts")),
    *(("large", "jobs/", jobs(name, rows("a", MANY), LARGE), 201) for name in ("free", "either")),
    *(("wrong", "jobs/", jobs(name, rows(1, FEW), 1000), 400) for name in ("texts", "either")),
    *(("wrong", "jobs/", jobs(name, rows(1, MANY), LARGE), 400) for name in ("texts", "either")),
    ("wrong alternatives", "jobs/", jobs("either", rows(1, 2900), 60), 400),
    ("wrong objects", "jobs/", jobs("names", rows({}, 90), 999), 400),
    ("unknown fields", "jobs/", jobs("free", {}, 1000, **UNKNOWN), 400),
    ("bad fields", "jobs/", jobs("free", {}, 1000, key="a b", user_id="c d", stage=1), 400),
    ("unknown type", "jobs/", jobs("nothing", {}, 1000), 400),
    ("results", "jobs/settle/", reports("outcomes", outcome="succeeded", result=rows(1, FEW)), 200),
    ("checkpoints", "jobs/heartbeat/", reports("leases", checkpoint=rows(1, FEW)), 200),
    ("a pool", "pools/points/rebuild/", pool(rows(1, FEW), 1000), 200),
    ("a wrong pool", "pools/places/rebuild/", pool(rows(1, 2900), 60), 400),
    ("names", "executors/gid_sales/members/", json.dumps({"add": ["a b"] * 1000}).encode(), 400),
    (
        "params",
        "once-tasks/",
        json.dumps(
            {
                "title": "A",
                "executor": "uid_alice",
                "template": "photo-check",
                "params": rows(1, MANY),
            }
        ).encode(),
        400,
    ),
    (
        "a schema",
        "templates/",
        json.dumps(
            {
                "name": "a",
                "schema": {"type": "object", "enum": [*range(9000)], "items": {"$ref": "#"}},
            }
        ).encode(),
        201,
    ),
]


def test_no_body_keeps_the_process_busy(
    world: World, make_key: Callable[..., str], subtests: pytest.Subtests
) -> None:
    for name, schema in SCHEMAS.items():
        factories.job_type(name, params_schema=schema)
    factories.job_type("places", pool=True, params_schema=SCHEMAS["either"])
    api = JsonClient(make_key())

    for name, address, body, status in BODIES:
        with subtests.test(f"{name} for {address}"):
            began = time.process_time()
            answer = api.post(f"/api/v1/{address}", raw=body)
            took = time.process_time() - began
            assert answer.status_code == status, answer.content[:300]
            assert took < SECONDS
            assert len(answer.json().get("errors", ())) <= 2 * MAX_NAMED
