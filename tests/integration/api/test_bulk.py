"""Bulk runs over REST: first what would change, then the run, its rows, Stop and Continue."""

from __future__ import annotations

from typing import Any

import pytest

from apps.bulk.models import BulkRun
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from tests.integration.api.contract import ApiFor, ContractClient, mistakes
from tests.integration.bulk.conftest import carry_out
from tests.jobs import job_type, jobs

pytestmark = pytest.mark.django_db
URL = "/api/v1/jobs/bulk/"
CANCEL: dict[str, Any] = {"verb": "cancel", "filter": {"type": "mail"}, "reason": "wrong address"}


@pytest.fixture(autouse=True)
def mail(db: None, frozen_clock: Any) -> None:
    job_type("mail")
    job_type("web")


def test_dry_run_says_what_would_change_and_starts_nothing(api: ContractClient) -> None:
    ready, running = jobs(3), jobs(2, status=t.RUNNING)
    jobs(4, "web")
    answer = api.post(
        URL,
        {
            "verb": "priority",
            "filter": {"type": ["mail"], "status": ["ready", "running"]},
            "params": {"priority": 40},
            "dry_run": True,
        },
    )
    assert answer.status_code == 200
    told = answer.json()
    samples = told.pop("samples")
    assert told == {
        "matches": 5,
        "eligible": 3,
        "exact": True,
        "looked": None,
        "ineligible": [{"reason": "running", "count": 2}],
        "seconds": 1,
    }
    assert samples[0] == {"id": str(running[1]), "change": "", "why": "running"}
    assert samples[-1] == {"id": str(ready[0]), "change": "priority 0 → 40", "why": ""}
    assert not BulkRun.objects.exists()


@pytest.mark.both
def test_run_is_started_followed_and_ends(api: ContractClient) -> None:
    numbers, [done] = jobs(3), jobs(1, status=t.SUCCEEDED)
    answer = api.post(URL, {**CANCEL, "at_most": 10, "rate": 1000})
    assert answer.status_code == 202
    told = answer.json()
    assert (told["state"], told["verb"], told["filter"]) == (
        "collecting",
        "cancel",
        {"type": ["mail"]},
    )
    place = answer.headers["Location"]
    assert place == f"/api/v1/bulk/{told['id']}/"
    assert Job.objects.get(pk=told["job_id"]).type == "bulk"

    carry_out(BulkRun.objects.get())

    ended = api.get(place).json()
    assert (ended["state"], ended["collected"], ended["done"], ended["skipped"]) == (
        "done",
        4,
        3,
        1,
    )
    skipped = api.get(f"{place}rows/?outcome=skipped").json()
    assert skipped["results"] == [{"id": str(done), "outcome": "skipped", "why": "succeeded"}]
    page = api.get(f"{place}rows/?limit=3").json()
    rest = api.get(page["next"]).json()
    assert [each["id"] for each in page["results"] + rest["results"]] == [
        str(done),
        *map(str, numbers[::-1]),
    ]


def test_same_request_gets_the_first_run(api: ContractClient) -> None:
    jobs(1)
    body = {**CANCEL, "all": True, "request_id": "r-1"}
    first, second = api.post(URL, body), api.post(URL, body)
    assert first.json()["id"] == second.json()["id"]
    other = api.post(URL, {**body, "verb": "retry"})
    assert (other.status_code, other.json()["code"]) == (422, "conflict")


@pytest.mark.both
def test_request_ids_of_two_keys_are_apart(api: ContractClient, api_for: ApiFor) -> None:
    body = {**CANCEL, "all": True, "request_id": "r-1"}
    mine = api.post(URL, body).json()["id"]
    assert api_for().post(URL, body).json()["id"] != mine


def test_what_is_wrong_is_named(api: ContractClient, subtests: pytest.Subtests) -> None:
    for body, fields in (
        (CANCEL, ["at_most"]),
        ({**CANCEL, "at_most": 5, "all": True}, ["at_most"]),
        ({"verb": "cancel", "filter": {}, "all": True}, ["reason"]),
        ({**CANCEL, "all": True, "verb": "explode"}, ["verb"]),
        ({**CANCEL, "all": True, "filter": {"status": "gone"}}, ["filter.status"]),
        ({**CANCEL, "all": True, "filter": {"type": ["mial"]}}, ["filter.type"]),
        ({**CANCEL, "all": True, "reason": "  "}, ["reason"]),
        ({**CANCEL, "all": True, "verb": "move"}, ["params.host"]),
        ({**CANCEL, "all": True, "verb": "move", "params": {"host": "h9"}}, ["params.host"]),
        ({**CANCEL, "dry_run": True, "verb": "move", "params": {"host": "h9"}}, ["params.host"]),
        ({**CANCEL, "all": True, "filter": {"colour": "red"}}, ["filter.colour"]),
        ({**CANCEL, "all": True, "params": {"priority": 3}}, ["params.priority"]),
        ({**CANCEL, "all": True, "verb": "time"}, ["params.run_at"]),
        ({**CANCEL, "dry_run": True, "verb": "priority"}, ["params.priority"]),
        ({**CANCEL, "all": True, "rate": 1001}, ["rate"]),
    ):
        with subtests.test(body=body):
            assert mistakes(api.post(URL, body)) == fields
    assert not BulkRun.objects.exists()


