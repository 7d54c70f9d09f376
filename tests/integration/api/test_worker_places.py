"""One key makes up only so many workers, whatever call names them; all pages read each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from apps.jobs.models import Bucket, Worker
from apps.jobs.services import register
from tests.frozen import FrozenClock
from tests.integration.api.contract import ContractClient
from tests.integration.asyncflow.worker_calls import Calls
from tests.jobs import job_type, jobs, row
from tests.pools import NAME as POOL
from tests.pools import pool

pytestmark = [pytest.mark.django_db, pytest.mark.both]

MAIL = {"types": ["mail"], "limit": 1}


@pytest.fixture(autouse=True)
def two_places(settings: Any, frozen_clock: FrozenClock) -> None:
    settings.JOB_WORKERS_PER_KEY = 2
    job_type("mail", handler="", stages=["*"])
    pool({"a": 1, "b": 2})


@pytest.fixture
def doors(make_key: Callable[..., str]) -> dict[str, Callable[[str], Any]]:
    """Each call that brings a worker in, by its name."""
    key = make_key()
    api = ContractClient(key)

    def asyncflow(name: str) -> Any:
        """Its name there is the address of the machine."""
        wire = Calls("g2", key)
        wire._client.defaults["REMOTE_ADDR"] = name
        return wire.raw("hold", task_type="mail")

    return {
        "register": lambda name: api.post("/api/v1/workers/register/", {"name": name}),
        "hold": lambda name: api.post("/api/v1/jobs/hold/", {"worker": name, **MAIL}),
        "settle and hold": lambda name: api.post(
            "/api/v1/jobs/settle/", {"worker": name, "hold": MAIL}
        ),
        "assign": lambda name: api.post(f"/api/v1/pools/{POOL}/assign/", {"worker": name}),
        "asyncflow": asyncflow,
    }


def test_no_call_brings_more_in(
    doors: dict[str, Callable[[str], Any]], make_key: Callable[..., str], subtests: Any
) -> None:
    for door, call in doors.items():
        Worker.objects.all().delete()
        Bucket.objects.all().delete()
        register.forget_seen()
        with subtests.test(door):
            found = [call(f"10.0.0.{number}") for number in (1, 2, 3, 3, 2, 1)]
            assert [each.status_code for each in found] == [200, 200, 429, 429, 200, 200]
            assert 1 <= int(found[2]["Retry-After"]) <= 25
            assert Worker.objects.count() == 2
            assert Bucket.objects.count() <= 2
    other = ContractClient(make_key())
    assert other.post("/api/v1/workers/register/", {"name": "10.0.0.3"}).status_code == 200


def test_what_a_worker_without_a_place_reports_counts(api: ContractClient) -> None:
    [first, second] = jobs(2)
    held = [
        api.post("/api/v1/jobs/hold/", {"worker": "a", **MAIL}).json()["jobs"][0] for _ in range(2)
    ]
    Worker.objects.update(state=Worker.State.GONE)
    register.forget_seen()
    for name in ("b", "c"):
        api.post("/api/v1/workers/register/", {"name": name})
    leases = [{"id": each["id"], "lease_token": each["lease_token"]} for each in held]

    beat = api.post("/api/v1/jobs/heartbeat/", {"worker": "a", "leases": leases})
    done = [{**lease, "outcome": "succeeded"} for lease in leases]
    alone = api.post("/api/v1/jobs/settle/", {"worker": "a", "outcomes": done[:1]})
    asking = {"worker": "a", "outcomes": done[1:], "hold": MAIL}
    both = api.post("/api/v1/jobs/settle/", asking)

    assert (beat.status_code, alone.status_code, both.status_code) == (200, 200, 200)
    assert both.json()["jobs"] == []
    assert [row(number).status for number in (first, second)] == ["succeeded"] * 2
    assert {*Worker.objects.exclude(state="gone").values_list("name", flat=True)} == {"b", "c"}


def test_places_become_free(api: ContractClient, frozen_clock: FrozenClock) -> None:
    """Of those that leave, and of those that are silent and promised nothing."""
    names = ["a", "b", "c", "d"]
    hold = [partial(api.post, "/api/v1/jobs/hold/", {"worker": name, **MAIL}) for name in names]
    assert [call().status_code for call in hold] == [200, 200, 429, 429]
    api.post("/api/v1/workers/leave/", {"name": "a"})
    assert [call().status_code for call in hold[2:]] == [200, 429]
    frozen_clock.advance(seconds=26)
    assert [call().status_code for call in hold[2:]] == [200, 200]
