"""PUT sets what it leaves out to its default, but never sets going what an operator has stopped."""

from __future__ import annotations

from typing import Any

import pytest

from tests import factories
from tests.integration.api.contract import ContractClient, document, mistakes

pytestmark = pytest.mark.django_db


def test_what_is_stopped_stays_so_unless_put_says_otherwise(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    ann = factories.user("uid_ann", enabled=False)
    once = factories.once_task(ann, status="paused")
    rotation = factories.rotation(ann, status="paused")
    factories.job_type("mail", paused=True)
    task = {"title": "Shelf", "executor": "uid_ann"}
    stopped: list[tuple[str, dict[str, Any], str, Any, Any]] = [
        ("executors/uid_ann/", {}, "enabled", False, True),
        (f"once-tasks/{once.pk}/", task, "status", "paused", "active"),
        (
            *(f"rotate-tasks/{rotation.pk}/", {**task, "rule": {"every_minutes": 60}}),
            *("status", "paused", "active"),
        ),
        ("job-types/mail/", {}, "paused", True, False),
    ]
    for path, body, field, kept, going in stopped:
        address = f"/api/v1/{path}"
        with subtests.test(path):
            assert mistakes(api.put(address, body)) == [field]
            assert api.get(address).json()[field] == kept
            assert api.put(address, {**body, field: going}).json()[field] == going


def test_every_body_that_could_set_something_going_must_say_so() -> None:
    """Of all addresses, also those that come."""
    schemas = document()["components"]["schemas"]
    bodies = {
        path: item["put"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        for path, item in document()["paths"].items()
        if "put" in item
    }
    demanded = {}
    for path, reference in bodies.items():
        body = schemas[reference.rpartition("/")[2]]
        going = {"status", "enabled", "paused"} & {*body["properties"]}
        assert going <= {*body.get("required", ())}, path
        demanded[path] = going
    assert len([path for path, going in demanded.items() if going]) == 4
