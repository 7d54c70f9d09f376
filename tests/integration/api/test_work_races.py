"""Programs on other machines at the same instant. I25, I27, I31, I35, I40, I41."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, OperationalError, close_old_connections, connections

from apps.common.db import execute, fetch
from apps.jobs.models import Hold, Job, UniqueLock
from apps.jobs.models.unique_lock import UNIQUE_LOCKS
from apps.journal.models import JournalEntry
from tests.clients import JsonClient
from tests.jobs import job_type, jobs
from tests.races import Race

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]
Racers = Callable[[Sequence[Callable[[], Any]]], Race]
JOBS, HOLD, SETTLE = (f"/api/v1/jobs/{path}" for path in ("", "hold/", "settle/"))


@pytest.fixture
def key(make_key: Callable[..., str]) -> str:
    job_type("mail", lease_seconds=30)
    return make_key()


def hold(key: str, worker: str = "pi-1", **fields: Any) -> Any:
    return JsonClient(key).post(HOLD, {"worker": worker, "types": ["mail"], **fields})


def report(job: dict[str, Any], outcome: str = "succeeded") -> dict[str, Any]:
    return {"id": job["id"], "lease_token": job["lease_token"], "outcome": outcome}


def test_one_request_sent_ten_times_at_once_holds_once(racers: Racers, key: str) -> None:
    """I41: all that get jobs get the same."""
    jobs(50)

    answers = racers([lambda: hold(key, limit=5, request_id="r-1")] * 10).results

    assert {each.status_code for each in answers} == {200}
    # One that comes before the first has ended may be told to ask again.
    held = {tuple(job["id"] for job in each.json()["jobs"]) for each in answers} - {()}
    assert len(held) == 1
    again = hold(key, limit=5, request_id="r-1").json()["jobs"]
    assert {tuple(job["id"] for job in again)} == held
    assert Job.objects.filter(status="running").count() == 5
    assert Hold.objects.count() == 1


def test_one_submission_sent_ten_times_at_once_makes_one_job(racers: Racers, key: str) -> None:
    """I35: unique or not, all get the same answer."""
    for unique in ({}, {"key": "a", "unique": True}):
        body = {"type": "mail", "request_id": f"s-{len(unique)}", **unique}

        answers = racers([lambda body=body: JsonClient(key).post(JOBS, body)] * 10).results  # type: ignore[misc]

        assert {each.status_code for each in answers} == {201}
        assert len({each.json()["id"] for each in answers}) == 1
    assert Job.objects.count() == Hold.objects.count() == 2


@pytest.fixture
def unique_locks() -> None:
    """As the migration leaves them; between these tests all tables are emptied."""
    UniqueLock.objects.bulk_create(
        [UniqueLock(shard=shard) for shard in range(UNIQUE_LOCKS)], ignore_conflicts=True
    )


@pytest.mark.usefixtures("unique_locks")
def test_unique_job_submitted_at_once_is_one(racers: Racers, key: str) -> None:
    """I35: all are told its id, and one that it has made it."""
    body = {"type": "mail", "key": "order-1", "unique": True}

    answers = racers([lambda: JsonClient(key).post(JOBS, body)] * 16).results

    assert Counter(each.status_code for each in answers) == {201: 1, 200: 15}
    [number] = Job.objects.values_list("pk", flat=True)
    assert {each.json()["id"] for each in answers} == {str(number)}


@pytest.mark.usefixtures("unique_locks")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_submission_without_an_answer_is_repeated_into_one_job(
    key: str, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """I25, I35, F7"""
    database = type(connections[DEFAULT_DB_ALIAS])
    commit = database._commit

    def cut(self: Any) -> None:
        commit(self) if moment == "after" else self.connection.rollback()
        raise OperationalError(2013, "Lost connection at COMMIT")

    client = JsonClient(key, shows_500=True)
    body = {"type": "mail", "key": "order-1", "unique": True}
    with monkeypatch.context() as patched:
        patched.setattr(database, "_commit", cut)
        assert client.post(JOBS, body).status_code == 503
    assert Job.objects.count() == (moment == "after")

    again = client.post(JOBS, body)

    assert again.status_code == (200 if moment == "after" else 201)
    assert [str(number) for number in Job.objects.values_list("pk", flat=True)] == [
        again.json()["id"]
    ]
    assert len(hold(key).json()["jobs"]) == 1


def test_lost_answers_lose_and_double_nothing(
    racers: Racers, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I41, F7: one COMMIT in twenty breaks before, one after; each call is repeated."""
    chance = random.Random(7)
    database = type(connections[DEFAULT_DB_ALIAS])
    commit = database._commit
    broken = []

    def cut(self: Any) -> None:
        fate = chance.random()
        if fate < 0.05:
            broken.append("before")
            self.connection.rollback()
            raise OperationalError(2013, "Lost connection before COMMIT")
        commit(self)
        if fate > 0.95:
            broken.append("after")
            raise OperationalError(2013, "Lost connection after COMMIT")

    monkeypatch.setattr(database, "_commit", cut)
    job_type("mail", batch_limit=10)
    numbers = jobs(200)

    def until_answered(client: JsonClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
        while (answer := client.post(path, body)).status_code != 200:
            assert answer.status_code == 503, answer.content
        return answer.json()

    def work(worker: str) -> list[str]:
        client, run = JsonClient(key, shows_500=True), list[str]()
        outcomes: list[dict[str, Any]] = []
        for turn in range(1000):
            wish = {"types": ["mail"], "request_id": f"{worker}-{turn}"}
            body = {"worker": worker, "hold": wish}
            answer = until_answered(
                client, SETTLE, body | ({"outcomes": outcomes} if outcomes else {})
            )
            assert all(result["ok"] for result in answer["results"])
            run += [job["id"] for job in answer["jobs"]]
            outcomes = [report(job) for job in answer["jobs"]]
            if not outcomes and answer["retry_after"] >= 0.14:
                break
        return run

    shares = racers([lambda n=n: work(f"pi-{n}") for n in range(3)]).results

    assert {*broken} == {"before", "after"}
    assert Counter(int(each) for share in shares for each in share) == Counter(numbers)
    assert set(Job.objects.values_list("status", "holds")) == {("succeeded", 1)}
    ends = JournalEntry.objects.filter(source="job", event="succeeded")
    assert Counter(ends.values_list("subject_id", flat=True)) == Counter(numbers)


def test_submissions_whose_connections_are_killed_make_one_job_each(
    racers: Racers, key: str
) -> None:
    """I35, F9: at any moment of a call, which is repeated until it has an answer."""
    [[spared]] = fetch("SELECT CONNECTION_ID()")
    at_work = threading.Semaphore(0)
    workers, calls = 4, 50

    def submit(worker: int) -> list[str]:
        client, made = JsonClient(key, shows_500=True), []
        try:
            for number in range(calls):
                body = {"type": "mail", "request_id": f"{worker}-{number}"}
                while (answer := client.post(JOBS, body)).status_code != 201:
                    assert answer.status_code == 503, answer.content
                    # As servers do after each request, and Django's test client does not.
                    close_old_connections()
                made.append(answer.json()["id"])
        finally:
            at_work.release()
        return made

    def kill() -> int:
        """Kill one connection after the other until all workers have ended."""
        killed = ended = 0
        while ended < workers:
            others = fetch(
                "SELECT id FROM information_schema.processlist "
                "WHERE db = DATABASE() AND id NOT IN (CONNECTION_ID(), %s)",
                [spared],
            )
            for (number,) in others:
                with contextlib.suppress(OperationalError):
                    # Else it has ended by itself.
                    execute(f"KILL {int(number)}")
                    killed += 1
            ended += at_work.acquire(timeout=0.01)
        return killed

    *made, killed = racers([*(partial(submit, n) for n in range(workers)), kill]).results

    assert killed > workers
    numbers = {int(number) for each in made for number in each}
    assert len(numbers) == workers * calls
    assert {*Job.objects.values_list("pk", flat=True)} == numbers
    assert Hold.objects.count() == workers * calls
