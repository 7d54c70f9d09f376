"""A schema that an earlier version took and this one cannot use says so, wherever it is met."""

from __future__ import annotations

from typing import Any

import pytest

from apps.dispatch.models import Template
from apps.jobs.models import JobType
from tests.caches import clear_caches
from tests.integration.api.contract import ContractClient
from tests.integration.api.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.both]

STORED = {"type": "object", "properties": {"code": {"type": "string", "pattern": r"\Qa.b\E"}}}
TROUBLE = "The schema itself does not work and must be saved anew: schema.properties.code.pattern"
TASK = {"title": "Check", "executor": "uid_alice", "template": "photo-check", "params": {}}


def test_stored_schema_that_no_longer_works_is_an_error_of_the_value(
    world: World, api: ContractClient, subtests: pytest.Subtests
) -> None:
    JobType.objects.filter(name__in=["mail", "points"]).update(params_schema=STORED, version=9)
    Template.objects.update(schema=STORED)
    clear_caches()

    for address, body, field in (
        ("jobs/", {"type": "mail"}, "context"),
        ("jobs/", {"jobs": [{"type": "sms"}, {"type": "mail"}]}, "jobs[1].context"),
        ("pools/points/rebuild/", {"items": {"a": 1}, "contexts": {"a": {}}}, "contexts.a"),
        ("schedules/", {"title": "A", "job_type": "mail", "rule": {"every_minutes": 9}}, "context"),
        ("once-tasks/", TASK, "params"),
        ("once-tasks/what-if/", TASK, "params"),
    ):
        with subtests.test(f"{address} {field}"):
            answer: Any = api.post(f"/api/v1/{address}", body)
            assert answer.status_code == 400, answer.content
            errors = answer.json()["errors"]
            assert [each["field"] for each in errors] == [field]
            assert errors[0]["message"].startswith(TROUBLE)
