"""Heartbeats over REST: leases, checkpoints, the register. S2.10, S2.20; I29, I30."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.common import clock
from apps.jobs.models import Job, Worker
from apps.jobs.rules.caller import Caller
from apps.jobs.services import control, register
from apps.jobs.services.leases import Heartbeat, Renewed, renew
from apps.jobs.sweeps import follow_workers, rescue
from tests.frozen import FrozenClock
from tests.history import move
from tests.integration.api.contract import ApiFor, ContractClient
from tests.integration.api.work_calls import HEARTBEAT, Held, beat, hold, named, settle
from tests.jobs import events_of, job_type, jobs, row

pytestmark = pytest.mark.django_db

WORKERS = "/api/v1/workers/"


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock) -> None:
    job_type("mail", lease_seconds=30, max_processing_seconds=900)


@pytest.fixture
def beating(api: ContractClient) -> None:
    """The worker pi-1 has registered."""
    api.post(f"{WORKERS}register/", {"name": "pi-1", "host": "pi", "types": ["mail"]})


def held(api: ContractClient, count: int = 1, **fields: Any) -> list[Held]:
    jobs(count)
    return hold(api, **fields)["jobs"]


# --- leases ---------------------------------------------------------------------------------------
def test_lease_of_an_archived_job_is_lost(
    api: ContractClient, api_for: ApiFor, frozen_clock: FrozenClock
) -> None:
    """S4.16: another key is told nothing of it."""
    [job] = held(api)
    settle(api, named(job, "succeeded"))
    frozen_clock.advance(days=8)
    assert move() == 1

    assert [each["code"] for each in beat(api, named(job))] == ["lease_lost"]
    other = api_for(scopes=["hold"])
    assert [each["code"] for each in beat(other, named(job))] == ["not_found"]


@pytest.mark.usefixtures("beating")
def test_heartbeat_renews_the_lease(api: ContractClient, frozen_clock: FrozenClock) -> None:
    """S2.20"""
    [job] = held(api)
    frozen_clock.advance(seconds=20)

    [lease] = beat(api, named(job))

    assert lease == {
        "id": job["id"],
        "ok": True,
        "lease_until": "2026-03-02T09:00:50Z",
        "cancel_requested": False,
    }
    assert row(int(job["id"])).lease_until == clock.now() + timedelta(seconds=30)


def test_heartbeat_never_shortens_what_was_promised(api: ContractClient) -> None:
    [job] = held(api, lease_seconds=600)

    assert beat(api, named(job))[0]["lease_until"] == "2026-03-02T09:10:00Z"
    assert beat(api, named(job, lease_seconds=700))[0]["lease_until"] == "2026-03-02T09:11:40Z"
    assert beat(api, named(job, lease_seconds=7000))[0]["lease_until"] == "2026-03-02T09:15:00Z"


@pytest.mark.parametrize("said", [{"progress": 40}, {"checkpoint": {"page": 7}}])
def test_sign_of_progress_moves_the_deadline(
    api: ContractClient, frozen_clock: FrozenClock, said: dict[str, Any]
) -> None:
    """S2.10: the age counts from the last data, so a job that goes on lives."""
    [job] = held(api)
    frozen_clock.advance(seconds=600)

    [lease] = beat(api, named(job, **said))

    after = row(int(job["id"]))
    assert after.hard_end_at == clock.now() + timedelta(seconds=900)
    # Its worker promised no heartbeats.
    assert lease["lease_until"] == "2026-03-02T09:25:00Z"
    assert (after.progress, after.checkpoint) == (said.get("progress"), said.get("checkpoint"))


def test_checkpoints_are_kept_in_their_order(api: ContractClient) -> None:
    [job] = held(api)

    [first] = beat(api, named(job, checkpoint=2, sequence=2))
    [repeat] = beat(api, named(job, checkpoint="other", sequence=2))
    [late] = beat(api, named(job, checkpoint=1, sequence=1))
    [unnumbered] = beat(api, named(job, checkpoint=3))

    assert [each["ok"] for each in (first, repeat, late, unnumbered)] == [True] * 4
    assert ["code" in each for each in (first, repeat, unnumbered)] == [False] * 3
    assert (late["code"], "comes too late" in late["message"]) == ("conflict", True)
    after = row(int(job["id"]))
    assert (after.checkpoint, after.sequence) == (3, 3)


def test_checkpoint_that_cannot_be_kept_costs_no_lease(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    [job] = held(api, lease_seconds=30)
    frozen_clock.advance(seconds=20)
    caller = Caller(row(int(job["id"])).client)
    kept = Heartbeat(id=int(job["id"]), token=job["lease_token"], checkpoint="\x00")

    [renewed] = renew(heartbeats=[kept], caller=caller)

    assert isinstance(renewed, Renewed)
    assert renewed.refused is not None and renewed.refused.code == "bad_text"
    assert renewed.until == clock.now() + timedelta(seconds=30)


def test_leases_that_are_not_the_callers(api: ContractClient, api_for: ApiFor) -> None:
    """I30: a wrong token is lost, a job of another key is unknown."""
    [job] = held(api)
    before = Job.objects.values().get()

    [wrong] = beat(api, {**named(job), "lease_token": "x"})
    [foreign] = beat(api_for(), named(job, progress=40))

    assert (wrong["ok"], wrong["code"]) == (False, "lease_lost")
    assert (foreign["ok"], foreign["code"]) == (False, "not_found")
    assert wrong["message"].startswith(f"This token does not hold job {job['id']}: it was taken")
    assert foreign["message"] == f"This key holds no job {job['id']}."
    assert Job.objects.values().get() == before


def test_earlier_token_beside_the_present_one_costs_no_lease(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    """I30: a process may have the job twice, once for a thread that does not know yet."""
    [early] = held(api, lease_seconds=30)
    frozen_clock.advance(seconds=31)
    rescue()
    [late] = held(api, 0)

    for heartbeats in ([early, late], [late, early]):
        answers = beat(api, *map(named, heartbeats))
        assert [each["ok"] for each in answers] == [each is late for each in heartbeats]
    answers = beat(api, named(early), named(late, checkpoint=5))

    assert [each["ok"] for each in answers] == [False, True]
    assert row(int(late["id"])).checkpoint == 5


def test_wish_to_cancel_reaches_the_worker(api: ContractClient) -> None:
    [job] = held(api)
    control.cancel(job=row(int(job["id"])), reason="not wanted", actor="admin")

    assert beat(api, named(job))[0]["cancel_requested"]
    assert settle(api, named(job, "cancelled"))[0]["status"] == "cancelled"


def test_many_leases_take_a_few_statements(api: ContractClient) -> None:
    """Though each has a token of its own."""
    job_type("mail", batch_limit=1)
    heartbeats = [named(held(api)[0]) for _ in range(10)]
    beat(api, *heartbeats[:1])

    with CaptureQueriesContext(connection) as few:
        beat(api, *heartbeats)

    assert len([each for each in few if each["sql"].startswith("UPDATE")]) == 1
    assert len(few) <= 4


# --- the register ---------------------------------------------------------------------------------
def test_worker_registers_beats_and_leaves(api: ContractClient) -> None:
    body = {"name": "pi-1", "host": "pi", "types": ["mail"], "capacity": 4, "version": "1.2"}
    registered = api.post(f"{WORKERS}register/", body).json()
    beaten = api.post(f"{WORKERS}heartbeat/", {"name": "pi-1", "running": 3}).json()

    worker = Worker.objects.get()
    assert beaten == registered
    assert (registered["heartbeat_seconds"], registered["stop"]) == (5.0, False)
    assert (worker.kind, worker.host, worker.types) == ("http", "pi", ["mail"])
    assert (worker.capacity, worker.version, worker.running) == (4, "1.2", 3)

    assert api.post(f"{WORKERS}leave/", {"name": "pi-1"}).json()["released"] == 0
    assert Worker.objects.get().state == "gone"
    assert api.post(f"{WORKERS}heartbeat/", {"name": "pi-1"}).status_code == 404


def test_list_has_who_is_there_and_who_is_lost_for_keys_that_are_bound_to_nothing(
    api: ContractClient, api_for: ApiFor, beating: None, frozen_clock: FrozenClock
) -> None:
    frozen_clock.advance(hours=1)
    for name in ("pi-2", "pi-3"):
        api.post(f"{WORKERS}register/", {"name": name, "types": ["mail"], "capacity": 2})
    api.post(f"{WORKERS}leave/", {"name": "pi-3"})

    rows = api.get(WORKERS).json()["results"]

    assert [(row["name"], row["lost"]) for row in rows] == [("pi-2", False), ("pi-1", True)]
    assert (rows[0]["kind"], rows[0]["types"], rows[0]["capacity"]) == ("http", ["mail"], 2)
    for bound in ({"job_types": ["mail"]}, {"executors": ["uid_alice"]}):
        assert api_for(**bound).get(WORKERS).json() == {"next": None, "results": []}


def test_worker_that_never_came_leaves_all_the_same(api: ContractClient) -> None:
    assert api.post(f"{WORKERS}leave/", {"name": "pi-9"}).status_code == 200


@pytest.mark.usefixtures("beating")
def test_what_a_leaving_worker_held_is_free_at_once(api: ContractClient) -> None:
    """Counted: it may have been worked on."""
    [job] = held(api)

    answer = api.post(f"{WORKERS}leave/", {"name": "pi-1"}).json()

    assert answer["released"] == 1
    after = row(int(job["id"]))
    assert (after.status, after.attempts, events_of(after.pk)) == ("ready", 1, ["lost"])


def test_worker_that_promises_nothing_is_not_lost(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    [job] = held(api)
    for _ in range(14):
        frozen_clock.advance(seconds=60)
        assert rescue() == 0

    assert row(int(job["id"])).status == "running"
    frozen_clock.advance(seconds=60)
    assert rescue() == 1


def test_two_keys_may_both_have_a_worker_of_one_name(
    api: ContractClient, api_for: ApiFor, frozen_clock: FrozenClock
) -> None:
    """One of them is lost, and the other keeps its jobs."""
    other = api_for()
    for each in (api, other):
        each.post(f"{WORKERS}register/", {"name": "pi-1", "types": ["mail"]})
    [mine], [theirs] = held(api, lease_seconds=900), held(other, lease_seconds=900)
    frozen_clock.advance(seconds=20)
    other.post(f"{WORKERS}heartbeat/", {"name": "pi-1", "running": 1})
    frozen_clock.advance(seconds=5)

    assert rescue() == 1
    assert (row(int(mine["id"])).status, row(int(theirs["id"])).status) == ("ready", "running")


def test_types_outside_the_binding_are_not_registered(api_for: ApiFor) -> None:
    api = api_for(job_types=["mail"])

    api.post(f"{WORKERS}register/", {"name": "pi-1", "types": ["bill", "mail"]})

    assert Worker.objects.get().types == ["mail"]


def test_every_call_notes_the_worker_now_and_then(
    api: ContractClient, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = frozen_clock.instant
    beat(api, {"id": "7", "lease_token": "x"})
    frozen_clock.advance(seconds=60)
    beat(api, {"id": "7", "lease_token": "x"})
    assert Worker.objects.get().last_heartbeat_at == began

    monkeypatch.setattr(register, "time", SimpleNamespace(monotonic=lambda: 10.0**9))
    beat(api, {"id": "7", "lease_token": "x"})
    assert Worker.objects.get().last_heartbeat_at == frozen_clock.instant


def test_worker_that_never_registered_is_listed_with_its_pools_and_its_latest_types(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    job_type("bill")
    job_type("numbers", pool=True)

    def noted(name: str) -> list[str]:
        hold(api, types=[name])
        return Worker.objects.get().types

    assert noted("mail") == ["mail"]
    api.post("/api/v1/pools/numbers/assign/", {"worker": "pi-1"})
    assert Worker.objects.get().types == ["mail", "numbers"]
    assert noted("mail") == ["mail", "numbers"]
    assert noted("bill") == ["bill", "numbers"]


@pytest.mark.usefixtures("beating")
def test_worker_gets_its_shards_and_their_epoch(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    """S4.10: after its second heartbeat; two workers share them, and each holds its own first."""
    api.post(f"{WORKERS}register/", {"name": "pi-2", "types": ["mail"]})
    frozen_clock.advance(seconds=5)
    for name in ("pi-1", "pi-2"):
        first = api.post(f"{WORKERS}heartbeat/", {"name": name}).json()
        assert (first["shards"], first["epoch"]) == ([], 0)
    follow_workers()

    one, two = (
        api.post(f"{WORKERS}heartbeat/", {"name": name}).json() for name in ("pi-1", "pi-2")
    )

    assert sorted(one["shards"] + two["shards"]) == list(range(1024))
    assert (one["epoch"], two["epoch"]) == (1, 1)
    unknown = [{"id": "1", "lease_token": "0" * 32}]
    answer = api.post(HEARTBEAT, {"worker": "pi-1", "leases": unknown}).json()
    assert answer["epoch"] == 1
    [foreign], [own] = jobs(1, shard=two["shards"][0]), jobs(1, shard=one["shards"][0])
    for number in (own, foreign):
        assert [job["id"] for job in hold(api, limit=1)["jobs"]] == [str(number)]
