"""Reporting over REST, also together with the next hold. S2.16, S2.17; I30, I31."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.jobs.models import Job
from apps.jobs.rules import report
from apps.jobs.services.promote import promote_due
from tests.frozen import FrozenClock
from tests.integration.api.contract import ApiFor, ContractClient
from tests.integration.api.work_calls import SETTLE, Held, answered, hold, named, settle
from tests.jobs import events_of, job_type, jobs, last_entry, rescue, row

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock) -> None:
    job_type("mail", stages=["draw", "cut", "send"], max_attempts=3, retry_delay_seconds=10)


def held(api: ContractClient, count: int = 1, **fields: Any) -> list[Held]:
    jobs(count, stage="draw")
    return hold(api, **fields)["jobs"]


def words(results: list[dict[str, Any]]) -> list[str]:
    return [each["status"] if each["ok"] else each["code"] for each in results]


# --- what may be said -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("outcome", "fields", "status", "attempts"),
    [
        ("succeeded", {"result": [1, None]}, "succeeded", 1),
        ("failed", {"error": "no route"}, "scheduled", 1),
        ("failed", {"error": "no route", "retry_after": 0}, "ready", 1),
        ("failed", {"error": "no route", "retry": "never"}, "failed", 1),
        ("stage_done", {"stage": "cut", "context": {"to": 1}}, "ready", 0),
        ("stage_done", {"stage": "cut", "delay": 5}, "scheduled", 0),
        ("released", {}, "ready", 0),
        ("yielded", {"delay": 60}, "scheduled", 0),
        ("yielded", {"stage": "send"}, "ready", 0),
        ("interrupted", {"delay": 5}, "scheduled", 0),
        ("yielded", {"context": {"to": 1}, "priority": -5}, "ready", 0),
        ("cancelled", {"memo": "not wanted"}, "cancelled", 1),
    ],
)
def test_each_outcome(
    api: ContractClient, outcome: str, fields: dict[str, Any], status: str, attempts: int
) -> None:
    """S2.17: stages are handed on; what is put off or given back is not counted."""
    [job] = held(api)

    [result] = settle(api, named(job, outcome, **fields))

    after = row(int(job["id"]))
    assert result == {"id": job["id"], "ok": True, "status": status}
    assert (after.status, after.attempts) == (status, attempts)
    assert after.stage == fields.get("stage", "draw")
    assert after.context == fields.get("context", {"position": 0})
    assert last_entry(after.pk).event == outcome
    assert (after.result, after.priority) == (fields.get("result"), fields.get("priority", 0))


def test_putting_off_without_any_change_is_a_failure_at_last(
    api: ContractClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would come back for ever. A repeat of a report is answered alike."""
    monkeypatch.setitem(report.MOST_IN_A_ROW, "yielded", 4)
    jobs(1, stage="draw")
    for fields in ({}, {"stage": "draw"}, {"context": {"position": 0}}, {"delay": 0}):
        [job] = hold(api)["jobs"]
        sent = named(job, "yielded", **fields)
        answers = words(settle(api, sent)) + words(settle(api, sent))

    after = row(int(job["id"]))
    assert answers == ["scheduled", "scheduled"]
    assert (after.attempts, after.last_end) == (1, "failed")
    assert after.run_at == clock.now() + timedelta(seconds=10)
    assert events_of(after.pk) == ["yielded"] * 3 + ["failed"]
    assert after.memo.startswith("it was put off 4 times in a row without a change")


@pytest.mark.both
def test_jobs_submitted_with_an_end_are_made_with_it_or_the_outcome_is_refused(
    api: ContractClient, api_for: ApiFor
) -> None:
    """A refusal changes nothing: the worker reports again. A repeat makes no second one."""
    job_type("receipt")
    for wrong in (
        [{"type": "recipe"}],
        [{"type": "receipt"}] * 101,
        [{"type": "receipt", "key": "é"}],
    ):
        [job] = held(api)
        refused = named(job, "succeeded", submit=wrong)
        if wrong[0].get("key"):
            assert api.post(SETTLE, {"worker": "pi-1", "outcomes": [refused]}).status_code == 400
        else:
            assert words(settle(api, refused)) == ["invalid"]
        assert row(int(job["id"])).status == "running"
        misplaced = named(job, "failed", submit=[{"type": "receipt"}])
        assert words(settle(api, misplaced)) == ["invalid"]
        assert words(settle(api, named(job, "succeeded"))) == ["succeeded"]

    [job] = held(api)
    sent = named(job, "succeeded", submit=[{"type": "receipt", "key": "r-1", "delay": 60}])
    assert words(settle(api, sent)) == words(settle(api, sent)) == ["succeeded"]

    [made] = Job.objects.filter(type="receipt")
    assert (made.key, made.status, str(made.parent)) == ("r-1", "scheduled", job["id"])
    parent, child = (api.get(f"/api/v1/jobs/{each}/").json() for each in (job["id"], made.pk))
    [follow_up] = parent["follow_ups"]
    assert (parent["parent"], child["parent"], child["follow_ups"]) == (None, job["id"], [])
    assert follow_up == {"id": child["id"], "type": "receipt", "key": "r-1", "status": "scheduled"}

    mute = api_for(scopes=["hold"])
    [job] = held(mute)
    [answer] = settle(mute, named(job, "succeeded", submit=[{"type": "receipt"}]))
    assert (answer["code"], "scope submit" in answer["message"]) == ("invalid", True)
    assert Job.objects.filter(type="receipt").count() == 1


def test_checkpoint_may_come_with_an_end(api: ContractClient) -> None:
    [job] = held(api)

    settle(api, named(job, "failed", checkpoint={"page": 7}))

    assert row(int(job["id"])).checkpoint == {"page": 7}


