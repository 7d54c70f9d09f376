"""Every call of a worker under every binding of its key, with what it holds already. I60, S2.16.

A key that is narrowed loses the types it had: its calls answer as if it had never held a job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.access import authentication
from apps.access import services as access
from apps.jobs.models import Job
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.integration.api.contract import ContractClient
from tests.integration.api.work_calls import Held, named
from tests.jobs import job_type, jobs
from tests.pools import pool

pytestmark = pytest.mark.django_db

BASE = "/api/v1/"
POOL = f"{BASE}pools/keys/"
MAIL = {"worker": "pi-1", "types": ["mail"]}
KEY = {"worker": "pi-1", "keys": ["a"]}
Call = Callable[[ContractClient, Held], Any]


def _settle(api: ContractClient, job: Held, **more: Any) -> Any:
    body = {"worker": "pi-1", "outcomes": [named(job, outcome="succeeded")], **more}
    return api.post(f"{BASE}jobs/settle/", body).json()


def _lease(api: ContractClient, job: Held, **more: Any) -> Any:
    body = {"worker": "pi-1", "leases": [named(job, **more)]}
    [lease] = api.post(f"{BASE}jobs/heartbeat/", body).json()["leases"]
    return lease.get("code", lease["ok"])


def _status(api: ContractClient, path: str, body: Any = None) -> int:
    answer = api.get(path) if body is None else api.post(path, body)
    return answer.status_code


def _of_pool(action: str, body: Any) -> Call:
    return lambda api, job: _status(api, f"{POOL}{action}/", body)


# Each with its answer to a key that may use the types, and to one that may not.
CALLS: dict[str, tuple[Call, Any, Any]] = {
    "hold": (lambda api, job: _status(api, f"{BASE}jobs/hold/", MAIL), 200, 404),
    "settle": (lambda api, job: _settle(api, job)["results"][0].get("code"), None, "not_found"),
    "settle and hold": (
        lambda api, job: _settle(api, job, hold={"types": ["mail"]})["unknown"],
        [],
        ["mail"],
    ),
    "heartbeat": (_lease, True, "not_found"),
    "checkpoint": (lambda api, job: _lease(api, job, checkpoint=1), True, "not_found"),
    "assign": (_of_pool("assign", {"worker": "pi-1"}), 200, 404),
    "check": (_of_pool("check", KEY), 200, 404),
    "done": (_of_pool("done", KEY), 200, 404),
    "fail": (_of_pool("fail", KEY), 200, 404),
    "release": (_of_pool("release", KEY), 200, 404),
    "rebuild": (_of_pool("rebuild", {"items": {"a": 1}}), 200, 404),
    "status": (lambda api, job: _status(api, POOL), 200, 404),
}


@pytest.mark.parametrize(
    ("types", "may"), [([], True), (["keys", "mail"], True), (["other"], False)], ids=str
)
def test_calls_under_a_binding(
    types: list[str],
    may: bool,
    make_key: Callable[..., str],
    frozen_clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    job_type("mail"), job_type("other")
    pool({"a": 1})
    key = make_key()
    api = ContractClient(key)
    jobs(1)
    [held] = api.post(f"{BASE}jobs/hold/", MAIL).json()["jobs"]
    api.post(f"{POOL}assign/", {"worker": "pi-1", "limit": 1})
    if types:
        _bind(key, types)
        # A process believes what it read for half a second.
        monkeypatch.setattr(authentication, "BELIEVED_SECONDS", 0)
    before = list(Job.objects.order_by("pk").values())
    for name, (call, allowed, refused) in CALLS.items():
        with subtests.test(name), undone():
            assert call(api, held) == (allowed if may else refused)
            if not may:
                assert list(Job.objects.order_by("pk").values()) == before


def test_repeated_hold_gives_what_the_key_may_still_have(
    make_key: Callable[..., str], frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I41, I60"""
    job_type("mail"), job_type("other")
    jobs(2), jobs(1, "other")
    key = make_key()
    body = {"worker": "pi-1", "types": ["mail", "other"], "request_id": "r-1"}

    def types() -> list[str]:
        found = ContractClient(key).post(f"{BASE}jobs/hold/", body).json()["jobs"]
        return sorted(job["type"] for job in found)

    assert types() == types() == ["mail", "mail", "other"]
    _bind(key, ["other"])
    monkeypatch.setattr(authentication, "BELIEVED_SECONDS", 0)
    assert types() == ["other"]


def _bind(key: str, types: list[str]) -> None:
    client = access.find(key.partition(".")[0])
    access.edit_client(client, job_types=types, version=client.version, actor="test")
