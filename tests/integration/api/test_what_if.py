"""POST /once-tasks/[{id}/]what-if/ and the same of rotations. S0.31."""

from __future__ import annotations

from typing import Any

import pytest

from tests import factories
from tests.integration.api.contract import ContractClient, mistakes
from tests.integration.api.world import checksum

pytestmark = [pytest.mark.django_db, pytest.mark.both]

ONCE = "/api/v1/once-tasks/"
ROTATE = "/api/v1/rotate-tasks/"


def titles(queue: list[dict[str, Any]]) -> list[tuple[Any, str]]:
    return [(item["task"], item["title"]) for item in queue]


def test_new_task_has_no_id_yet(api: ContractClient, frozen_clock: Any) -> None:
    """S0.31: defaults as in a real POST."""
    task = factories.once_task(factories.user(), "A")
    before = checksum()

    answer = api.post(f"{ONCE}what-if/", {"title": "B", "executor": "uid_alice", "priority": 1})

    assert answer.status_code == 200
    body = answer.json()
    assert body["more_members"] is False
    (change,) = body["executors"]
    assert (change["name"], change["more"]) == ("uid_alice", False)
    assert titles(change["before"]) == [(task.pk, "A")]
    assert titles(change["after"]) == [(None, "B"), (task.pk, "A")]
    assert change["after"][0] == {
        "source": "once",
        "task": None,
        "occurrence_at": "2026-03-02T09:00:00Z",
        "title": "B",
        "priority": 1,
        "remaining": 1,
        "at": "2026-03-02T09:00:00Z",
        "number": None,
    }
    assert checksum() == before


def test_edit_takes_the_changed_fields_alone(api: ContractClient, frozen_clock: Any) -> None:
    """S0.31: all others stay as they are, whatever their defaults."""
    task = factories.rotation(
        factories.user(), "A", priority=7, rule={"every_days": 1, "at": "10:00"}, time_zone="UTC"
    )
    before = checksum()

    body = api.post(
        f"{ROTATE}{task.pk}/what-if/",
        {
            "rule": {"every_days": 1, "at": "11:30"},
            "from": "2026-03-03T00:00:00Z",
            "to": "2026-03-04T00:00:00Z",
        },
    ).json()

    (change,) = body["executors"]
    assert [(i["occurrence_at"], i["priority"]) for i in change["before"]] == [
        ("2026-03-03T10:00:00Z", 7)
    ]
    assert [(i["occurrence_at"], i["priority"]) for i in change["after"]] == [
        ("2026-03-03T11:30:00Z", 7)
    ]
    assert checksum() == before


def test_what_a_save_would_refuse_is_refused(
    api: ContractClient, frozen_clock: Any, subtests: pytest.Subtests
) -> None:
    task = factories.once_task(factories.user())
    for body, field, status in (
        ({"priority": 101}, "priority", 400),
        ({"executor": "uid_nobody"}, "executor", 400),
        ({"end_at": "2026-03-01T09:00:00Z"}, "end_at", 400),
        ({"from": "2026-03-02T09:00:00Z", "to": "2026-03-02T09:00:00Z"}, "to", 400),
        ({"to": "2027-04-07T09:00:00Z"}, "to", 400),
        ({"from": "9999-12-31T00:00:00Z"}, "from", 400),
        ({"version": 9}, None, 409),
    ):
        with subtests.test(body=body):
            answer = api.post(f"{ONCE}{task.pk}/what-if/", body)

            assert mistakes(answer, status) == ([field] if field else [])


def test_address_belongs_to_no_task(api: ContractClient, frozen_clock: Any) -> None:
    task = factories.once_task(factories.user())
    factories.rotation(factories.member("uid_alice"))

    assert api.post(f"{ONCE}{task.pk + 1}/what-if/", {}).status_code == 404
    assert api.request("GET", f"{ONCE}what-if/").status_code == 405