def test_free_stages_are_taken_in_any_order(api: ContractClient) -> None:
    job_type("mail", stages=["*"])
    [job] = held(api)
    settle(api, named(job, "stage_done", stage="zip"))
    [job] = held(api, limit=1)

    assert words(settle(api, named(job, "stage_done", stage="a"))) == ["ready"]


@pytest.mark.both
@pytest.mark.parametrize(
    ("outcome", "fields", "told"),
    [
        ("failed", {"result": 1}, "result cannot be said of failed"),
        ("succeeded", {"error": "x", "stage": "cut"}, "error, stage cannot be said of succeeded"),
        ("stage_done", {}, "Name the next stage"),
        ("stage_done", {"stage": "sell"}, "it has: draw, cut, send"),
        ("stage_done", {"stage": "draw"}, "does not come after draw"),
        ("yielded", {"run_at": "2026-03-02T10:00:00Z", "delay": 1}, "not both"),
        ("succeeded", {"result": "\x00"}, "NUL"),
    ],
)
def test_what_cannot_be_kept_leaves_the_lease(
    api: ContractClient, outcome: str, fields: dict[str, Any], told: str
) -> None:
    good, job = held(api, 2)
    wrong = {**named(job, outcome, **fields)}

    answer = api.post(SETTLE, {"worker": "pi-1", "outcomes": [named(good, "released"), wrong]})

    if answer.status_code == 200:
        result = answer.json()["results"][1]
        assert (result["ok"], result["code"]) == (False, "invalid")
        assert told in result["message"]
        assert row(int(good["id"])).status == "ready"
    else:
        assert answer.json()["code"] == "bad_text"
    assert words(settle(api, named(job, "succeeded"))) == ["succeeded"]


# --- who says it, and how often -------------------------------------------------------------------
@pytest.mark.parametrize("outcome", ["yielded", "stage_done"])
def test_repeat_that_comes_later_says_the_same_delay(
    api: ContractClient, frozen_clock: FrozenClock, outcome: str
) -> None:
    [job] = held(api)
    report = named(job, outcome, stage="cut", delay=60)
    due_at = clock.now() + timedelta(seconds=60)
    first = settle(api, report)
    frozen_clock.advance(seconds=5)

    assert settle(api, report) == first
    assert words(settle(api, {**report, "delay": 61})) == ["conflict"]
    assert row(int(job["id"])).run_at == due_at


def test_job_of_another_key_is_unknown(api: ContractClient, api_for: ApiFor) -> None:
    """Byte for byte like a number that nothing has; nobody fills another's journal."""
    [job] = held(api)
    other = api_for()

    [foreign] = settle(other, named(job, "succeeded"))
    Job.objects.filter(pk=job["id"]).update(type="bill")
    narrowed = settle(api_for(job_types=["mail"]), named(job, "succeeded"))
    Job.objects.filter(pk=job["id"]).delete()
    [unknown] = settle(other, named(job, "succeeded"))

    assert foreign == unknown == narrowed[0]
    assert foreign["code"] == "not_found"
    assert foreign["message"] == f"This key holds no job {job['id']}."
    assert events_of(int(job["id"])) == []


def test_each_key_hears_of_its_own_attempts_whoever_has_the_job_now(
    api: ContractClient, api_for: ApiFor, frozen_clock: FrozenClock
) -> None:
    """I30: an answer that was lost is given again, and not to another key."""
    other, stranger = api_for(), api_for()
    [job] = held(api)
    report = named(job, "failed", error="no route", retry_after=0)
    first = settle(api, report)
    [lost] = held(other, 0)
    frozen_clock.advance(minutes=30)
    rescue(frozen_clock)
    frozen_clock.advance(minutes=1)
    promote_due(now=frozen_clock.instant)
    [now] = held(api, 0)

    assert settle(api, report) == first
    assert words(settle(other, report)) == ["lease_lost"]
    assert words(settle(other, named(lost, "succeeded"))) == ["lease_lost"]
    assert words(settle(other, named(now, "succeeded"))) == ["lease_lost"]
    for each in (job, lost, now):
        assert words(settle(stranger, named(each, "succeeded"))) == ["not_found"]
    settle(api, named(now, "released"))
    [again] = held(other, 0)
    assert settle(api, report) == first
    assert words(settle(api, named(job, "succeeded"))) == ["conflict"]
    assert words(settle(api, named(now, "released"))) == ["ready"]
    assert words(settle(other, named(now, "released"))) == ["lease_lost"]
    assert words(settle(other, named(again, "succeeded"))) == ["succeeded"]


# --- with the next hold ---------------------------------------------------------------------------
def test_repeated_exchange_is_answered_alike(api: ContractClient) -> None:
    [job] = held(api)
    waiting, _other = jobs(2)
    body = {
        "worker": "pi-1",
        "outcomes": [named(job, "succeeded")],
        "hold": {"types": ["mail"], "limit": 1, "request_id": "r-1"},
    }

    answer = api.post(SETTLE, body).json()

    assert words(answer["results"]) == ["succeeded"]
    assert [each["id"] for each in answer["jobs"]] == [str(waiting)]
    assert api.post(SETTLE, body).json() == answer
    assert Job.objects.filter(status="running").count() == 1


def test_exchange_settles_even_if_it_may_hold_nothing(api: ContractClient) -> None:
    [job] = held(api)

    body = {"outcomes": [named(job, "succeeded")], "hold": {"types": ["fax"]}}
    answer = answered(api, SETTLE, body)

    assert words(answer["results"]) == ["succeeded"]
    assert (answer["jobs"], answer["unknown"]) == ([], ["fax"])
    assert answer["retry_after"] > 0
