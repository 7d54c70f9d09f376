"""Pools over REST. S3.2-S3.6, S3.8-S3.10; I60."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.access.models import ApiClient
from apps.common.messages import wire_time
from apps.jobs.models import Job, Worker
from apps.jobs.services import pool as pool_service
from apps.jobs.services import register
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.integration.api.contract import ApiFor, ContractClient, mistakes
from tests.jobs import job_type
from tests.pools import fill, held, job_of, pool, waiting

pytestmark = pytest.mark.django_db

POOL = "/api/v1/pools/keys/"
FIVE = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}


@pytest.fixture(autouse=True)
def keys(frozen_clock: FrozenClock) -> None:
    pool(FIVE)


def call(api: ContractClient, action: str, **body: Any) -> dict[str, Any]:
    answer = api.post(
        f"{POOL}{action}/", body if action == "rebuild" else {"worker": "pi-1", **body}
    )
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    assert found.pop("now") == "2026-03-02T09:00:00Z"
    return found


# --- working ------------------------------------------------------------------------------------
def test_bucket_is_assigned_and_done(api: ContractClient, frozen_clock: FrozenClock) -> None:
    """S3.3, S3.5, S3.6."""
    fill(FIVE | {"a": 0.125}, contexts={"a": {"shop": 7}})

    assigned = call(api, "assign", limit=3)

    first, second, _third = assigned["items"]
    job = job_of("a")
    assert assigned["retry_after"] == 0.0
    assert first == {
        "key": "a",
        "id": str(job.pk),
        "lease_token": job.lease_token,
        "score": 0.125,
        "context": {"shop": 7},
        "lease_until": wire_time(frozen_clock.instant + timedelta(seconds=30)),
    }
    assert (second["key"], second["score"]) == ("b", 2)
    assert call(api, "check", keys=["a", "b", "c"]) == {"match": True, "missing": [], "extra": []}
    assert call(api, "done", keys=["a", "d"]) == {
        "done": ["a"],
        "refused": ["d"],
        "reasons": {"d": "not_found"},
    }
    assert call(api, "fail", keys=["b"], error="No route") == {
        "failed": ["b"],
        "refused": [],
        "reasons": {},
    }
    assert call(api, "release", keys=["c"])["released"] == ["c"]
    assert call(api, "check", keys=["c"]) == {"match": False, "missing": [], "extra": ["c"]}
    assert held() == {}
    assert job_of("a").client == ApiClient.objects.get().client_id


def test_bucket_has_no_more_than_fits_and_one_key_at_least(
    api: ContractClient, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """A worker could ask for 1,000 keys with contexts of 256 KB each, call by call."""
    fill(FIVE, contexts={key: {"text": "x" * 9_980} for key in FIVE})
    for most, counts in ((25_000, [2, 2]), (50_000, [5]), (5_000, [5])):
        with subtests.test(most=most):
            monkeypatch.setattr(pool_service, "ANSWER_BYTES", most)
            assert [len(call(api, "assign", limit=9)["items"]) for _ in counts] == counts
    call(api, "release", keys=[*FIVE])

    assert [each["key"] for each in call(api, "assign", limit=9)["items"]] == ["a"]
    assert [each["key"] for each in call(api, "assign", limit=9)["items"]] == ["a"]
    assert call(api, "done", keys=["a"])["done"] == ["a"]
    assert [each["key"] for each in call(api, "assign", limit=9)["items"]] == ["b"]


def test_empty_pool_says_when_to_ask_again(api: ContractClient) -> None:
    """S3.10: the header in whole seconds."""
    fill({})

    answer = api.post(f"{POOL}assign/", {"worker": "pi-1"})

    body = answer.json()
    assert body["items"] == []
    assert 0 < body["retry_after"] <= int(answer["Retry-After"])
    full = api.post(f"{POOL}assign/", {"worker": "pi-1"})
    assert full.status_code == 200


def test_worker_that_asks_is_present(api: ContractClient) -> None:
    """S3.3, S3.8: the register says whose bucket is where."""
    call(api, "assign", host="shop-3")

    worker = Worker.objects.get()
    assert (worker.name, worker.host, worker.types) == ("pi-1", "shop-3", ["keys"])
    assert worker.client == ApiClient.objects.get().client_id


def test_worker_that_is_to_take_nothing_keeps_what_it_has(api: ContractClient) -> None:
    call(api, "assign", limit=1)
    Worker.objects.update(is_quiet=True)
    register.forget_seen()

    assert [item["key"] for item in call(api, "assign", limit=3)["items"]] == ["a"]


def test_keys_of_a_worker_that_leaves_come_back(api: ContractClient) -> None:
    """S3.1, S3.9: counted."""
    call(api, "assign", limit=2)

    left = api.post("/api/v1/workers/leave/", {"name": "pi-1"}).json()

    assert left["released"] == 2
    assert waiting() == FIVE
    assert job_of("a").attempts == 1


# --- rebuilding ---------------------------------------------------------------------------------
def test_rebuild_counts_what_it_changes(api: ContractClient) -> None:
    """S3.4."""
    call(api, "assign", limit=1)

    assert call(api, "rebuild", items={"a": 1, "b": 2, "c": 9.5, "f": 6}) == {
        "added": 1,
        "withdrawn": 2,
        "held": 1,
        "unchanged": 1,
        "moved": 1,
        "more": False,
    }
    assert waiting() == {"b": 2, "f": 6, "c": 9.5}
    entry = JournalEntry.objects.filter(event="pool_rebuilt").latest("id")
    assert entry.actor == f"key:{ApiClient.objects.get().client_id}"


def test_thousand_keys_with_contexts_are_one_chunk(api: ContractClient) -> None:
    """S3.10: more are not, whatever their contexts."""
    items = {f"k{n}": n for n in range(1_000)}
    contexts = {key: {"n": 1, "m": "x" * 400} for key in items}

    assert call(api, "rebuild", items=items, contexts=contexts, epoch=9)["added"] == 1_000
    assert job_of("k999").context == contexts["k999"]
    answer = api.post(f"{POOL}rebuild/", {"items": {**items, "one": 1}})
    assert mistakes(answer) == ["items"]
    assert len(waiting()) == 1_005


def test_empty_rebuild_withdraws_nothing_unless_it_says_so(api: ContractClient) -> None:
    refused = api.post(f"{POOL}rebuild/", {"items": {}})

    assert refused.status_code == 400
    assert refused.json()["errors"] == [
        {
            "field": "items",
            "code": "invalid",
            "message": 'items is empty; to withdraw everything, send "last": true with an epoch',
        }
    ]
    meant = api.post(f"{POOL}rebuild/", {"items": {}, "epoch": 7, "last": True})
    assert meant.json()["withdrawn"] == len(FIVE)


def test_older_chunk_is_a_conflict(api: ContractClient) -> None:
    """S3.7."""
    call(api, "rebuild", items={"z": 1}, epoch=12)

    answer = api.post(f"{POOL}rebuild/", {"items": {"y": 1}, "epoch": 11, "last": True})

    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert "y" not in waiting()


def test_wrong_rebuild_changes_nothing(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S3.8: every mistake is named."""
    before = list(Job.objects.order_by("pk").values())
    for body, fields in (
        ({"items": {"a": "1"}}, ["items.a"]),
        ({"items": {"a": True, "b": None, "c": 1}}, ["items.a", "items.b"]),
        ({"items": {"a": 0.0001}}, ["items.a"]),
        ({"items": {"a": 9_000_000_000_000}}, ["items.a"]),
        ({"items": {"a b": 1}}, ["items.a b"]),
        ({"items": {"": 1}}, ["items."]),
        ({"items": {"k" * 129: 1}}, [f"items.{'k' * 80}"]),
        ({"items": {"a": 2**63 - 1}}, ["items.a"]),
        ({"items": {"a": [1]}}, ["items.a"]),
        ({"items": {"a;drop": 1, "../a": 2, "ä": 3}}, ["items.a;drop", "items.ä"]),
        ({"items": [1]}, ["items"]),
        ({"items": {f"k{n}": n for n in range(1_001)}}, ["items"]),
        ({"items": {f"k{n}": n for n in range(500)}, "contexts": {"x": {}}}, ["contexts.x"]),
        ({}, ["items"]),
        ({"items": {"a": 1}, "contexts": {"b": {}}}, ["contexts.b"]),
        ({"items": {"a": 1}, "contexts": {"a": 5}}, ["contexts.a"]),
        ({"items": {"a": 1}, "contexts": {"a": {"t": "\x00"}}}, ["contexts.a"]),
        ({"items": {"a": 1}, "contexts": {"a": {"t": "\ud800"}}}, ["contexts.a"]),
        ({"items": {"a": 1}, "contexts": [{}]}, ["contexts"]),
        ({"items": {"a": 1}, "last": True}, ["last"]),
        ({"items": {"a": 1}, "epoch": 0}, ["epoch"]),
        ({"items": {"a": 1}, "epoch": 1.5}, ["epoch"]),
        ({"items": {"a": 1}, "worker": "pi-1"}, ["worker"]),
    ):
        with subtests.test(str(fields)):
            answer = api.post(f"{POOL}rebuild/", body)

            assert mistakes(answer) == fields
            assert list(Job.objects.order_by("pk").values()) == before


