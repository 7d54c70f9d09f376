"""Holding jobs over REST. S2.14, S2.15, S4.8; I41."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.access.models import ApiClient
from apps.common import clock
from apps.jobs.api.held import HeldOut
from apps.jobs.models import Hold, Job, Worker
from apps.jobs.services import outside
from apps.jobs.services.request import Request, forget_requests
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.api.contract import ApiFor, ContractClient
from tests.integration.api.work_calls import HOLD, hold, named, settle
from tests.jobs import job_type, jobs, rescue, row
from tests.pools import NAME as POOL
from tests.pools import pool

pytestmark = pytest.mark.django_db

REGISTER = "/api/v1/workers/register/"
BEATS = {"name": "pi-1", "host": "pi", "types": ["mail"]}


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock) -> None:
    job_type("mail", lease_seconds=30, max_processing_seconds=900)


def ids_of(answer: dict[str, Any]) -> list[int]:
    return [int(job["id"]) for job in answer["jobs"]]


def test_hold_answers_the_jobs_as_they_are_after_it(api: ContractClient) -> None:
    """S2.14: running, with the token, the lease and the attempt."""
    [number] = jobs(1, key="order-1", checkpoint={"page": 3}, sequence=2, trace_id="t-1")

    answer = hold(api, host="pi")

    [job], held = answer["jobs"], row(number)
    assert (job["id"], job["status"]) == (str(number), "running")
    assert (job["attempt"], job["holds"]) == (1, 1)
    assert job["lease_token"] == held.lease_token
    assert (job["context"], job["checkpoint"], job["sequence"]) == ({"position": 0}, {"page": 3}, 2)
    assert (job["worker"], job["host"], job["alone"]) == ("pi-1", "pi", False)
    assert (answer["retry_after"], answer["unknown"]) == (0.0, [])
    assert (held.client, held.worker) == (ApiClient.objects.get().client_id, "pi-1")


def test_held_jobs_are_as_their_shape_says(api: ContractClient) -> None:
    """Which is in OpenAPI, and costs too much to be used."""
    [number] = jobs(1, key="k", user_id="uid_a", checkpoint=None, result={"a": 1}, progress=4)

    [job] = hold(api)["jobs"]

    shown = row(number)
    shown.alone = False  # type: ignore[attr-defined]
    assert job == HeldOut.of(shown)


def test_job_whose_worker_was_lost_is_held_like_others(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    """Workers of earlier releases stop all beside one that they are to run alone."""
    numbers = jobs(3)
    [lost] = hold(api, limit=1, lease_seconds=30)["jobs"]
    frozen_clock.advance(seconds=31)
    assert rescue(frozen_clock) == 1
    assert row(int(lost["id"])).last_end == "lost"

    held = hold(api)

    assert sorted(ids_of(held)) == sorted(numbers)
    assert {job["alone"] for job in held["jobs"]} == {False}


@pytest.mark.parametrize(
    ("is_registered", "asked", "seconds"),
    [(False, None, 900), (False, 60, 60), (True, None, 30), (True, 60, 60), (True, 86_400, 900)],
)
def test_lease_lasts_as_long_as_the_worker_promises(
    api: ContractClient, is_registered: bool, asked: int | None, seconds: int
) -> None:
    """Who promises no heartbeats has until the deadline."""
    if is_registered:
        api.post(REGISTER, BEATS)
    [number] = jobs(1)

    [job] = hold(api, **({"lease_seconds": asked} if asked else {}))["jobs"]

    assert row(number).lease_until == clock.now() + timedelta(seconds=seconds)
    assert job["hard_end_at"] == "2026-03-02T09:15:00Z"


def test_nothing_due_says_when_to_ask_again(api: ContractClient) -> None:
    """S4.8: in at most a quarter more than 0.2 s for one worker, and nothing is written."""
    hold(api)
    before = Worker.objects.get()

    answer = api.post(HOLD, {"worker": "pi-1", "types": ["mail"], "request_id": "r-1"})

    found = answer.json()
    assert (found["jobs"], answer["Retry-After"]) == ([], "1")
    assert 0.15 <= found["retry_after"] <= 0.25
    assert not Hold.objects.exists()
    assert Worker.objects.get().last_heartbeat_at == before.last_heartbeat_at


def test_idle_workers_together_ask_25_times_a_second(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    """S2.18: each at a time of its own."""
    for number in range(200):
        factories.worker(f"pi-{number}:1", kind="http")

    waits = [hold(api)["retry_after"] for _ in range(20)]
    assert 6.0 <= min(waits) < max(waits) <= 10.1

    jobs(1, run_at=frozen_clock.instant + timedelta(seconds=2))
    outside.forget()
    waits = [hold(api)["retry_after"] for _ in range(20)]
    assert 2.0 <= min(waits) < max(waits) <= 10.1


def test_worker_without_any_known_type_is_told(api: ContractClient) -> None:
    answer = api.post(HOLD, {"worker": "pi-1", "types": ["fax", "telex"]})

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.json()["detail"] == "This key sees no job type 'fax', 'telex'."


def test_type_outside_the_binding_is_as_unknown_as_any(api_for: ApiFor) -> None:
    job_type("bill")
    jobs(1), jobs(1, type="bill")
    api = api_for(job_types=["mail"])

    answer = hold(api, types=["bill", "mail", "fax"])

    assert [job["type"] for job in answer["jobs"]] == ["mail"]
    assert answer["unknown"] == ["bill", "fax"]


def test_pool_gives_its_keys_to_buckets_alone(api: ContractClient, api_for: ApiFor) -> None:
    """No key of a pool is had as a plain job by accident; other types go on."""
    pool({"a": 1})
    numbers = jobs(1)

    answer = hold(api, types=[POOL, "mail"])
    alone = api.post(HOLD, {"worker": "pi-1", "types": [POOL]})
    foreign = api_for(job_types=["mail"]).post(HOLD, {"worker": "pi", "types": [POOL]})

    assert (ids_of(answer), answer["unknown"]) == (numbers, [POOL])
    assert alone.status_code == 400
    [error] = alone.json()["errors"]
    assert (error["field"], "/pools/keys/assign/" in error["message"]) == ("types", True)
    assert foreign.status_code == 404
    assert Job.objects.get(type=POOL).status == "ready"


def test_quiet_worker_gets_nothing_new(api: ContractClient) -> None:
    """Registering again does not change it."""
    api.post(REGISTER, BEATS)
    Worker.objects.update(is_quiet=True)
    jobs(1)

    assert api.post(REGISTER, BEATS).json()["stop"]
    assert Worker.objects.count() == 1
    assert hold(api)["jobs"] == []


# --- repeats --------------------------------------------------------------------------------------
def test_repeated_request_gets_the_same_jobs(api: ContractClient) -> None:
    """I41: its answer was lost; nothing is held twice."""
    numbers = jobs(4)

    first = hold(api, limit=2, request_id="r-1")
    second = hold(api, limit=2, request_id="r-1")

    assert first == second
    assert ids_of(hold(api, limit=2, request_id="r-2")) == numbers[2:]
    assert set(Job.objects.values_list("holds", flat=True)) == {1}


def test_repeat_gets_what_still_runs(api: ContractClient) -> None:
    numbers = jobs(2)
    first = hold(api, request_id="r-1")
    settle(api, named(first["jobs"][0], "succeeded"))

    assert ids_of(hold(api, request_id="r-1")) == numbers[1:]


def test_request_id_with_another_body_is_refused(api: ContractClient) -> None:
    jobs(2)
    hold(api, limit=1, request_id="r-1")

    answer = api.post(HOLD, {"worker": "pi-1", "types": ["mail"], "limit": 2, "request_id": "r-1"})

    assert (answer.status_code, answer.json()["code"]) == (422, "conflict")
    assert "new request_id" in answer.json()["detail"]
    assert Job.objects.filter(status="running").count() == 1


@pytest.mark.both
def test_request_is_new_when_its_leases_are_over(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    numbers = jobs(2)
    hold(api, limit=1, request_id="r-1", lease_seconds=60)

    frozen_clock.advance(seconds=59)
    assert ids_of(hold(api, limit=1, request_id="r-1", lease_seconds=60)) == numbers[:1]
    frozen_clock.advance(seconds=1)
    assert ids_of(hold(api, limit=1, request_id="r-1", lease_seconds=60)) == numbers[1:]


def test_same_request_id_of_another_key_is_another_request(
    api: ContractClient, api_for: ApiFor
) -> None:
    numbers = jobs(2)

    first = hold(api, limit=1, request_id="r-1")
    second = hold(api_for(), limit=1, request_id="r-1")

    assert (ids_of(first), ids_of(second)) == (numbers[:1], numbers[1:])


@pytest.mark.both
def test_requests_are_forgotten_when_their_leases_are_over(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    jobs(2)
    hold(api, limit=1, request_id="r-1", lease_seconds=60)
    hold(api, limit=1, request_id="r-2", lease_seconds=61)

    frozen_clock.advance(seconds=60)

    assert forget_requests(frozen_clock.instant) == 1
    assert [each.request_id for each in Hold.objects.all()] == ["r-2"]


# --- size -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("most", "count"), [(50_000, 5), (5_000, 1)])
def test_answer_holds_no_more_than_fits_and_one_job_at_least(
    api: ContractClient, monkeypatch: pytest.MonkeyPatch, most: int, count: int
) -> None:
    monkeypatch.setattr(outside, "ANSWER_BYTES", most)
    numbers = jobs(30, context={"text": "x" * 9_980})

    assert ids_of(hold(api)) == numbers[:count]


@pytest.mark.both
def test_request_whose_faster_twin_is_over_by_now_holds_anew(
    api: ContractClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin comes after this one has looked for it, and its leases end before it looks again."""
    job = factories.job()
    over = clock.now() - timedelta(seconds=1)
    Hold.objects.create(
        client="", request_id="x", token="t", job_ids=[], answer=[], expires_at=over
    )
    look, looks = Request.earlier, list[Request]()

    def late(self: Request) -> Any:
        looks.append(self)
        if len(looks) == 1:
            Hold.objects.update(client=self._client, request_id=self._request_id)
            return None
        return look(self)

    monkeypatch.setattr(Request, "earlier", late)
    assert ids_of(hold(api, request_id="r-1")) == [job.pk]
