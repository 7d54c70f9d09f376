"""The OpenAPI document is clean, complete and what the platform serves. S2.13."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from apps.access.throttles import OPEN_LIMIT
from taskplatform import openapi
from tests import factories
from tests.integration.api.contract import ContractClient, contract, document
from tests.integration.api.corpus import resolved
from tests.integration.api.endpoints import ENDPOINTS


def operations() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path): operation
        for path, item in document()["paths"].items()
        for method, operation in item.items()
    }


def test_document_is_made_without_a_warning() -> None:
    """S2.13: `spectacular --validate --fail-on-warn`."""
    out = io.StringIO()

    call_command("spectacular", validate=True, fail_on_warn=True, stdout=out)

    assert yaml.safe_load(out.getvalue())["paths"] == document()["paths"]


def test_every_endpoint_is_documented_and_nothing_else() -> None:
    """S2.13: a method without a row of the matrix, or a row without a word, fails."""
    documented = {
        (method, re.sub(r"{\w+}", "{}", path.removeprefix("/api/v1/")))
        for method, path in operations()
    }

    assert documented == {(e.method, re.sub(r"<\w+:\w+>", "{}", e.route)) for e in ENDPOINTS}


def test_every_operation_documents_how_it_fails_and_what_it_needs() -> None:
    """S2.13: the usual problems, those of bodies and addresses, and a key."""
    for (method, path), operation in operations().items():
        expected = {"400", "401", "403", "429", "503"}
        expected |= {"413", "415"} if "requestBody" in operation else set()
        expected |= {"404"} if "{" in path else set()
        of_some = {"200", "201", "202", "204", "404"}
        of_some |= {"409", "422"} if method != "GET" or "{" in path else set()
        assert expected <= set(operation["responses"]) <= expected | of_some, (method, path)
        assert operation["security"] == [{"bearerKey": []}, {"basicKey": []}]
        assert operation["description"]
        assert operation.get("requestBody", {"required": True})["required"]


def test_functions_of_generated_clients_have_the_names_of_what_they_do() -> None:
    """Whoever reads a program that calls them reads no `jobs_hold_create`."""
    names = [each["operationId"] for each in operations().values()]
    wrong = re.compile(r"_(create|retrieve|list|update|destroy)$|_\d+$")

    assert len({*names}) == len(names)
    assert [each for each in names if not re.fullmatch(r"[a-z]+(_[a-z]+)*", each)] == []
    assert [each for each in names if wrong.search(each)] == []
    assert {
        *("pull", "callback", "extend_dispatch", "submit_jobs", "hold_jobs", "settle_jobs"),
        *("list_dispatches", "get_job_type", "create_once_task", "cancel_job", "mark_job_done"),
    } <= {*names}


def test_fields_with_defaults_need_not_be_sent() -> None:
    """Generators for TypeScript take the keyword `default` for: always there. Parameters of
    addresses have it."""
    bodies = {
        name: schema["properties"]
        for name, schema in document()["components"]["schemas"].items()
        if name.endswith("Request") and "properties" in schema
    }

    assert [(n, f) for n, fields in bodies.items() for f in fields if "default" in fields[f]] == []
    assert bodies["HoldBodyRequest"]["limit"]["description"].endswith("When absent: 100.")
    # A changed task keeps what is left out.
    for name in ("PatchedOnceTaskChangesRequest", "OnceTaskWhatIfChangesRequest"):
        assert "When absent" not in bodies[name]["priority"].get("description", ""), name


def test_filter_has_the_type_of_what_it_is_compared_with() -> None:
    """Numbers of jobs are text: one of 18 digits is another one in programs whose numbers are
    floating."""
    compared = []
    for operation in operations().values():
        answer = operation["responses"].get("200", {}).get("content", {}).get("application/json")
        rows = resolved(answer["schema"]).get("properties", {}).get("results") if answer else None
        if rows is None:
            continue
        row = resolved(rows["items"])["properties"]
        for asked in operation.get("parameters", ()):
            if (name := asked["name"]) in row:
                compared.append(name)
                found = resolved(row[name]).get("type")
                assert resolved(asked["schema"]).get("type") == found, (operation, name)
    assert {"together", "part_of", "task", "status"} <= {*compared}


def test_one_of_several_shapes_is_told_by_what_it_must_have() -> None:
    """A generated client reads one as the only shape that it fits, whatever else a later release
    adds to it."""

    def is_told(one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Whether what has all fields of the one lacks one of the other, or its value."""
        needed, fields = other.get("required", []), one.get("properties", {})
        return any(
            name not in fields
            or set(fields[name].get("enum", ())).isdisjoint(other["properties"][name]["enum"])
            for name in needed
            if name not in fields or "enum" in other["properties"][name]
        )

    def choices(part: Any) -> Iterator[list[dict[str, Any]]]:
        if isinstance(part, dict):
            if isinstance(part.get("oneOf"), list):
                yield [resolved(each) for each in part["oneOf"]]
            part = [*part.values()]
        for below in part if isinstance(part, list) else ():
            yield from choices(below)

    of_objects = [
        [each for each in found if each.get("type") == "object"] for found in choices(document())
    ]
    assert len([found for found in of_objects if len(found) > 1]) > 3
    for found in of_objects:
        for one, other in permutations(found, 2):
            assert is_told(one, other), (one, other)