def test_masks_in_contexts_are_refused_unless_the_key_is_shown_none(
    api: ContractClient, api_for: ApiFor
) -> None:
    body = {"items": {"new": 1}, "contexts": {"new": {"deep": [{"token": "••••••"}]}}}

    answer = api_for(scopes=["operate"]).post(f"{POOL}rebuild/", body)

    assert mistakes(answer) == ["contexts.new.deep[0].token"]
    assert not Job.objects.filter(key="new").exists()
    assert api.post(f"{POOL}rebuild/", body).status_code == 200
    assert job_of("new").context == body["contexts"]["new"]


def test_context_has_the_limits_of_a_single_one(api: ContractClient) -> None:
    body = {"items": {"a": 1, "b": 2}, "contexts": {"a": {}, "b": {"text": "x" * 262_144}}}

    answer = api.post(f"{POOL}rebuild/", body)

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert mistakes(answer, 413) == ["contexts.b"]


@pytest.mark.parametrize("key", ["k" * 128, "shop:7/till@north+1.a-b_c"])
def test_key_may_have_128_characters(api: ContractClient, key: str) -> None:
    """S3.8."""
    call(api, "rebuild", items={key: 1})

    assert [item["key"] for item in call(api, "assign")["items"]] == [key]
    assert call(api, "done", keys=[key])["done"] == [key]


