"""GET /explain/: the reasons on the wire. S0.31."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests import callback, factories
from tests.integration.api.contract import ApiFor, ContractClient, mistakes

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("frozen_clock")]

EXPLAIN = "/api/v1/explain/"
NO_TASK = {"source": None, "task": None}
DUE = "2026-03-02T10:00:00Z"


def test_reasons_are_listed_with_sentence_and_instant(api: ContractClient) -> None:
    """S0.31: in English, whatever the caller's language."""
    alice = factories.user()
    task = factories.once_task(alice, lease_seconds=60)
    taken = callback.take_next(alice)

    answer = api.request(
        "GET",
        EXPLAIN,
        query={"executor": "uid_alice", "source": "once", "task": task.pk},
        headers={"Accept-Language": "zh-hans"},
    )

    assert answer.json() == {
        "eligible": False,
        "occurrence_at": "2026-03-02T09:00:00Z",
        "reasons": [
            {
                "code": "in_flight",
                "detail": f"uid_alice holds it as dispatch {taken.pk}; a pull returns the "
                "same one.",
                "until": "2026-03-02T09:01:00Z",
            },
            {
                "code": "quota_used",
                "detail": "Its quota of 1 is used up.",
                "until": "2026-03-02T09:01:00Z",
            },
        ],
    }


def test_an_occurrence_can_be_named(api: ContractClient) -> None:
    task = factories.rotation(factories.user())
    query = {"executor": "uid_alice", "source": "rotate", "task": task.pk}

    now = api.get(EXPLAIN, **query).json()
    next_one = api.get(EXPLAIN, **query, occurrence_at="2026-03-02T09:30:00Z").json()

    assert (now["eligible"], now["reasons"][0]["code"]) == (True, "ok")
    assert next_one["reasons"] == [
        {
            "code": "not_due",
            "detail": "It is due at 2026-03-02T09:30:00Z.",
            "until": "2026-03-02T09:30:00Z",
        }
    ]


def test_what_there_is_not_is_refused(api: ContractClient, subtests: pytest.Subtests) -> None:
    factories.group("gid_sales")
    task = factories.once_task(factories.user())
    for changes, status, field in (
        ({"executor": "uid_nobody"}, 404, None),
        ({"executor": "gid_sales"}, 400, "executor"),
        ({"source": "daily"}, 400, "source"),
        ({"task": 999}, 404, None),
        ({"task": 0}, 400, "task"),
        ({"task": "one"}, 400, "task"),
        ({"occurrence_at": "2026-03-02T09:30:00Z"}, 400, "occurrence_at"),
        ({"at": "now"}, 400, "at"),
        # Half of a task, and nothing for a group.
        ({"source": None}, 400, "source"),
        ({"task": None}, 400, "task"),
        ({**NO_TASK, "occurrence_at": "2026-03-02T09:00:00Z"}, 400, "task"),
        ({**NO_TASK, "executor": "gid_sales"}, 400, "executor"),
    ):
        with subtests.test(changes=changes):
            asked = {"executor": "uid_alice", "source": "once", "task": task.pk, **changes}
            query = {name: value for name, value in asked.items() if value is not None}

            answer = api.get(EXPLAIN, **query)

            assert mistakes(answer, status) == ([field] if field else [])


def test_without_a_task_all_are_grouped_by_their_first_reason(
    api: ContractClient, frozen_clock: Any
) -> None:
    """S0.31: why a user gets nothing."""
    group = factories.group("gid_shop", ["uid_alice"])
    paused = factories.once_task(group, "shelf", status="paused")
    later = factories.rotation(
        factories.member("uid_alice"),
        start_at=frozen_clock.instant + timedelta(hours=1),
        rule={"every_minutes": 30},
    )

    answer = api.get(EXPLAIN, executor="uid_alice").json()

    not_due, is_paused = answer["groups"]
    assert (not_due["code"], not_due["count"], not_due["until"]) == ("not_due", 1, DUE)
    assert not_due["tasks"] == [
        {
            "source": "rotate",
            "task": later.pk,
            "title": later.title,
            "occurrence_at": DUE,
            "detail": f"It is due at {DUE}.",
        }
    ]
    assert (is_paused["code"], is_paused["count"], is_paused["until"]) == ("paused", 1, None)
    assert [each["task"] for each in is_paused["tasks"]] == [paused.pk]
    assert (answer["until"], answer["more"]) == (DUE, False)


def test_all_tasks_are_those_that_the_key_is_bound_to(api_for: ApiFor) -> None:
    for name in ("gid_north", "gid_south"):
        factories.once_task(factories.group(name, ["uid_alice"]), name, status="paused")
    bound = api_for(executors=["gid_north"])

    [found] = bound.get(EXPLAIN, executor="uid_alice").json()["groups"]

    assert [each["title"] for each in found["tasks"]] == ["gid_north"]
