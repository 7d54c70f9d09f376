"""Job types over REST. S2.2, S2.21."""

from __future__ import annotations

from typing import Any

import pytest

from apps.jobs.models import JobType
from tests import factories
from tests.integration.api.contract import ContractClient, mistakes
from tests.integration.api.job_endpoints import SETTINGS

pytestmark = pytest.mark.django_db

TYPES = "/api/v1/job-types/"
# The contract's defaults.
DEFAULTS: dict[str, Any] = {
    "name": "mail",
    "title": "",
    "handler": "",
    "lane": "fast",
    "stages": [],
    "params_schema": {},
    "weight": 1,
    "batch_limit": 100,
    "lease_seconds": 30,
    "max_processing_seconds": 900,
    "max_attempts": 3,
    "retry_delay_seconds": 10,
    "retry_multiplier": 2.0,
    "retry_max_seconds": 3600,
    "retry_jitter": 0.1,
    "expires_after_seconds": None,
    "default_priority": 0,
    "max_running": None,
    "rate_per_minute": None,
    "limit_by": "",
    "limit_running": None,
    "limit_per_minute": None,
    "limit_burst": None,
    "origin": "none",
    "origin_grace_seconds": 60,
    "allowed_hosts": [],
    "unique": "allow",
    "pool": False,
    "settle": "batch",
    "retention_days": None,
    "paused": False,
    "pause_reason": "",
    "paused_until": None,
    "breaker": {
        "enabled": False,
        "failure_rate": 0.5,
        "window_seconds": 60,
        "min_calls": 20,
        "open_seconds": 30,
    },
}
ADDED = {"version", "created_at", "updated_at"}


@pytest.fixture(autouse=True)
def at_nine(frozen_clock: Any) -> None:
    """Monday 2026-03-02."""


def test_a_name_is_enough(api: ContractClient) -> None:
    """S2.21: everything else has a default."""
    answer = api.post(TYPES, {"name": "mail"})

    assert answer.status_code == 201
    assert {k: v for k, v in answer.json().items() if k not in ADDED} == DEFAULTS
    assert set(answer.json()) == {*DEFAULTS, *ADDED}


def test_every_setting_comes_back(api: ContractClient) -> None:
    """S2.2"""
    api.post(TYPES, {"name": "mail", **SETTINGS})

    body = api.get(f"{TYPES}mail/").json()

    assert {name: body[name] for name in SETTINGS} == SETTINGS


def test_stages_are_named_or_any(api: ContractClient) -> None:
    """S2.17."""
    made = api.post(TYPES, {"name": "mail", "stages": ["*"]})
    assert (made.status_code, made.json()["stages"]) == (201, ["*"])
    for wrong in (["*", "a"], ["a", "*"], ["a*"], "*"):
        assert api.patch(f"{TYPES}mail/", {"stages": wrong}).status_code == 400
    assert api.patch(f"{TYPES}mail/", {"stages": ["a", "b"]}).json()["stages"] == ["a", "b"]


def test_put_is_the_whole_and_patch_what_it_names(api: ContractClient) -> None:
    api.post(TYPES, {"name": "mail", **SETTINGS})

    patched = api.patch(f"{TYPES}mail/", {"weight": 9, "breaker": {"min_calls": 7}}).json()
    put = api.put(f"{TYPES}mail/", {"weight": 9, "paused": False}).json()

    breaker = {**SETTINGS["breaker"], "min_calls": 7}
    assert {n: patched[n] for n in SETTINGS} == {**SETTINGS, "weight": 9, "breaker": breaker}
    assert {n: put[n] for n in DEFAULTS} == {**DEFAULTS, "weight": 9}
    assert (patched["version"], put["version"]) == (2, 3)


def test_all_mistakes_are_reported_at_once(api: ContractClient) -> None:
    body = {"name": "mail", "weight": 0, "params_schema": {"type": "array"}, "lane": "side"}

    answer = api.post(TYPES, body)

    assert answer.status_code == 400
    fields = {error["field"] for error in answer.json()["errors"]}
    assert fields == {"weight", "lane"}
    answer = api.post(TYPES, {**body, "weight": 1, "lane": "fast"})
    assert mistakes(answer) == ["params_schema"]


def test_name_is_a_key_that_addresses_can_hold(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    for name in ("a b", "ä", "x" * 65, "", "a|b", "a/b", "../x", "/a", "a/", "..", "."):
        with subtests.test(name=name):
            assert api.post(TYPES, {"name": name}).status_code == 400
    assert not JobType.objects.exists()


def test_refusal_of_a_slash_says_why(api: ContractClient) -> None:
    detail = api.post(TYPES, {"name": "sms/bulk"}).json()["detail"]
    assert "without blanks and slashes" in detail and "addresses hold it" in detail


def test_type_from_before_with_a_slash_is_still_found(api: ContractClient) -> None:
    """Operators replace it step by step; see jobs.W001."""
    kept = factories.job_type("sms")
    JobType.objects.filter(pk=kept.pk).update(name="sms/bulk")
    assert api.get(f"{TYPES}sms/bulk/").json()["name"] == "sms/bulk"
    assert api.patch(f"{TYPES}sms/bulk/", {"max_attempts": 2}).status_code == 200
    assert api.delete(f"{TYPES}sms/bulk/").status_code == 204


def test_only_a_type_without_jobs_can_be_deleted(api: ContractClient) -> None:
    factories.job("mail", into={"status": "succeeded"})
    factories.job_type("sms")

    refused = api.delete(f"{TYPES}mail/")
    deleted = api.delete(f"{TYPES}sms/")

    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert deleted.status_code == 204
    assert [each.name for each in JobType.objects.all()] == ["mail"]
    assert api.get(f"{TYPES}sms/").status_code == 404
