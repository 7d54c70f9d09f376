"""/rotate-tasks/ and /rotate-tasks/{id}/: work that comes again and again. S0.4, S0.11, S0.23."""

from __future__ import annotations

from typing import Any

import pytest

from apps.dispatch.models import RotateTask
from tests import factories
from tests.integration.api.contract import mistakes
from tests.integration.api.test_once_tasks import DEFAULTS

pytestmark = pytest.mark.django_db

TASKS = "/api/v1/rotate-tasks/"
PLAN = {"title": "Check the till", "executor": "uid_alice", "rule": {"every_minutes": 30}}


@pytest.fixture(autouse=True)
def alice(frozen_clock: Any) -> None:
    """The clock stands at Monday 2026-03-02 09:00 UTC."""
    factories.user()


def test_new_rotation_has_the_defaults_of_the_contract(api: Any) -> None:
    answer = api.post(TASKS, PLAN)

    assert answer.status_code == 201
    body = answer.json()
    assert body == {
        "id": body["id"],
        **PLAN,
        **DEFAULTS,
        "available_until": "2026-03-02T09:30:00Z",
        "time_zone": "UTC",
        "misfire": "skip",
        "misfire_limit": 10,
        "next_due": [
            f"2026-03-02T{9 + minutes // 60:02}:{minutes % 60:02}:00Z"
            for minutes in range(0, 300, 30)
        ],
        "summary": "every 30 minutes",
    }
    assert api.get(f"{TASKS}{body['id']}/").json() == body


def test_handed_counts_the_present_occurrence(api: Any, frozen_clock: Any) -> None:
    """S0.9: dispatch_times counts per occurrence."""
    number = api.post(TASKS, PLAN).json()["id"]
    pulled = api.post("/api/v1/dispatch/", {"uid": "uid_alice"}).json()
    assert (pulled["source"], pulled["task"]) == ("rotate", number)
    assert pulled["occurrence_at"] == "2026-03-02T09:00:00Z"

    def counts() -> tuple[int, int]:
        body = api.get(f"{TASKS}{number}/").json()
        return body["handed"], body["remaining"]

    assert counts() == (1, 0)
    frozen_clock.advance(minutes=30)
    assert counts() == (0, 1)


def test_bad_rule_changes_nothing(api: Any, subtests: pytest.Subtests) -> None:
    number = api.post(TASKS, PLAN).json()["id"]
    before = RotateTask.objects.values().get()
    for changes, field in (
        ({"rule": {"every_minutes": 0}}, "rule.every_minutes"),
        ({"rule": {"every_minutes": 5, "cron": "* * * * *"}}, "rule"),
        ({"rule": {"every_days": 1}}, "rule.at"),
        ({"rule": {"cron": "* * *"}}, "rule.cron"),
        ({"rule": {"cron": "0 0 30 2 *"}}, "rule.cron"),
        ({"rule": {}}, "rule"),
        ({"rule": "daily"}, "rule"),
        ({"time_zone": "Europe/Atlantis"}, "time_zone"),
        ({"misfire": "sometimes"}, "misfire"),
        ({"misfire_limit": 0}, "misfire_limit"),
    ):
        with subtests.test(changes=changes):
            for answer in (
                api.post(TASKS, {**PLAN, **changes}),
                api.patch(f"{TASKS}{number}/", changes),
            ):
                assert mistakes(answer) == [field]
            assert RotateTask.objects.values().get() == before


def test_all_mistakes_of_a_body_are_reported_at_once(api: Any) -> None:
    """S0.11: the rule, its zone and the plain fields in one answer."""
    body = {"executor": "uid_alice", "rule": {"cron": "61 * * * *"}, "time_zone": "Mars/Olympus"}
    answer = api.post(TASKS, {**body, "misfire_limit": 0, "title": "x" * 201})

    assert answer.status_code == 400
    fields = {error["field"] for error in answer.json()["errors"]}
    assert fields == {"title", "rule.cron", "time_zone", "misfire_limit"}
    assert not RotateTask.objects.exists()


def test_executor_and_template_that_are_not_there_are_reported_with_the_rest(api: Any) -> None:
    body = {**PLAN, "executor": "uid_nobody", "template": "none", "mode": "single"}
    answer = api.post(TASKS, {**body, "dispatch_times": 3})
    task = factories.rotation(factories.member("uid_alice"))
    edit = api.patch(f"{TASKS}{task.pk}/", {"executor": "uid_nobody", "dispatch_times": 3})

    fields = {error["field"] for error in answer.json()["errors"]}
    assert (answer.status_code, fields) == (400, {"executor", "template", "dispatch_times"})
    fields = {error["field"] for error in edit.json()["errors"]}
    assert (edit.status_code, fields) == (400, {"executor", "dispatch_times"})
