"""No door leads to the platform's own types: while they stop nobody is notified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.forms.models import model_to_dict
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.common.errors import Conflict, Invalid
from apps.jobs.handlers import registry
from apps.jobs.models import JobType
from apps.jobs.rules.type_settings import SETTINGS
from apps.jobs.services import types
from apps.reports.services import fact_sheet
from apps.reports.watches.jobs import UNUSED_TYPES
from tests import factories
from tests.integration.api.contract import ContractClient
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db

TYPES = "/api/v1/job-types/"
NEEDED = "The platform itself needs the type"
# What could stop the jobs of a type, or run something else in their place.
STOPPING: dict[str, Any] = {
    "handler": "sleep",
    "stages": ["a"],
    "params_schema": {"type": "object", "required": ["nothing"]},
    "unique": "never",
    "pool": True,
    "allowed_hosts": ["nowhere"],
    "max_running": 0,
    "rate_per_minute": 0,
    "expires_after_seconds": 3600,
    "lease_seconds": 5,
    "max_processing_seconds": 5,
    "breaker_enabled": True,
    "paused": True,
    "pause_reason": "x",
    "paused_until": None,
}
# What people may set: how fast, how often and for how long.
TUNING: dict[str, Any] = {
    "title": "Messages",
    "lane": "fast",
    "origin": "prefer",
    "settle": "each",
    "weight": 2,
    "batch_limit": 7,
    "lease_seconds": 40,
    "max_processing_seconds": 50,
    "max_attempts": 4,
    "retry_delay_seconds": 5.0,
    "retry_multiplier": 3.0,
    "retry_max_seconds": 600.0,
    "retry_jitter": 0.2,
    "expires_after_seconds": 86_400,
    "default_priority": 1,
    "max_running": 3,
    "rate_per_minute": 600,
    "limit_by": "key",
    "limit_running": 1000,
    "limit_per_minute": 600,
    "limit_burst": 10,
    "origin_grace_seconds": 30,
    "breaker_failure_rate": 0.6,
    "breaker_window_seconds": 70,
    "breaker_min_calls": 21,
    "breaker_open_seconds": 31,
    "retention_days": None,
}


@pytest.fixture(autouse=True)
def own() -> list[JobType]:
    """As workers make them at their start, and long unused."""
    names = registry.system_types()
    assert names == {"bulk", "deliver", "send_report"}
    for name in names:
        factories.job_type(name)
    JobType.objects.update(created_at=clock.now() - timedelta(days=91))
    return list(JobType.objects.order_by("name"))


@contextmanager
def nothing_changes(row: JobType) -> Iterator[None]:
    before = model_to_dict(row)
    yield
    assert model_to_dict(JobType.objects.get(name=row.name)) == before


def test_every_setting_is_one_that_stops_or_one_that_tunes() -> None:
    assert {*STOPPING, *TUNING} == {*SETTINGS}


def test_no_setting_that_stops_them_is_changed(own: list[JobType], subtests: Any) -> None:
    for row in own:
        for name, value in STOPPING.items():
            changes = {"paused": True, name: value} if name.startswith("pause") else {name: value}
            with subtests.test(type=row.name, setting=name), nothing_changes(row):
                with pytest.raises(Invalid, match=NEEDED) as refused:
                    types.update_type(job_type=row, changes=changes, actor="test")
                assert {each.field for each in refused.value.errors} <= changes.keys()


def test_settings_that_tune_them_are_changed(own: list[JobType]) -> None:
    for row in own:
        types.update_type(job_type=row, changes=TUNING, actor="test")
        row.refresh_from_db()
        assert {name: getattr(row, name) for name in TUNING} == TUNING


def test_one_that_was_stopped_earlier_goes_on_and_gets_its_handler_back(own: list[JobType]) -> None:
    for row in own:
        stopped = {"paused": True, "pause_reason": "x", "handler": ""}
        JobType.objects.filter(pk=row.pk).update(**stopped)

        types.resume_type(job_type=row, actor="test")
        types.update_type(job_type=row, changes={"handler": row.name}, actor="test")

        row.refresh_from_db()
        assert (row.paused, row.pause_reason, row.handler) == (False, "", row.name)


def test_services_neither_pause_nor_delete_nor_make_them(own: list[JobType]) -> None:
    for row in own:
        with nothing_changes(row), pytest.raises(Conflict, match=NEEDED):
            types.pause_type(job_type=row, reason="x", actor="test")
        with nothing_changes(row), pytest.raises(Conflict, match=NEEDED):
            types.delete_type(job_type=row, actor="test")
    JobType.objects.all().delete()
    for row in own:
        with pytest.raises(Invalid, match=NEEDED):
            types.create_type(name=row.name, paused=True, pause_reason="x", actor="test")
    assert not JobType.objects.exists()


def test_rest_refuses(api: ContractClient, own: list[JobType], subtests: Any) -> None:
    calls: dict[str, Callable[[str], Any]] = {
        "PATCH": lambda name: api.patch(f"{TYPES}{name}/", {"paused": True, "pause_reason": "x"}),
        "PUT": lambda name: api.put(f"{TYPES}{name}/", {"paused": True, "pause_reason": "x"}),
        "DELETE": lambda name: api.delete(f"{TYPES}{name}/"),
        "POST": lambda name: api.post(TYPES, {"name": name, "paused": True}),
    }
    for row in own:
        for method, call in calls.items():
            with subtests.test(type=row.name, method=method), nothing_changes(row):
                answer = call(row.name)
                assert answer.status_code in (400, 409)
                assert NEEDED in answer.content.decode()


def test_pages_offer_no_pause_and_refuse_it(admin_client: Client, own: list[JobType]) -> None:
    pause = reverse("admin:jobs_jobtype_act", args=["pause"])
    for row in own:
        page = reverse("admin:jobs_jobtype_change", args=[row.pk])
        assert pause not in admin_client.get(page).content.decode()
        form = form_of(admin_client.get(page), "max_attempts")
        with nothing_changes(row):
            shown = admin_client.post(page, {**form, "handler": "sleep", "max_running": "0"})
            assert shown.context["adminform"].form.errors.keys() == {"handler", "max_running"}
            delete = reverse("admin:jobs_jobtype_delete", args=[row.pk])
            for answer in (admin_client.get(delete), admin_client.post(delete, {"post": "yes"})):
                assert NEEDED in text_of(answer)
    ids = ",".join(str(row.pk) for row in own)
    answer = admin_client.post(pause, {"ids": ids, "reason": "x"})
    assert "3 rows skipped" in text_of(answer)
    assert not JobType.objects.filter(paused=True).exists()


def test_governance_does_not_offer_them(own: list[JobType]) -> None:
    assert [*UNUSED_TYPES.read(fact_sheet.read())] == []
