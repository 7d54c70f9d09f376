"""Jobs over REST: bringing them in, finding them, moving them. S1.2, S1.4, S1.21, S2.12, S2.13."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from apps.common import clock
from apps.jobs.api import jobs as view
from apps.jobs.models import Hold, Job, JobType
from apps.jobs.services.type_snapshots import type_snapshots
from tests import factories
from tests.integration.api.contract import ContractClient, mistakes, pages
from tests.statements import sent_by

pytestmark = pytest.mark.django_db

JOBS = "/api/v1/jobs/"
REASON = {"reason": "The customer called"}


@pytest.fixture(autouse=True)
def mail(frozen_clock: Any) -> Any:
    return factories.job_type("mail", max_attempts=3)


def listed(api: ContractClient, **query: Any) -> list[str]:
    answer = api.get(JOBS, **query)
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


# --- reading ------------------------------------------------------------------------------------
def test_job_that_has_succeeded_is_through(api: ContractClient, subtests: pytest.Subtests) -> None:
    number = api.post(JOBS, {"type": "mail"}).json()["id"]
    for status, stored, shown in (
        ("running", 40, 40),
        ("failed", 40, 40),
        ("succeeded", 40, 100),
        ("succeeded", None, None),
    ):
        with subtests.test(status, stored=stored):
            Job.objects.update(status=status, progress=stored)

            assert api.get(f"{JOBS}{number}/").json()["progress"] == shown


# --- submitting ---------------------------------------------------------------------------------
def test_one_job_is_brought_in(api: ContractClient) -> None:
    """S1.4, S2.4: its id is a number of decimal digits, and nothing else of it is told."""
    answer = api.post(JOBS, {"type": "mail", "key": "order-1", "context": {"to": "ä"}, "delay": 60})

    job = Job.objects.get()
    assert answer.status_code == 201
    made = {"id": str(job.pk), "created": True, "status": "scheduled", "twin": ""}
    assert answer.json() == made
    assert (job.context, job.run_at) == ({"to": "ä"}, clock.now() + timedelta(seconds=60))
    assert job.submitted_by.startswith("key:")


@pytest.mark.both
def test_repeated_request_gets_the_first_answer(
    api: ContractClient, frozen_clock: Any, subtests: pytest.Subtests
) -> None:
    """I35: also after the job has ended, changed or gone, until nobody repeats it any more."""

    def need(*names: str) -> None:
        JobType.objects.update(params_schema={"type": "object", "required": names})
        type_snapshots(max_age=0)

    fates: dict[str, Callable[[], Any]] = {
        "open": lambda: None,
        "ended": lambda: Job.objects.update(status="succeeded", unique_key=None),
        "gone": lambda: Job.objects.all().delete(),
        "refused": lambda: need("amount"),
    }
    twins = {"type": "mail", "key": "a", "unique": True}
    factories.job_type("reload", handler="echo")
    # Alive for as long as the test goes on.
    factories.worker(types=["reload"], last_heartbeat_at=clock.now() + timedelta(days=30))
    bodies: tuple[dict[str, Any], ...] = (
        {"type": "reload", "everywhere": True},
        {"type": "mail", "delay": 60, "context": {"to": "ä"}},
        {**twins, "run_at": "2026-03-02T10:00:00Z"},
        {"jobs": [{"type": "mail"}, {**twins, "delay": 5}, {**twins, "delay": 6}]},
    )
    for body, (fate, befalls) in product(bodies, fates.items()):
        with subtests.test(body=body, fate=fate):
            asked = {**body, "request_id": f"r-{bodies.index(body)}-{fate}"}
            first = api.post(JOBS, asked)
            assert first.status_code == 201
            befalls()
            count = Job.objects.count()
            frozen_clock.advance(hours=23)

            again = api.post(JOBS, asked)

            assert (again.status_code, again.json()) == (201, first.json())
            assert Job.objects.count() == count
            other = api.post(JOBS, {"type": "mail", "request_id": asked["request_id"]})
            assert other.status_code == 422
            Job.objects.all().delete()
            need()
    frozen_clock.advance(days=1)
    assert api.post(JOBS, {"type": "mail", "request_id": asked["request_id"]}).status_code == 201


@pytest.mark.both
def test_submission_that_nobody_repeats_is_one_statement(
    api: ContractClient,
) -> None:
    def statements(**more: Any) -> list[str]:
        sent = sent_by(lambda: api.post(JOBS, {"type": "mail", **more}))
        return [sql.split()[0] for sql in sent if "jobs_" in sql or "SAVEPOINT" in sql]

    statements()  # reads the types
    assert statements() == ["INSERT"]
    assert len(statements(request_id="r-1")) > 1


def test_refused_request_may_be_repeated_when_it_is_mended(api: ContractClient) -> None:
    asked = {"type": "fax", "request_id": "r-1"}
    assert api.post(JOBS, asked).status_code == 400
    factories.job_type("fax")
    assert api.post(JOBS, asked).json()["created"]
    assert Hold.objects.get().answer == [[Job.objects.get().pk, True, "ready", "", ""]]


def test_taken_key_is_answered_200(api: ContractClient) -> None:
    """S1.4: its id, that nothing was created, and what was done to the job that has it; alone as in
    a list."""
    body = {"type": "mail", "key": "order-1", "unique": True, "unique_for": 60, "delay": 60}
    first = api.post(JOBS, body).json()["id"]
    for wish, delay, done in (
        ("return", 90, "returned"),
        ("later", 120, "moved"),
        ("later", 90, "returned"),
        ("replace", 90, "replaced"),
    ):
        for is_many in (False, True):
            wished = {**body, "on_twin": wish, "delay": delay + is_many, "context": {"of": wish}}
            answer = api.post(JOBS, {"jobs": [wished]} if is_many else wished)
            [said] = answer.json()["jobs"] if is_many else [answer.json()]
            assert answer.status_code == 200
            there = {"host": ""} if is_many else {}
            known = {"id": first, "created": False, "status": "scheduled", "twin": done}
            assert said == {**known, **there}
    assert Job.objects.get().context == {"of": "replace"}
    Job.objects.update(status="succeeded", finished_at=clock.now())
    assert api.post(JOBS, body).json()["status"] == "succeeded"


def test_job_for_each_host_is_answered_with_them(api: ContractClient) -> None:
    factories.job_type("reload", handler="echo")
    refused = api.post(JOBS, {"type": "reload", "everywhere": True})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    for name in ("host-b:1", "host-a:1"):
        factories.worker(name, types=["reload"])

    answer = api.post(JOBS, {"type": "reload", "everywhere": True})

    made = answer.json()["jobs"]
    assert (answer.status_code, [each["host"] for each in made]) == (201, ["host-a", "host-b"])
    listed = api.get(f"{JOBS}?together={made[0]['id']}").json()["results"]
    assert [each["id"] for each in listed] == [made[1]["id"], made[0]["id"]]
    assert {each["together"] for each in listed} == {made[0]["id"]}
    assert api.post(JOBS, {"jobs": [{"type": "reload", "everywhere": True}]}).status_code == 400


def test_batch_answers_in_order(api: ContractClient) -> None:
    """S1.16: twins inside it have one id; 200 when nothing is new."""
    batch = {"jobs": [{"type": "mail", "key": k, "unique": True} for k in ("a", "b", "a")]}

    first, again = api.post(JOBS, batch), api.post(JOBS, batch)

    made = first.json()["jobs"]
    assert (first.status_code, again.status_code) == (201, 200)
    assert [each["created"] for each in made] == [True, True, False]
    assert made[2]["id"] == made[0]["id"] != made[1]["id"]
    assert [each["id"] for each in again.json()["jobs"]] == [each["id"] for each in made]
    assert Job.objects.count() == 2


def test_wrong_field_is_named_and_nothing_made(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    factories.job_type("count", params_schema=schema)
    unfit = {"type": "count", "context": {"n": "x"}}
    for body, fields in (
        (unfit, ["context.n"]),
        ({"jobs": [{"type": "mail"}, unfit]}, ["jobs[1].context.n"]),
        ({"type": "fax"}, ["type"]),
        ({}, ["type"]),
        ({"type": "mail", "unique": True}, ["key"]),
        ({"type": "mail", "run_at": "2026-03-02T10:00:00Z", "delay": 1}, ["delay"]),
        ({"type": "mail", "run_at": "9999-12-31T00:00:00Z"}, ["run_at"]),
        ({"type": "mail", "jobs": [{"type": "mail"}]}, ["jobs"]),
        ({"jobs": []}, ["jobs"]),
        ({"jobs": [{"type": "mail"}, {"key": "a"}]}, ["jobs[1].type"]),
        ({"jobs": [{"type": "mail"}, {"type": "mail", "x": 1}]}, ["jobs[1].x"]),
        ({"jobs": [{"type": "mail"}, {"type": "mail", "stage": "x"}]}, ["jobs[1].stage"]),
        (
            {"jobs": [{"type": "fax"}, {"type": "mail"}, {"type": "f"}]},
            ["jobs[0].type", "jobs[2].type"],
        ),
    ):
        with subtests.test(body=body):
            answer = api.post(JOBS, body)

            assert mistakes(answer) == fields
            assert ("jobs[" in answer.json()["detail"]) == ("jobs[" in fields[0])
    assert not Job.objects.exists()


# --- reading ------------------------------------------------------------------------------------
def test_detail_has_what_lists_leave_out(api: ContractClient) -> None:
    job = factories.running_job(context={"to": "a"}, key="order-1")

    detail = api.get(f"{JOBS}{job.pk}/").json()
    [row] = api.get(JOBS).json()["results"]

    assert set(detail) - set(row) == {
        "context",
        "checkpoint",
        "order_key",
        "affinity_host",
        "affinity_until",
        "follow_ups",
    }
    assert {name: detail[name] for name in row} == row
    assert (detail["context"], detail["order_key"]) == ({"to": "a"}, job.order_key)
    assert (detail["status"], detail["attempts"], detail["worker"]) == ("running", 1, "host-a:1")


def test_every_filter_finds_its_own(api: ContractClient) -> None:
    """S1.2, S1.21, S2.22"""
    factories.job_type("count", stages=["one", "two"])
    plain = str(factories.job().pk)
    keyed = str(factories.job(key="order-1").pk)
    users = str(factories.job(user_id="uid_alice").pk)
    staged = str(factories.job("count", stage="two").pk)
    running = str(factories.running_job(host="host-b").pk)
    finished = clock.now() + timedelta(seconds=5)
    failed = str(
        factories.job(
            into={"status": "failed", "finished_at": finished, "memo": "Smtp: 100% Timeout"}
        ).pk
    )
    wanted: list[tuple[dict[str, str], list[str]]] = [
        ({"type": "count"}, [staged]),
        ({"status": "running"}, [running]),
        ({"status": "failed"}, [failed]),
        ({"key": "order-1"}, [keyed]),
        ({"type": "mail", "key": "order-1"}, [keyed]),
        ({"type": "count", "key": "order-1"}, []),
        ({"user_id": "uid_alice"}, [users]),
        ({"user_id": "uid_Alice"}, []),
        ({"stage": "two"}, [staged]),
        ({"worker": "host-b:1"}, [running]),
        ({"host": "host-b"}, [running]),
        ({"memo": "timeout"}, [failed]),
        ({"memo": "100%"}, [failed]),
        ({"memo": "%"}, [failed]),
        ({"memo": "1_0"}, []),
        ({"finished_after": "2026-03-02T09:00:05Z"}, [failed]),
        ({"finished_before": "2026-03-02T09:00:05Z"}, []),
        ({"created_after": "2026-03-02T09:00:00.000001Z"}, []),
        (
            {"created_after": "2026-03-02T09:00:00Z", "created_before": "2026-03-02T09:00:01Z"},
            [failed, running, staged, users, keyed, plain],
        ),
    ]
    for query, expected in wanted:
        assert listed(api, **query) == expected, query


@pytest.mark.both
def test_rare_matches_are_found_page_by_page(
    api: ContractClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.13: no request reads more rows than the limit; an empty page may have a next one."""
    monkeypatch.setattr(view, "MAX_EXAMINED", 4)
    oldest = str(factories.job(user_id="uid_alice").pk)
    for _ in range(10):
        factories.job()
    newest = str(factories.job(user_id="uid_alice").pk)

    answers = pages(api, JOBS, user_id="uid_alice")
    walked = [[row["id"] for row in answer.json()["results"]] for answer in answers]

    assert walked == [[newest], [], [oldest]]