@pytest.mark.django_db
def test_document_says_which_fields_go_together(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    """The document and the platform take the same bodies."""
    factories.job_type()
    job = {"type": "mail"}
    cases: list[tuple[str, dict[str, Any], bool]] = [
        ("jobs/", job, True),
        ("jobs/", {"jobs": [job, job]}, True),
        ("jobs/", {}, False),
        ("jobs/", {"key": "k-1"}, False),
        ("jobs/", {**job, "jobs": [job]}, False),
        ("jobs/", {"jobs": [job], "priority": 1}, False),
        ("jobs/", {"jobs": []}, False),
        ("jobs/", {**job, "delay": 5}, True),
        ("jobs/", {**job, "delay": 5, "run_at": "2030-01-01T00:00:00Z"}, False),
        ("jobs/", {"jobs": [{**job, "delay": 5, "run_at": "2030-01-01T00:00:00Z"}]}, False),
    ]
    cases += [
        ("schedules/", {"title": "x", "job_type": "mail", "rule": rule}, is_taken)
        for rule, is_taken in (
            (None, True),
            ({"every_minutes": 5}, True),
            ({"every_days": 1, "at": "09:30"}, True),
            ({"cron": "0 9 * * *"}, True),
            ({}, False),
            ({"every_days": 1}, False),
            ({"at": "09:30"}, False),
            ({"every_minutes": 5, "at": "09:30"}, False),
            ({"every_minutes": 5, "cron": "0 9 * * *"}, False),
        )
    ]
    outcome = {"id": "1", "lease_token": "a", "outcome": "succeeded"}
    cases += [
        ("jobs/settle/", {"worker": "pi-1", **body}, is_taken)
        for body, is_taken in (
            ({"outcomes": [outcome]}, True),
            ({"hold": {"types": ["mail"]}}, True),
            ({"outcomes": [], "hold": {"types": ["mail"]}}, False),
            ({"outcomes": []}, False),
            ({}, False),
        )
    ]
    cases += [
        ("jobs/bulk/", {"verb": "cancel", "filter": {"type": "mail"}, **body}, is_taken)
        for body, is_taken in (
            ({"reason": "x", "at_most": 9}, True),
            ({"reason": "x", "at_most": 9, "all": False, "dry_run": False}, True),
            ({"reason": "x", "all": True}, True),
            ({"reason": "x", "all": True, "at_most": 9}, False),
            ({"reason": "x", "all": False}, False),
            ({"reason": "x"}, False),
            ({"at_most": 9}, False),
            ({"all": True}, False),
            ({}, False),
            ({"dry_run": True}, True),
            ({"dry_run": True, "all": True, "at_most": 9}, True),
        )
    ]
    definition = {"steps": [{"name": "gate", "kind": "wait"}]}
    cases += [
        ("flow-runs/", {"definition": definition}, True),
        ("flow-runs/", {"definition": definition, "flow": "night"}, False),
        ("flow-runs/", {"key": "k-1"}, False),
    ]
    for path, body, is_taken in cases:
        with subtests.test(path=path, body=body):
            address = f"/api/v1/{path}"
            assert contract().takes("POST", address, body) is is_taken
            assert api.post(address, body).status_code in ([200, 201, 202] if is_taken else [400])


def test_document_names_the_host_to_call(settings: Any) -> None:
    assert [each["url"] for each in document()["servers"]] == ["/", settings.PUBLIC_URL]


@pytest.mark.django_db
def test_document_and_pages_are_served_openly() -> None:
    """S2.13: without a key, for a person or a generator of clients."""
    client = Client()

    served = client.get("/api/schema/", headers={"accept": "application/vnd.oai.openapi"})
    page = client.get("/api/docs/")

    assert yaml.safe_load(served.content)["paths"] == document()["paths"]
    assert page.status_code == 200


@pytest.mark.django_db
def test_document_is_made_once_and_sent_once_to_who_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Making it takes a second of CPU, and nobody needs a key to ask for it."""
    monkeypatch.setattr(openapi, "_rendered", {})
    made = []
    make = openapi.SchemaGenerator.get_schema
    monkeypatch.setattr(
        openapi.SchemaGenerator,
        "get_schema",
        lambda *args, **terms: made.append(1) or make(*args, **terms),
    )
    client = Client()
    answers = [
        client.get("/api/schema/", headers={"accept-language": language})
        for language in ("en", "zh-hans") * 2
    ]

    assert len(made) == 1
    assert len({each.content for each in answers}) == 1
    again = client.get("/api/schema/", headers={"if-none-match": answers[0]["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    as_json = client.get("/api/schema/", headers={"accept": "application/json"})
    assert yaml.safe_load(answers[0].content) == json.loads(as_json.content)
    assert as_json.json()["info"]["version"] == settings.RELEASE
    assert len(made) == 2


@pytest.mark.django_db
def test_conditions_about_the_document_are_answered_as_http_says(
    subtests: pytest.Subtests,
) -> None:
    client = Client()
    first = client.get("/api/schema/")
    etag = first["ETag"]
    for headers, status in (
        ({"if-none-match": f'"a", W/{etag}'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"a"'}, 200),
        ({"if-match": etag}, 200),
        ({"if-match": "*"}, 200),
        ({"if-match": '"a"'}, 412),
        ({"if-match": f"W/{etag}"}, 412),
    ):
        with subtests.test(**headers):
            answer = client.get("/api/schema/", headers=headers)
            assert answer.status_code == status
            if status == 412:
                assert (answer.json()["status"], answer.json()["code"]) == (412, "invalid")
            else:
                # Caches take these of a 304, too.
                for name in ("ETag", "Vary", "Cache-Control"):
                    assert answer[name] == first[name], name


@pytest.mark.django_db
def test_address_that_asks_without_end_has_to_wait() -> None:
    client = Client()
    statuses = [client.get("/api/schema/").status_code for _ in range(2 * OPEN_LIMIT + 1)]
    other = client.get("/api/schema/", REMOTE_ADDR="192.0.2.7")

    assert set(statuses[:OPEN_LIMIT]) == {200}
    assert statuses[-1] == 429
    assert other.status_code == 200
