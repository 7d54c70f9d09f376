"""Archived dispatches and tasks over REST. S0.6, S0.8."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.dispatch.models import ArchivedTask, OnceTask, RotateTask
from tests import factories
from tests.integration.api.contract import ApiFor, ContractClient, mistakes
from tests.integration.dispatch.housekeeping import archived, ended, where

pytestmark = [pytest.mark.django_db, pytest.mark.both]

BASE = "/api/v1/"
REASON = {"reason": "The shop asks again"}


@pytest.fixture(autouse=True)
def ann(frozen_clock: Any) -> Any:
    return factories.user("uid_ann")


def numbers(api: ContractClient, **query: Any) -> list[str]:
    answer = api.get(f"{BASE}dispatches/", **query)
    assert answer.status_code == 200, answer.content
    return [row["number"] for row in answer.json()["results"]]


def test_archived_dispatch_has_the_body_of_any_dispatch(api: ContractClient) -> None:
    """S0.8: with the time at which it went there."""
    [live] = ended(ago=timedelta(days=29))
    [old] = archived()
    assert where(old) == ["dispatch_archived"]
    before = api.get(f"{BASE}dispatches/{live}/").json()
    after = api.get(f"{BASE}dispatches/{old}/").json()
    assert before["archived_at"] is None
    assert after["archived_at"] == clock.now().isoformat().replace("+00:00", "Z")
    assert before.keys() == after.keys()
    assert (after["executor"], after["state"]) == ("uid_ann", "succeeded")
    assert api.post(f"{BASE}dispatches/{old}/cancel/", REASON).json()["code"] == "closed"


def test_list_is_of_the_archive_or_of_the_others(api: ContractClient) -> None:
    """S0.8"""
    old = archived(3)
    [live] = ended(ago=timedelta(days=1))
    assert numbers(api) == numbers(api, archived="false") == [str(live)]
    newest_first = [str(number) for number in sorted(old, reverse=True)]
    assert numbers(api, archived="true") == newest_first
    assert numbers(api, archived="true", executor="uid_ann") == newest_first
    assert numbers(api, archived="true", source="rotate", task="999") == newest_first
    assert numbers(api, archived="true", source="rotate", task="998") == []
    assert numbers(api, archived="true", dispatched_after=clock.now().isoformat()) == []


def test_archive_has_no_filter_by_state(api: ContractClient) -> None:
    answer = api.get(f"{BASE}dispatches/", archived="true", state="failed")
    assert mistakes(answer) == ["state"]


@pytest.mark.parametrize("kind", ["once", "rotate"])
def test_task_in_the_archive_is_listed_and_restored(
    api: ContractClient, ann: Any, kind: str
) -> None:
    """S0.8: under its number, and paused; until then the others say where it is."""
    number = factories.archived_task(kind, ann)
    [row] = api.get(f"{BASE}archived-tasks/", executor="uid_ann").json()["results"]
    assert (row["source"], row["id"], row["executor"]) == (kind, number, "uid_ann")
    assert row["archived_at"] is not None
    url = f"{BASE}{kind}-tasks/{number}/"
    for send in (
        lambda: api.get(url),
        lambda: api.patch(url, {"priority": 1}),
        lambda: api.delete(url),
    ):
        answer = send()
        assert (answer.status_code, answer.json()["code"]) == (409, "archived")
        assert "restore it" in answer.json()["detail"]

    restored = api.post(f"{url}restore/", REASON)

    assert restored.status_code == 200, restored.content
    assert (restored.json()["id"], restored.json()["status"]) == (number, "paused")
    model = OnceTask if kind == "once" else RotateTask
    assert model._default_manager.get().pk == number
    assert not ArchivedTask.objects.exists()
    again = api.post(f"{url}restore/", REASON)
    assert again.status_code == 404
    assert api.get(f"{BASE}archived-tasks/").json()["results"] == []


def test_bound_key_neither_sees_nor_restores_those_of_others(ann: Any, api_for: ApiFor) -> None:
    number = factories.archived_task("once", ann)
    factories.user("uid_bob")
    bobs = api_for(executors=["uid_bob"])
    assert bobs.get(f"{BASE}archived-tasks/").json()["results"] == []
    assert bobs.get(f"{BASE}once-tasks/{number}/").status_code == 404
    assert bobs.post(f"{BASE}once-tasks/{number}/restore/", REASON).status_code == 404
    assert ArchivedTask.objects.exists()
