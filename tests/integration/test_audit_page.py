"""The audit as a page of the admin."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from apps.common import audit as auditing
from apps.common import clock
from apps.common.audit import Breach
from apps.common.leases import sweep_lease
from apps.dispatch.models import Executor, OperatorScope, Stock
from apps.flows.models import FlowStep
from apps.jobs.models import Job
from taskplatform import audit_page
from tests import callback, factories
from tests.flows import started, step_of, wait
from tests.pages import change_url, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(auditing, "AGAIN_AFTER_SECONDS", 0.0)
    return reverse("audit")


def test_page_says_what_is_checked_and_runs_nothing(
    admin_client: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "audit", lambda *_: pytest.fail("it ran"))
    text = text_of(admin_client.get(url))
    assert "Each person has at most one open dispatch I5" in text
    assert "Run the audit" in text


def test_clean_system_is_shown_as_such(role_client: Any, url: str) -> None:
    text = text_of(role_client("configurer").post(url))
    assert "All checks passed in" in text
    assert "broken" not in text


def test_breaches_are_listed(admin_client: Any, url: str) -> None:
    job = factories.job(into={"finished_at": clock.now()})
    text = text_of(admin_client.post(url))
    assert "Some checks failed." in text
    assert f"I26 job {job.pk} : is ready, but its end is at " in text


def test_breaches_lead_to_the_pages_of_their_rows(admin_client: Any, url: str) -> None:
    """Also those of rows that have none of their own, or that are gone."""
    step = step_of(started(wait("gate")), "gate")
    FlowStep.objects.filter(pk=step.pk).update(look_at=None)
    task = factories.once_task(factories.user())
    callback.take_next(task.executor)
    Stock.objects.update(handed=4)
    every = [Breach("I1", f"{noun}7", "is wrong") for noun in ("job ", "alert ", "flow step ")]
    page = admin_client.post(url).content.decode()
    linked = re.findall(r'<bdi>I\d+ <a[^>]* href="([^"]+)">([^<]+)</a>', page)
    assert {text: address for address, text in linked} == {
        f"flow step {step.pk}": change_url(step.run),
        f"quota once:{task.pk}/0": change_url(task),
    }
    assert all("<a" in line for line in audit_page._linked(every))
    assert audit_page._linked(["I5 people: and 7 more"]) == ["I5 people: and 7 more"]


def test_breaches_are_shown_in_chinese(admin_client: Any, url: str) -> None:
    job = factories.job()
    Job.objects.filter(pk=job.pk).update(version=9)
    page = admin_client.post(url, headers={"accept-language": "zh-hans"})
    assert f"I39 job {job.pk} : 版本为 9，" in text_of(page)


def test_second_audit_waits_for_the_first(admin_client: Any, url: str) -> None:
    with sweep_lease(audit_page.LEASE, at_most=timedelta(minutes=1)) as mine:
        assert mine
        text = text_of(admin_client.post(url))
    assert "An audit is running already" in text


def test_nobody_audits_whose_view_is_limited(role_client: Any, url: str) -> None:
    client = role_client("configurer")
    alice: Executor = factories.user()
    OperatorScope.objects.create(operator=User.objects.get(username="configurer"), executor=alice)
    assert client.post(url).status_code == 403
