"""Keys bound to job types: what they see and do of others is as if it did not exist. I60."""

from __future__ import annotations

from functools import partial

import pytest

from apps.access.rules.clients import Binding
from apps.jobs.models import Job, JobType, Worker
from tests import factories
from tests.emptying import undone
from tests.integration.api.contract import ApiFor, mistakes
from tests.integration.api.endpoints import ENDPOINTS
from tests.integration.api.job_endpoints import JOB_ENDPOINTS, SETTINGS
from tests.integration.api.test_matrix import listed_by, without_request_id
from tests.integration.api.world import Untouched, World, checksum

pytestmark = pytest.mark.django_db

OTHERS = [endpoint for endpoint in ENDPOINTS if not endpoint.types]
HANDLER_LESS = {**SETTINGS, "handler": ""}


def test_key_bound_to_the_type_is_served(
    world: World, api_for: ApiFor, subtests: pytest.Subtests
) -> None:
    for endpoint in JOB_ENDPOINTS:
        with subtests.test(str(endpoint)), undone():
            client = api_for(job_types=[*endpoint.types, "other"])

            answer = endpoint.request(client, world)

            assert answer.status_code == endpoint.good, answer.content


@pytest.mark.parametrize("bound", ["sms", "unheard-of"])
def test_type_outside_the_binding_answers_as_an_unknown_one(
    bound: str, world: World, api_for: ApiFor, subtests: pytest.Subtests
) -> None:
    """I60: byte for byte but for the id of the request, and nothing is changed."""
    client = api_for(job_types=[bound])
    for endpoint in JOB_ENDPOINTS:
        # Workers are noted as they call.
        but = [Worker] if endpoint.scope == "hold" else []
        with subtests.test(str(endpoint)), undone():
            before = checksum(but=but)

            foreign = endpoint.request(client, world)

            assert foreign.status_code == endpoint.foreign_type, foreign.content
            assert checksum(but=but) == before
            Job.objects.exclude(type=bound).delete()
            JobType.objects.exclude(name=bound).delete()
            unknown = endpoint.request(client, world)
            assert without_request_id(foreign) == without_request_id(unknown)


@pytest.mark.parametrize("bound", [["sms"], ["mail", "sms"], ["unheard-of"]])
def test_bound_key_lists_its_own_only(bound: list[str], world: World, api_for: ApiFor) -> None:
    """In every list, whatever the filter asks for."""
    client = api_for(job_types=bound)

    listed = partial(listed_by, client)
    there = set(bound) & {"mail", "sms"}
    assert listed("jobs", "type") == there
    assert listed("job-types", "name") == there
    assert listed("jobs", "type", type="mail") == there & {"mail"}
    assert listed("jobs", "type", type="mail", key="order-1") == there & {"mail"}
    assert listed("jobs", "type", key="order-1") == there


def test_key_bound_to_types_changes_nothing_that_has_none(
    world: World, api_for: ApiFor, subtests: pytest.Subtests
) -> None:
    """Neither executors nor templates nor plans. To read and to pull it finds what a key that is
    bound to an unknown executor finds: nothing but templates."""
    client, stranger = api_for(job_types=["mail"]), api_for(executors=["uid_nobody"])
    for endpoint in OTHERS:
        with subtests.test(str(endpoint)), undone(), Untouched() as rows:
            answer = endpoint.request(client, world)

            if endpoint.scope == "operate":
                assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
                assert rows
            elif Binding.JOB_TYPES in endpoint.bindings:
                assert answer.status_code == endpoint.good, answer.content
            else:
                foreign = endpoint.request(stranger, world)
                assert answer.status_code == endpoint.foreign, answer.content
                assert without_request_id(answer) == without_request_id(foreign)
    for path, field in (("executors", "name"), ("dispatches", "executor"), ("once-tasks", "id")):
        assert listed_by(client, path, field) == set()