@pytest.mark.both
def test_journal_lists_oldest_first(api: ContractClient) -> None:
    """S1.9, S2.6: in pages."""
    job = factories.job(delay=timedelta(hours=1))
    api.post(f"{JOBS}{job.pk}/run-now/", {"reason": "Now"})
    api.post(f"{JOBS}{job.pk}/cancel/", {"reason": "No"})
    api.post(f"{JOBS}{job.pk}/retry/", {"reason": "Yes"})

    first = api.get(f"{JOBS}{job.pk}/journal/", limit=2).json()
    second = api.get(first["next"]).json()

    entries = first["results"] + second["results"]
    assert [entry["event"] for entry in entries] == ["run_now", "cancelled", "retried"]
    assert [entry["reason"] for entry in entries] == ["Now", "No", "Yes"]
    assert [entry["to_state"] for entry in entries] == ["ready", "cancelled", "ready"]
    assert all(entry["actor"].startswith("key:") for entry in entries)
    assert second["next"] is None


# --- moving -------------------------------------------------------------------------------------
def test_running_job_is_asked_first_and_forced_next(api: ContractClient) -> None:
    """S1.12"""
    job = factories.running_job()
    path = f"{JOBS}{job.pk}/cancel/"

    asked = api.post(path, REASON).json()
    forced = api.post(path, {**REASON, "force": True}).json()

    assert (asked["status"], asked["cancel_requested"]) == ("running", True)
    assert forced["status"] == "cancelled"
    assert api.post(path, REASON).status_code == 409


def test_host_is_one_of_registered_workers(api: ContractClient) -> None:
    """S1.8: never typed freely."""
    job = factories.job()
    factories.worker("host-a:1")
    body = {"version": 1, **REASON}

    for host in ("127.0.0.1", "169.254.169.254", "host-b"):
        answer = api.patch(f"{JOBS}{job.pk}/", {**body, "affinity_host": host})
        assert answer.status_code == 400, host
        assert "host-a" in answer.json()["detail"]
    answer = api.patch(f"{JOBS}{job.pk}/", {**body, "affinity_host": "host-a"})
    assert answer.json()["affinity_host"] == "host-a"