def test_mistake_says_what_to_write_instead(api: ContractClient) -> None:
    def said(**more: Any) -> str:
        [error] = api.post(URL, {**CANCEL, "all": True, **more}).json()["errors"]
        return str(error["message"])

    assert said(filter={"type": "mial"}) == "There is no job type 'mial'; did you mean mail?"
    assert "none of the choices: scheduled, blocked, ready" in said(filter={"status": "sched"})
    assert said(verb="priority") == "Write a whole number from -100 to 100."
    assert said(verb="move") == 'Name a host; "" is any.'
    assert said(reason=" ") == "Say why; the journal keeps it."
    unknown = said(verb="move", params={"host": "h9"})
    assert unknown.endswith("'h9'; choose one of: none is registered.")


@pytest.mark.parametrize(
    ("verb", "status", "change"),
    [
        ("cancel", t.SCHEDULED, "scheduled → cancelled"),
        ("cancel", t.RUNNING, "running: asked to stop"),
        ("retry", t.FAILED, "failed → ready"),
        ("run_now", t.SCHEDULED, "scheduled → ready"),
        ("mark_done", t.FAILED, "failed → succeeded"),
    ],
)
def test_sample_says_what_becomes_of_the_job(
    api: ContractClient, verb: str, status: str, change: str
) -> None:
    jobs(1, status=status)
    told = api.post(URL, {**CANCEL, "verb": verb, "dry_run": True}).json()
    assert [each["change"] for each in told["samples"]] == [change]


def test_start_is_refused_when_more_rows_match(api: ContractClient) -> None:
    jobs(4)
    body = {**CANCEL, "at_most": 3, "request_id": "r-1"}
    assert mistakes(api.post(URL, {**body, "dry_run": True})) == ["at_most"]
    assert mistakes(api.post(URL, body)) == ["at_most"]
    assert not BulkRun.objects.exists()
    first = api.post(URL, {**body, "at_most": 4}).json()["id"]
    jobs(2)
    # A repeat is none that starts.
    assert api.post(URL, {**body, "at_most": 4}).json()["id"] == first


def test_stop_and_continue(api: ContractClient) -> None:
    numbers = jobs(2)
    place = api.post(URL, {**CANCEL, "all": True}).headers["Location"]
    stopped = api.post(f"{place}stop/", {"reason": "too many"})
    assert (stopped.status_code, stopped.json()["state"]) == (200, "stopped")
    again = api.post(f"{place}stop/", {"reason": "too many"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    going = api.post(f"{place}continue/", {"reason": "go on"})
    assert going.json()["state"] == "collecting"
    carry_out(BulkRun.objects.get())
    assert Job.objects.filter(pk__in=numbers, status=t.CANCELLED).count() == 2
    assert api.post(f"{place}continue/", {"reason": "go on"}).status_code == 409


def test_bound_key_changes_only_what_it_reaches(api_for: ApiFor) -> None:
    mails, webs = jobs(2), jobs(2, "web")
    api = api_for(job_types=["web"])
    everything = {"verb": "cancel", "filter": {"status": "ready"}, "reason": "x", "all": True}
    assert api.post(URL, {**everything, "dry_run": True}).json()["matches"] == 2
    api.post(URL, everything)
    carry_out(BulkRun.objects.get())
    assert Job.objects.filter(pk__in=mails, status=t.READY).count() == 2
    assert Job.objects.filter(pk__in=webs, status=t.CANCELLED).count() == 2


@pytest.mark.both
def test_run_over_what_another_has_changed_takes_it_back(
    api: ContractClient, api_for: ApiFor
) -> None:
    numbers = jobs(3)
    jobs(2, "web", status=t.CANCELLED)
    first = api.post(URL, {**CANCEL, "all": True}).json()["id"]
    carry_out(BulkRun.objects.get())
    back = {"verb": "retry", "filter": {"run": first}, "reason": "it was right", "all": True}
    assert api.post(URL, {**back, "dry_run": True}).json()["matches"] == 3
    assert mistakes(api.post(URL, {**back, "filter": {"run": "999"}})) == ["filter.run"]
    # It reaches beyond what this key does.
    bound = api_for(job_types=["web"])
    assert mistakes(bound.post(URL, back)) == ["filter.run"]
    made = api.post(URL, back).json()
    assert made["filter"] == {"run": first}
    carry_out(BulkRun.objects.latest("pk"))
    assert Job.objects.filter(pk__in=numbers, status=t.READY).count() == 3