def test_key_bound_to_both_changes_only_what_both_cover(
    world: World, api_for: ApiFor, subtests: pytest.Subtests
) -> None:
    client = api_for(executors=["uid_alice"], job_types=["mail"])
    for endpoint in ENDPOINTS:
        if endpoint.scope == "operate":
            with subtests.test(str(endpoint)), undone():
                answer = endpoint.request(client, world)

                covered = endpoint.bindings == frozenset(Binding)
                assert answer.status_code == (endpoint.good if covered else 403), answer.content


def test_key_bound_to_a_type_does_not_choose_its_handler(
    world: World, api_for: ApiFor, subtests: pytest.Subtests
) -> None:
    """The handler decides what runs on the platform's own machines."""
    factories.job_type("fax")
    factories.job_type("idle", handler="echo")
    client = api_for(job_types=["mail", "fax", "idle", "new"])
    for method, path, body in (
        ("PATCH", "mail/", {"handler": "sleep"}),
        ("PATCH", "mail/", {"handler": ""}),
        ("PUT", "mail/", HANDLER_LESS),
        ("PATCH", "fax/", {"handler": "echo"}),
        ("POST", "", {"name": "new", "handler": "echo"}),
        # A new one of that name would have another handler.
        ("DELETE", "idle/", None),
    ):
        with subtests.test(f"{method} {path}", body=body), Untouched() as rows:
            answer = client.request(method, f"/api/v1/job-types/{path}", body)

            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert "handler" in answer.json()["detail"]
            assert rows


DOOR = {"type": "object", "properties": {"door": {"secret": True}}}
OPEN_DOOR = {"type": "object", "properties": {"door": {}}}


def test_key_changes_what_is_masked_only_where_that_is_its_own_and_none_sees_it_by_that(
    db: None, api_for: ApiFor, subtests: pytest.Subtests
) -> None:
    """What a type declares is masked in all jobs and tasks, and else shown."""
    factories.job_type("safe", params_schema=DOOR)
    factories.job_type("plain")
    scopes = ["read", "operate"]
    keys = {
        "bound": api_for(scopes=[*scopes, "payload"], job_types=["safe", "plain", "new"]),
        "blind": api_for(scopes=scopes),
        "seeing": api_for(scopes=[*scopes, "payload"]),
    }
    for method, path, body, allowed in (
        ("PATCH", "safe/", {"params_schema": OPEN_DOOR}, ["seeing"]),
        ("PATCH", "safe/", {"params_schema": {}}, ["seeing"]),
        ("PUT", "safe/", {"paused": False}, ["seeing"]),
        ("DELETE", "safe/", None, ["seeing"]),
        ("PATCH", "plain/", {"params_schema": DOOR}, ["blind", "seeing"]),
        ("POST", "", {"name": "new", "params_schema": DOOR}, ["blind", "seeing"]),
        ("PATCH", "safe/", {"title": "Safe", "params_schema": DOOR}, [*keys]),
    ):
        for name, client in keys.items():
            with subtests.test(f"{method} {path} {body}", key=name), undone(), Untouched() as rows:
                answer = client.request(method, f"/api/v1/job-types/{path}", body)

                assert (answer.status_code < 300) == (name in allowed), answer.content
                if name not in allowed:
                    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
                    assert '"secret": true' in answer.json()["detail"]
                    assert rows


def test_key_bound_to_a_type_changes_its_other_settings(world: World, api_for: ApiFor) -> None:
    client = api_for(job_types=["mail"])

    answer = client.patch("/api/v1/job-types/mail/", {"paused": True, "pause_reason": "Storm"})

    assert (answer.status_code, answer.json()["handler"]) == (200, "echo")
    assert answer.json()["paused"] is True


def test_batch_with_one_foreign_type_makes_nothing(world: World, api_for: ApiFor) -> None:
    client = api_for(job_types=["mail"])
    before = checksum()

    answer = client.post("/api/v1/jobs/", {"jobs": [{"type": "mail"}, {"type": "sms"}]})

    assert mistakes(answer) == ["jobs[1].type"]
    assert "known are: mail." in answer.json()["detail"]
    assert checksum() == before
