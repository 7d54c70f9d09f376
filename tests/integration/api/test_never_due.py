"""Rules by which nothing would ever be due, and steps that are none, through every door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from apps.common.errors import PlatformError
from apps.dispatch.models import RotateTask
from apps.dispatch.services import validation as of_tasks
from apps.schedules.models import Schedule
from apps.schedules.services import validation as of_schedules
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.api.contract import ContractClient, mistakes

pytestmark = pytest.mark.django_db

# It is Monday 2026-03-02 09:00 UTC. What is said of the rule, the end and the start, and the field
# that is wrong.
NEVER: dict[str, tuple[dict[str, Any], str]] = {
    "no day of the month": (
        {"rule": {"cron": "0 0 1 * *"}, "end_at": "2026-03-31T00:00:00Z"},
        "end_at",
    ),
    "ends before the hour": (
        {"rule": {"every_days": 1, "at": "12:00"}, "end_at": "2026-03-02T12:00:00Z"},
        "end_at",
    ),
    "at its very end, in its zone": (
        {
            "rule": {"every_days": 9, "at": "10:00"},
            "time_zone": "Asia/Shanghai",
            "end_at": "2026-03-11T02:00:00Z",
        },
        "end_at",
    ),
    "step beyond its field": ({"rule": {"cron": "*/90 * * * *"}}, "rule.cron"),
    "step on the last day": ({"rule": {"cron": "0 9 1,L/2 * *"}}, "rule.cron"),
}
PLANS: dict[str, dict[str, Any]] = {
    "schedules": {"title": "Report", "job_type": "mail"},
    "rotate-tasks": {"title": "Check the till", "executor": "uid_alice"},
}
GOOD = {"rule": {"every_minutes": 30}, "start_at": "2026-03-02T09:00:00Z"}


@pytest.fixture(autouse=True)
def world(frozen_clock: FrozenClock) -> None:
    factories.job_type()
    factories.user()


def fields_of(said: dict[str, Any]) -> dict[str, Any]:
    """As the forms and lists of the pages have read them."""
    read = {
        name: datetime.fromisoformat(value) for name, value in said.items() if name.endswith("_at")
    }
    return {**said, **read}


def doors(api: Any, kind: str) -> Iterator[tuple[str, Callable[[dict[str, Any]], list[str]]]]:
    """What each door says is wrong."""
    made = api.post(f"/api/v1/{kind}/", {**PLANS[kind], **GOOD})
    one = f"/api/v1/{kind}/{made.json()['id']}/"
    yield (
        "POST",
        lambda said: mistakes(api.post(f"/api/v1/{kind}/", {**PLANS[kind], **GOOD, **said})),
    )
    yield "PATCH", lambda said: mistakes(api.patch(one, {"version": 1, **said}))

    def page(said: dict[str, Any]) -> list[str]:
        with pytest.raises(PlatformError) as caught:
            if kind == "schedules":
                of_schedules.validate(fields_of(said), current=Schedule.objects.get())
            else:
                of_tasks.validate(RotateTask, fields_of(said), current=RotateTask.objects.get())
        return [error.field for error in caught.value.errors]

    yield "page", page


def test_what_is_never_due_is_refused(api: ContractClient, subtests: pytest.Subtests) -> None:
    for kind in PLANS:
        for door, refused in doors(api, kind):
            for case, (said, field) in NEVER.items():
                with subtests.test(kind=kind, door=door, case=case):
                    assert refused(said) == [field]


def test_end_of_what_was_planned_may_come_at_any_time(
    api: ContractClient, frozen_clock: FrozenClock
) -> None:
    """Nobody wants it any more, before it was due for the first time."""
    for kind, plan in PLANS.items():
        rule = {"rule": {"every_days": 1, "at": "12:00"}, "start_at": "2026-03-02T08:00:00Z"}
        made = api.post(f"/api/v1/{kind}/", {**plan, **rule}).json()
        changes = {"version": 1, "end_at": "2026-03-02T09:00:00Z"}
        assert api.patch(f"/api/v1/{kind}/{made['id']}/", changes).status_code == 200, kind


def test_schedule_without_a_rule_runs_in_time_to_come(api: ContractClient) -> None:
    made = api.post("/api/v1/schedules/", {**PLANS["schedules"], **GOOD}).json()
    one = f"/api/v1/schedules/{made['id']}/"
    said = {"version": 1, "rule": None, "start_at": "2026-03-02T08:00:00Z"}
    assert mistakes(api.patch(one, said)) == ["start_at"]
