"""Secrets in answers: a key without the scope `payload` reads masks, as people do in admin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.common.masking import MASK
from apps.flows.models import FlowStep
from apps.flows.services.start import start
from apps.jobs.models import Job
from apps.journal.models import JournalEntry
from tests import factories
from tests.integration.api.contract import ApiFor, ContractClient
from tests.jobs import end, take

pytestmark = pytest.mark.django_db

SECRET = "s3cr3t"
SECRETS = {
    "x-api-key": SECRET,
    "shop": {"client_secret": SECRET, "name": "North"},
    "url": f"https://ann:{SECRET}@shop.example/a?access_token={SECRET}&n=1",
}
MASKED = {
    "x-api-key": MASK,
    "shop": {"client_secret": MASK, "name": "North"},
    "url": f"https://{MASK}@shop.example/a?access_token={MASK}&n=1",
}


@pytest.fixture
def clients(api_for: ApiFor, frozen_clock: Any) -> Callable[..., ContractClient]:
    return lambda *scopes: api_for(scopes=scopes)


@pytest.fixture
def job(frozen_clock: Any) -> Job:
    """Failed with a password in its error, after it had saved a checkpoint."""
    made = factories.job(context=SECRETS)
    [held] = take()
    end(held, "failed", error=f"login failed: pwd={SECRET}", retry="never")
    Job.objects.filter(pk=made.pk).update(result=SECRETS, checkpoint=SECRETS)
    JournalEntry.objects.filter(subject_id=made.pk).update(data={"before": SECRETS})
    return made


def test_jobs_are_masked(job: Job, clients: Callable[..., ContractClient]) -> None:
    reader, trusted = clients("read"), clients("read", "payload")
    path = f"/api/v1/jobs/{job.pk}/"

    shown, known = reader.get(path).json(), trusted.get(path).json()

    assert (shown["context"], shown["result"], shown["checkpoint"]) == (MASKED, MASKED, MASKED)
    assert shown["memo"] == f"login failed: pwd={MASK}"
    assert (known["context"], known["result"], known["checkpoint"]) == (SECRETS, SECRETS, SECRETS)
    assert SECRET in known["memo"]
    for address in (path, "/api/v1/jobs/", f"{path}journal/"):
        assert SECRET not in reader.get(address).content.decode(), address
        assert SECRET in trusted.get(address).content.decode(), address


@pytest.mark.both
def test_search_finds_no_secret_whatever_the_key_may_read(
    job: Job, clients: Callable[..., ContractClient]
) -> None:
    def found(term: str, *scopes: str) -> list[str]:
        answer = clients(*scopes).get("/api/v1/jobs/", memo=term)
        return [row["id"] for row in answer.json()["results"]]

    assert found("LOGIN FAILED", "read") == [str(job.pk)]
    for scopes in (("read",), ("read", "payload")):
        assert found("failed: pwd=s", *scopes) == []
        assert found("failed: pwd=", *scopes) == [str(job.pk)]
    assert found(f"={MASK}", "read") == [str(job.pk)]


def test_step_of_a_flow_takes_no_mask_for_a_result(clients: Callable[..., ContractClient]) -> None:
    run = start(definition={"steps": [{"name": name, "kind": "wait"} for name in "ab"]}).id
    operator, trusted = clients("read", "operate"), clients("read", "operate", "payload")
    for act in ("finish", "skip"):
        path = f"/api/v1/flow-runs/{run}/steps/a/{act}/"
        answer = operator.post(path, {"reason": "as agreed", "result": {"token": MASK}})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "result.token")
    for step, client, result in (("a", operator, {"token": SECRET}), ("b", trusted, MASK)):
        path = f"/api/v1/flow-runs/{run}/steps/{step}/finish/"
        assert client.post(path, {"result": result}).status_code == 200
    assert [*FlowStep.objects.order_by("name").values_list("result", flat=True)] == [
        {"token": SECRET},
        MASK,
    ]


@pytest.mark.parametrize("kind", ["once-tasks", "rotate-tasks"])
def test_tasks_are_masked(kind: str, clients: Callable[..., ContractClient]) -> None:
    make = factories.once_task if kind == "once-tasks" else factories.rotation
    task = make(factories.user("uid_alice"), params=SECRETS)
    reader, trusted = clients("read"), clients("read", "payload")

    for address in (f"/api/v1/{kind}/", f"/api/v1/{kind}/{task.pk}/"):
        assert SECRET not in reader.get(address).content.decode()
        assert SECRET in trusted.get(address).content.decode()


def test_retry_with_another_context_keeps_what_is_masked(
    job: Job, clients: Callable[..., ContractClient]
) -> None:
    answer = clients("operate").post(
        f"/api/v1/jobs/{job.pk}/retry/", {"context": {**MASKED, "n": 2}, "reason": "more"}
    )
    job.refresh_from_db()
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
    assert (answer.json()["context"], job.context) == ({**MASKED, "n": 2}, {**SECRETS, "n": 2})


def test_masks_that_a_key_with_payload_sends_are_meant(
    clients: Callable[..., ContractClient],
) -> None:
    task = factories.once_task(factories.user("uid_alice"), params=SECRETS)

    clients("operate", "payload").patch(f"/api/v1/once-tasks/{task.pk}/", {"params": MASKED})

    task.refresh_from_db()
    assert task.params == MASKED


def test_executor_gets_its_params_in_full_and_others_read_masks(
    frozen_clock: Any, clients: Callable[..., ContractClient]
) -> None:
    """I18: what is worked with is never masked."""
    factories.once_task(factories.user("uid_alice"), params=SECRETS)
    phone, reader, trusted = clients("pull"), clients("read"), clients("read", "payload")

    pulled = phone.post("/api/v1/dispatch/", {"uid": "uid_alice"}).json()
    done = {"uid": "uid_alice", "number": pulled["number"], "outcome": "succeeded"}
    phone.post("/api/v1/callback/", {**done, "result": SECRETS, "message": f"token={SECRET}"})

    assert pulled["params"] == SECRETS
    path = f"/api/v1/dispatches/{pulled['number']}/"
    shown, known = reader.get(path).json(), trusted.get(path).json()
    assert (shown["params"], shown["result"]) == (MASKED, MASKED)
    assert shown["message"] == f"token={MASK}"
    assert (known["params"], known["result"]) == (SECRETS, SECRETS)
    assert SECRET not in reader.get("/api/v1/dispatches/").content.decode()
