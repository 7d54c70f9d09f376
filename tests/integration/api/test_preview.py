"""GET /executors/{name}/preview/: what an executor will get, on the wire. S0.31."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests import callback, factories
from tests.integration.api.contract import ApiFor, ContractClient, mistakes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]

ALICE = "/api/v1/executors/uid_alice/preview/"


def test_items_are_in_hand_out_order(api: ContractClient) -> None:
    """S0.31: the open one first, then what is due, then onward for seven days."""
    group = factories.group("gid_sales", ["uid_alice"])
    alice = factories.member("uid_alice")
    first = factories.once_task(alice, "In hand")
    taken = callback.take_next(alice)
    daily = factories.rotation(
        group,
        "Each morning",
        rule={"every_days": 1, "at": "10:00"},
        time_zone="UTC",
        mode="multi",
        dispatch_times=None,
        priority=5,
    )

    body = api.get(ALICE).json()

    assert body["items"][:2] == [
        {
            "source": "once",
            "task": first.pk,
            "occurrence_at": "2026-03-02T09:00:00Z",
            "title": "In hand",
            "priority": 0,
            "remaining": 0,
            "at": "2026-03-02T09:00:00Z",
            "number": str(taken.pk),
        },
        {
            "source": "rotate",
            "task": daily.pk,
            "occurrence_at": "2026-03-02T10:00:00Z",
            "title": "Each morning",
            "priority": 5,
            "remaining": 1,
            "at": "2026-03-02T10:00:00Z",
            "number": None,
        },
    ]
    assert (len(body["items"]), body["more"]) == (1 + 7, False)


def test_period_is_from_its_start_to_before_its_end(api: ContractClient, frozen_clock: Any) -> None:
    alice = factories.user()
    for hours in (0, 1, 2, 3):
        start = frozen_clock.instant + timedelta(hours=hours)
        factories.once_task(alice, str(hours), start_at=start)

    body = api.get(ALICE, **{"from": "2026-03-02T10:00:00Z", "to": "2026-03-02T12:00:00Z"}).json()

    assert [item["title"] for item in body["items"]] == ["1", "2"]


def test_period_that_is_none_is_refused(api: ContractClient, subtests: pytest.Subtests) -> None:
    factories.user()
    for query, field in (
        ({"from": "2026-03-02T10:00:00Z", "to": "2026-03-02T10:00:00Z"}, "to"),
        ({"from": "2026-03-01T10:00:00Z", "to": "2026-03-02T09:00:00Z"}, "to"),
        ({"from": "2026-03-02T09:00:00Z", "to": "2027-04-06T09:00:01Z"}, "to"),
        ({"from": "yesterday"}, "from"),
        ({"to": "2026-03-02"}, "to"),
        ({"until": "2026-03-02T10:00:00Z"}, "until"),
    ):
        with subtests.test(query=query):
            answer = api.get(ALICE, **query)

            assert mistakes(answer) == [field]


def test_400_days_can_be_previewed(api: ContractClient) -> None:
    """S0.31: at most 1,000 items, and it says that there are more."""
    factories.rotation(factories.user(), rule={"every_minutes": 1})

    body = api.get(ALICE, **{"to": "2027-04-06T09:00:00Z"}).json()

    assert (len(body["items"]), body["more"]) == (1000, True)
    assert body["items"][-1]["at"] == "2026-03-03T01:39:00Z"


@pytest.mark.both
def test_titles_are_those_of_tasks_that_the_key_may_read(
    api: ContractClient, api_for: ApiFor
) -> None:
    """The tasks of a group that the key is not bound to keep their places."""
    group = factories.group("gid_sales", ["uid_alice"])
    alice = factories.member("uid_alice")
    factories.once_task(group, "In hand", priority=9)
    callback.take_next(alice)
    for number in (1, 2):
        factories.once_task(group, f"Theirs {number}", priority=number)
        factories.once_task(alice, f"Hers {number}", priority=number)
    factories.rotation(group, "Theirs each day", rule={"every_days": 1, "at": "10:00"})
    draft = {"title": "Drafted", "executor": "uid_alice"}

    def read(key: ContractClient) -> list[list[dict[str, Any]]]:
        [change] = key.post("/api/v1/once-tasks/what-if/", draft).json()["executors"]
        return [key.get(ALICE).json()["items"], change["before"], change["after"]]

    bound = api_for(executors=["uid_alice"])
    for full, seen in zip(read(api), read(bound), strict=True):
        assert len(full) == len(seen) > 10
        for one, other in zip(full, seen, strict=True):
            path = f"/api/v1/{one['source']}-tasks/{one['task']}/"
            is_open = one["number"] is not None or one["task"] is None
            may_read = is_open or bound.get(path).status_code == 200
            assert other == {**one, "title": one["title"] if may_read else ""}
        assert {item["title"] for item in seen} >= {"", "In hand", "Hers 1", "Hers 2"}
