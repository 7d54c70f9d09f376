"""Keys bound to job types: what they see and do of others is as if it did not exist. I60."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.jobs.models import Job, JobType
from tests.integration.api.contract import ContractClient
from tests.integration.api.endpoint import Endpoint
from tests.integration.api.job_endpoints import JOB_ENDPOINTS
from tests.integration.api.test_matrix import without_request_id
from tests.integration.api.world import World, checksum

pytestmark = pytest.mark.django_db

MakeKey = Callable[..., str]
EVERY_ENDPOINT = pytest.mark.parametrize("endpoint", JOB_ENDPOINTS, ids=str)


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
    before = checksum()

    foreign = endpoint.request(client, world)

    assert foreign.status_code == endpoint.foreign_type, foreign.content
    assert checksum() == before
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
