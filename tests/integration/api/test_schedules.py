"""Recurring jobs over REST."""

from __future__ import annotations

from typing import Any

import pytest

from apps.jobs.models import Job
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.api.contract import ApiFor, ContractClient, mistakes
from tests.integration.schedules.conftest import sweep

pytestmark = pytest.mark.django_db
ALL = "/api/v1/schedules/"


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock) -> None:
    factories.job_type()


def planned(api: ContractClient, **fields: Any) -> dict[str, Any]:
    body = {"title": "Report", "job_type": "mail", "rule": {"every_minutes": 1}, **fields}
    answer = api.post(ALL, body)
    assert answer.status_code == 201, answer.content
    return answer.json()


@pytest.mark.both
def test_schedule_from_its_plan_to_its_end(api: ContractClient, frozen_clock: FrozenClock) -> None:
    made = planned(api, context={"to": "all"})
    assert made["summary"] == "every minute"
    assert made["next_due"][:2] == ["2026-03-02T09:00:00Z", "2026-03-02T09:01:00Z"]
    assert (made["status"], made["misfire"], made["overlap"]) == ("active", "skip", "allow")
    one = f"{ALL}{made['id']}/"
    sweep()
    job = str(Job.objects.get().pk)
    assert api.get(one).json()["last_job"] == job
    changed = api.patch(one, {"version": 1, "rule": None, "start_at": "2026-03-02T10:00:00Z"})
    assert (changed.json()["rule"], changed.json()["summary"]) == (None, "once")
    assert changed.json()["next_due"] == ["2026-03-02T10:00:00Z"]
    assert api.post(f"{one}pause/", {"reason": "storm"}).json()["status"] == "paused"
    assert api.get(one).json()["next_due"] == []
    run = api.post(f"{one}run/", {})
    assert run.status_code == 201
    assert run.json()["by_hand"] is True
    assert api.post(f"{one}resume/", {}).json()["status"] == "active"
    runs = api.get(f"{one}runs/").json()["results"]
    assert [(each["job"], each["by_hand"], each["why"]) for each in runs] == [
        (run.json()["job"], True, ""),
        (job, False, ""),
    ]
    assert api.delete(one).status_code == 204
    assert api.get(one).status_code == 404
    assert api.get(ALL).json()["results"] == []
    events = JournalEntry.objects.timeline("schedule", made["id"])
    assert [each.event.removeprefix("schedule_") for each in events] == [
        *("created", "changed", "paused", "run", "resumed", "deleted")
    ]
    assert {each.actor.partition(":")[0] for each in events} == {"key"}


def test_mistakes_are_named_by_field(api: ContractClient) -> None:
    answer = api.post(ALL, {"job_type": "mail", "title": "x", "rule": {"cron": "61 * * * *"}})
    assert mistakes(answer) == ["rule.cron"]
    answer = api.post(ALL, {"job_type": "mial", "title": "x", "end_at": "2026-03-02T12:00:00Z"})
    assert mistakes(answer) == ["end_at", "job_type"]


def test_list_is_filtered(api: ContractClient) -> None:
    factories.job_type("sms")
    mail, sms = planned(api), planned(api, job_type="sms")
    api.post(f"{ALL}{sms['id']}/pause/", {})

    def listed(**query: str) -> list[int]:
        return [row["id"] for row in api.get(ALL, **query).json()["results"]]

    assert listed() == [sms["id"], mail["id"]]
    assert listed(job_type="mail") == [mail["id"]]
    assert listed(status="paused") == [sms["id"]]
    assert api.get(ALL, status="deleted").status_code == 400


def test_key_bound_to_types_plans_for_these_alone(api_for: ApiFor, api: ContractClient) -> None:
    factories.job_type("sms")
    other = planned(api, job_type="sms")
    client = api_for(scopes=["read", "operate"], job_types=["mail"])
    mine = planned(client)
    assert [row["id"] for row in client.get(ALL).json()["results"]] == [mine["id"]]
    moved = client.patch(f"{ALL}{mine['id']}/", {"job_type": "sms"})
    assert (moved.status_code, moved.json()["errors"][0]["field"]) == (400, "job_type")
    assert client.post(f"{ALL}{other['id']}/run/", {}).status_code == 404
    assert not Job.objects.exists()


def test_key_bound_to_executors_sees_no_schedule(api_for: ApiFor, api: ContractClient) -> None:
    """Their jobs are nobody's."""
    planned(api)
    factories.user("uid_ann")
    client = api_for(scopes=["read"], executors=["uid_ann"])
    assert client.get(ALL).json()["results"] == []
