"""Keys bound to job types: what they see and do of others is as if it did not exist. I60."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.access.rules.clients import Binding
from apps.jobs.models import Job, JobType, Worker
from tests import factories
from tests.integration.api.contract import ContractClient
from tests.integration.api.endpoint import Endpoint
from tests.integration.api.endpoints import ENDPOINTS
from tests.integration.api.job_endpoints import JOB_ENDPOINTS, SETTINGS
from tests.integration.api.test_matrix import without_request_id
from tests.integration.api.world import World, checksum

pytestmark = pytest.mark.django_db

MakeKey = Callable[..., str]
EVERY_ENDPOINT = pytest.mark.parametrize("endpoint", JOB_ENDPOINTS, ids=str)
OTHERS = [endpoint for endpoint in ENDPOINTS if not endpoint.types]
HANDLER_LESS = {**SETTINGS, "handler": ""}


@EVERY_ENDPOINT
def test_key_bound_to_the_type_is_served(
    endpoint: Endpoint, world: World, make_key: MakeKey, api_with: Callable[..., ContractClient]
) -> None:
    client = api_with(make_key(job_types=[*endpoint.types, "other"]))

    answer = endpoint.request(client, world)

    assert answer.status_code == endpoint.good, answer.content


@EVERY_ENDPOINT
@pytest.mark.parametrize("bound", ["sms", "unheard-of"])
def test_type_outside_the_binding_answers_as_an_unknown_one(
    endpoint: Endpoint,
    bound: str,
    world: World,
    make_key: MakeKey,
    api_with: Callable[..., ContractClient],
) -> None:
    """I60: byte for byte but for the id of the request, and nothing is changed."""
    client = api_with(make_key(job_types=[bound]))
    # Workers are noted as they call.
    but = [Worker] if endpoint.scope == "hold" else []
    before = checksum(but=but)

    foreign = endpoint.request(client, world)

    assert foreign.status_code == endpoint.foreign_type, foreign.content
    assert checksum(but=but) == before
    Job.objects.exclude(type=bound).delete()
    JobType.objects.exclude(name=bound).delete()
    unknown = endpoint.request(client, world)
    assert without_request_id(foreign) == without_request_id(unknown)


@pytest.mark.parametrize("bound", [["sms"], ["mail", "sms"], ["unheard-of"]])
def test_bound_key_lists_its_own_only(
    bound: list[str],
    world: World,
    make_key: MakeKey,
    api_with: Callable[..., ContractClient],
) -> None:
    """In every list, whatever the filter asks for."""
    client = api_with(make_key(job_types=bound))

    def listed(path: str, field: str, **query: Any) -> set[Any]:
        answer = client.get(f"/api/v1/{path}/", **query)
        return {row[field] for row in answer.json()["results"]}

    there = set(bound) & {"mail", "sms"}
    assert listed("jobs", "type") == there
    assert listed("job-types", "name") == there
    assert listed("jobs", "type", type="mail") == there & {"mail"}
    assert listed("jobs", "type", type="mail", key="order-1") == there & {"mail"}
    assert listed("jobs", "type", key="order-1") == there


@pytest.mark.parametrize("endpoint", OTHERS, ids=str)
def test_key_bound_to_types_changes_nothing_that_has_none(
    endpoint: Endpoint, world: World, make_key: MakeKey, api_with: Callable[..., ContractClient]
) -> None:
    """Neither executors nor templates nor plans; it pulls and reads what others see."""
    client = api_with(make_key(job_types=["mail"]))
    before = checksum()

    answer = endpoint.request(client, world)

    if endpoint.scope == "operate":
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert checksum() == before
    else:
        assert answer.status_code == endpoint.good, answer.content


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if e.scope == "operate"], ids=str)
def test_key_bound_to_both_changes_only_what_both_cover(
    endpoint: Endpoint, world: World, make_key: MakeKey, api_with: Callable[..., ContractClient]
) -> None:
    client = api_with(make_key(executors=["uid_alice"], job_types=["mail"]))

    answer = endpoint.request(client, world)

    covered = endpoint.bindings == frozenset(Binding)
    assert answer.status_code == (endpoint.good if covered else 403), answer.content


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "mail", {"handler": "sleep"}),
        ("PATCH", "mail", {"handler": ""}),
        ("PUT", "mail", HANDLER_LESS),
        ("PATCH", "fax", {"handler": "echo"}),
        ("POST", "", {"name": "new", "handler": "echo"}),
        # A new one of that name would have another handler.
        ("DELETE", "idle", None),
    ],
)
def test_key_bound_to_a_type_does_not_choose_its_handler(
    method: str,
    path: str,
    body: Any,
    world: World,
    make_key: MakeKey,
    api_with: Callable[..., ContractClient],
) -> None:
    """The handler decides what runs on the platform's own machines."""
    factories.job_type("fax")
    factories.job_type("idle", handler="echo")
    client = api_with(make_key(job_types=["mail", "fax", "idle", "new"]))
    before = checksum()

    answer = client.request(method, f"/api/v1/job-types/{path}{'/' if path else ''}", body)

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "handler" in answer.json()["detail"]
    assert checksum() == before


def test_key_bound_to_a_type_changes_its_other_settings(
    world: World, make_key: MakeKey, api_with: Callable[..., ContractClient]
) -> None:
    client = api_with(make_key(job_types=["mail"]))

    answer = client.patch("/api/v1/job-types/mail/", {"paused": True, "pause_reason": "Storm"})

    assert (answer.status_code, answer.json()["handler"]) == (200, "echo")
    assert answer.json()["paused"] is True


def test_batch_with_one_foreign_type_makes_nothing(
    world: World, make_key: MakeKey, api_with: Callable[..., ContractClient]
) -> None:
    client = api_with(make_key(job_types=["mail"]))
    before = checksum()

    answer = client.post("/api/v1/jobs/", {"jobs": [{"type": "mail"}, {"type": "sms"}]})

    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == ["jobs[1].type"]
    assert "known are: mail." in answer.json()["detail"]
    assert checksum() == before
