"""Undo over REST: the act that an answer names is taken back, in rows that have not moved since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.access import authentication
from apps.access import services as access
from apps.access.models import ApiClient
from apps.bulk.admin.undo_page import deed_url
from apps.bulk.models import BulkRow, BulkRun
from apps.bulk.services.undo import Deed
from apps.common import clock
from apps.jobs.models import Job
from apps.journal.models import JournalEntry
from tests import factories
from tests.clients import JsonClient
from tests.frozen import FrozenClock
from tests.integration.api.contract import ApiFor, ContractClient
from tests.integration.bulk.conftest import carry_out
from tests.integration.bulk.test_undo import columns
from tests.jobs import job_type, jobs
from tests.pages import text_of
from tests.races import Race

pytestmark = pytest.mark.django_db
BASE, WHY = "/api/v1/", {"reason": "Wrong list"}
MOVED = "has changed since"


@pytest.fixture(autouse=True)
def types(db: None) -> None:
    job_type("mail")
    job_type("web")


def waiting(count: int = 1, **columns: Any) -> list[int]:
    later = clock.now() + timedelta(hours=5)
    return jobs(count, **{"run_at": later, "status": "scheduled", **columns})


def act(api: JsonClient, number: int, name: str = "cancel", **more: Any) -> str:
    answer = api.post(f"{BASE}jobs/{number}/{name}/", WHY | more)
    assert answer.status_code == 200, answer.content
    return str(answer.json()["undo"])


def undo(api: JsonClient, act: object, **body: str) -> Any:
    return api.post(f"{BASE}undo/{act}/", body)


def bulk(api: ContractClient, kind: str = "jobs", verb: str = "cancel") -> BulkRun:
    body = {"verb": verb, "filter": {}, "all": True, **WHY}
    answer = api.post(f"{BASE}{kind}/bulk/", body)
    assert (answer.status_code, answer.json()["undo"]) == (202, None)
    return BulkRun.objects.get(pk=answer.json()["id"])


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("cancel", "scheduled"),
        ("run-now", "scheduled"),
        ("mark-done", "failed"),
        ("retry", "failed"),
    ],
)
def test_job_gets_back_its_state_and_its_time(api: ContractClient, name: str, status: str) -> None:
    [number] = waiting(status=status, attempts=2)
    before = columns(Job(pk=number))
    number_of_act = act(api, number, name)

    answer = undo(api, number_of_act, reason="It was right")

    assert (answer.status_code, answer.json()) == (200, {"restored": 1, "left": []})
    assert columns(Job(pk=number)) == before
    entry = JournalEntry.objects.latest("pk")
    assert (entry.event, entry.reason) == ("undone", "It was right")
    left = {"restored": 0, "left": [{"id": str(number), "why": MOVED}]}
    assert undo(api, number_of_act).json() == left


def test_what_a_worker_knows_of_or_is_gone_names_no_act(api: ContractClient) -> None:
    [running], [done] = waiting(status="running"), waiting(status="succeeded", result={})
    assert act(api, running) == act(api, running, force=True) == act(api, done, "retry") == "None"
    [edited] = waiting()
    answer = api.patch(f"{BASE}jobs/{edited}/", {"version": 1, "priority": 0, **WHY})
    assert answer.json()["undo"] is None
    answer = api.patch(f"{BASE}jobs/{edited}/", {"version": 1, "priority": 9, **WHY})
    assert undo(api, answer.json()["undo"]).json()["restored"] == 1


@pytest.mark.parametrize("kind", ["once", "rotate"])
def test_task_gets_back_what_it_had(kind: str, api: ContractClient) -> None:
    make = factories.once_task if kind == "once" else factories.rotation
    task = make(factories.user())
    url, before = f"{BASE}{kind}-tasks/{task.pk}/", columns(task)
    changed = api.patch(url, {"status": "paused", "title": "Till", "priority": 7})
    assert undo(api, changed.json()["undo"]).json() == {"restored": 1, "left": []}
    assert columns(task) == before
    assert api.patch(url, {"priority": before["priority"]}).json()["undo"] is None
    deleted = api.delete(url)
    assert undo(api, deleted.headers["Undo"]).json() == {"restored": 1, "left": []}
    assert columns(task) == before


def test_act_is_taken_back_for_ten_minutes(api: ContractClient, frozen_clock: FrozenClock) -> None:
    first, second = waiting(2)
    acts = [act(api, first), act(api, second)]
    frozen_clock.advance(minutes=9)
    assert undo(api, acts[0]).json()["restored"] == 1
    frozen_clock.advance(minutes=2)

    late = undo(api, acts[1])

    assert late.status_code == 409
    assert "more than 10 minutes ago" in late.json()["detail"]
    assert Job.objects.get(pk=second).status == "cancelled"


def test_act_of_another_key_or_beyond_the_binding_is_unknown(
    api: ContractClient,
    api_for: ApiFor,
    frozen_clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A key is bound anew meanwhile.
    monkeypatch.setattr(authentication, "BELIEVED_SECONDS", 0)
    of_mail = api_for(job_types=["mail"], name="mail")
    task = factories.once_task(factories.user())
    free = api_for(name="free")
    acts = {
        "another key": (api, act(of_mail, waiting()[0])),
        "a key of a type": (of_mail, act(api, waiting()[0])),
        "an entry that is no act": (api, JournalEntry.objects.order_by("pk")[0].pk),
        "beyond a new binding": (free, act(free, waiting(type="web")[0])),
        "a task, with a binding to types": (
            free,
            free.patch(f"{BASE}once-tasks/{task.pk}/", {"priority": 3}).json()["undo"],
        ),
        "no number": (api, "x"),
    }
    row = ApiClient.objects.get(name="free")
    access.edit_client(row, version=row.version, actor="test", job_types=["mail"])
    frozen_clock.advance(minutes=11)
    before = JournalEntry.objects.count()

    for name, (client, number) in acts.items():
        answer = undo(client, number)
        unknown = undo(client, 77)
        found = answer.json()["detail"].replace(str(number), "77")
        assert (answer.status_code, found) == (404, unknown.json()["detail"]), name
    assert JournalEntry.objects.count() == before
    # Its own act would be known, and is late.
    assert undo(of_mail, acts["another key"][1]).status_code == 409


def test_pages_and_rest_take_an_act_back_once(api: ContractClient, admin_client: Client) -> None:
    by_page, by_rest = waiting(2)
    acts = [act(api, number) for number in (by_page, by_rest)]
    pages = [
        deed_url(Deed("jobs", "cancel", entry.actor, entry.pk, entry.pk))
        for entry in JournalEntry.objects.filter(pk__in=acts).order_by("pk")
    ]
    assert "Undone: 1 row." in text_of(admin_client.post(pages[0], follow=True))
    assert undo(api, acts[0]).json()["left"] == [{"id": str(by_page), "why": MOVED}]
    assert undo(api, acts[1]).json()["restored"] == 1
    assert MOVED in text_of(admin_client.post(pages[1], follow=True))
    assert {*Job.objects.values_list("status", flat=True)} == {"scheduled"}


def test_run_is_taken_back_for_ten_minutes_from_its_end_on(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    waiting(2)
    run = bulk(api)
    frozen_clock.advance(minutes=20)
    carry_out(run)
    frozen_clock.advance(minutes=9)
    assert api.get(f"{BASE}bulk/{run.pk}/").json()["undo"] == f"bulk:{run.pk}"
    frozen_clock.advance(minutes=2)

    late = undo(api, f"bulk:{run.pk}")

    assert api.get(f"{BASE}bulk/{run.pk}/").json()["undo"] is None
    assert late.status_code == 409
    assert "more than 10 minutes ago" in late.json()["detail"]


def test_run_is_undone_by_a_run(api: ContractClient, api_for: ApiFor) -> None:
    kept, moved = waiting(2)
    run = bulk(api)
    assert (
        undo(api, f"bulk:{run.pk}").json()["detail"].startswith(f"Bulk run {run.pk} is under way")
    )
    carry_out(run)
    act(api, moved, "retry")
    told = api.get(f"{BASE}bulk/{run.pk}/").json()
    assert undo(api_for(job_types=["mail"]), told["undo"]).status_code == 404

    answer = undo(api, told["undo"])

    assert answer.status_code == 202
    new = BulkRun.objects.get(pk=answer.json()["id"])
    assert answer.headers["Location"] == f"{BASE}bulk/{new.pk}/"
    carry_out(new)
    ended = api.get(answer.headers["Location"]).json()
    assert (ended["done"], ended["skipped"], ended["undo"]) == (1, 1, None)
    assert BulkRow.objects.get(run=new, target=moved).why == MOVED
    assert Job.objects.get(pk=kept).status == "scheduled"
    refused = undo(api, f"bulk:{new.pk}")
    assert (refused.status_code, refused.json()["detail"]) == (409, "Do it again instead.")


@pytest.mark.both
def test_worker_and_undo_never_both_take_the_job(
    racers: Callable[..., Race], make_key: Callable[..., str]
) -> None:
    key, numbers = make_key(), waiting(8)
    api = JsonClient(key)
    acts = [act(api, number, "run-now") for number in numbers]
    body = {"worker": "pi-1", "types": ["mail"], "limit": 2}

    def undo_all() -> int:
        return sum(undo(JsonClient(key), each).json()["restored"] for each in acts)

    def hold_all() -> int:
        client = JsonClient(key)
        return sum(len(client.post(f"{BASE}jobs/hold/", body).json()["jobs"]) for _ in range(4))

    undone, held = racers([undo_all, hold_all]).results

    found = [*Job.objects.values_list("status", flat=True)]
    assert (found.count("scheduled"), found.count("running")) == (undone, held)
    assert undone + held <= len(numbers)