# --- status and bindings ------------------------------------------------------------------------
def test_status_says_what_waits_and_who_holds(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    """S3.3."""
    call(api, "assign", limit=2)

    assert api.get(POOL).json() == {
        "waiting": 3,
        "held": 2,
        "epoch": 1,
        "workers": [
            {
                "client": ApiClient.objects.get().client_id,
                "worker": "pi-1",
                "held": 2,
                "oldest_lease_until": "2026-03-02T09:00:30Z",
            }
        ],
        "now": "2026-03-02T09:00:00Z",
    }


@pytest.mark.parametrize("name", ["mail", "nothing", "keys%20", "Keys"])
def test_type_that_is_no_pool_answers_as_an_unknown_one(
    api: ContractClient, name: str, frozen_clock: FrozenClock
) -> None:
    job_type("mail")
    for answer in (
        api.get(f"/api/v1/pools/{name}/"),
        api.post(f"/api/v1/pools/{name}/assign/", {"worker": "pi-1"}),
        api.post(f"/api/v1/pools/{name}/rebuild/", {"items": {"a": 1}}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_type_is_made_a_pool(api: ContractClient) -> None:
    """S2.2: while no job is open."""
    made = api.post("/api/v1/job-types/", {"name": "points", "pool": True, "lease_seconds": 60})
    assert (made.status_code, made.json()["pool"]) == (201, True)
    refused = api.patch("/api/v1/job-types/keys/", {"pool": False})

    assert mistakes(refused) == ["pool"]
    assert api.patch("/api/v1/job-types/points/", {"pool": False}).json()["pool"] is False
    clash = api.post("/api/v1/job-types/", {"name": "p", "pool": True, "unique": "never"})
    assert mistakes(clash) == ["unique"]
