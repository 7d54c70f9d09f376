"""The OpenAPI document is clean, complete and what the platform serves. S2.13."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.test import Client

from tests.integration.api.contract import document
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
        assert set(operation["responses"]) >= expected, (method, path)
        assert operation["security"] == [{"bearerKey": []}, {"basicKey": []}]
        assert operation["description"]
        assert operation.get("requestBody", {"required": True})["required"]


@pytest.mark.parametrize("path", ["hold", "settle"])
def test_pause_of_a_worker_without_jobs_is_documented(path: str) -> None:
    answer = operations()["POST", f"/api/v1/jobs/{path}/"]["responses"]["200"]
    assert answer["headers"]["Retry-After"]["schema"] == {"type": "integer"}


def test_no_schema_speaks_of_the_code() -> None:
    """S2.13: descriptions are for callers."""
    text = repr(document())

    assert "StrictSerializer" not in text
    assert "Views call" not in text
    assert "may hold secrets" not in text


@pytest.mark.django_db
def test_document_and_pages_are_served_openly() -> None:
    """S2.13: without a key, for a person or a generator of clients."""
    client = Client()

    served = client.get("/api/schema/", headers={"accept": "application/vnd.oai.openapi"})
    page = client.get("/api/docs/")

    assert yaml.safe_load(served.content)["paths"] == document()["paths"]
    assert page.status_code == 200
