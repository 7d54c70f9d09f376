"""S2.8: the page of governance: who sees it, who may fix what, and that a look changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.common.messages import Message
from apps.dispatch.models import OperatorScope
from apps.jobs.models import Job, JobType
from apps.journal.models import JournalEntry
from apps.reports import metrics
from apps.reports.admin import governance
from apps.reports.watches import WATCHES, troubles
from apps.reports.watches.base import WARNING, NotKnown, Reading, Watch
from apps.reports.watches.tables import FIXED
from tests import factories
from tests.frozen import FrozenClock
from tests.history import ended
from tests.pages import text_of

pytestmark = pytest.mark.django_db
URL = reverse("governance")
FIX = reverse("governance_fix", args=["G6"])


@pytest.fixture(autouse=True)
def idle(frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobType]:
    """A type that nobody uses is the only thing to find."""
    monkeypatch.setattr(clock, "drift", timedelta)
    only = [each for each in WATCHES if each.key in {"G5", "G6", "G7", "G8", "G9"}]
    monkeypatch.setattr(governance, "WATCHES", only)
    monkeypatch.setattr(metrics, "WATCHES", only)
    row = factories.job_type("idle")
    JobType.objects.update(created_at=frozen_clock.instant - timedelta(days=91))
    yield row


def test_page_names_all_and_shows_findings_first(admin_client: Client) -> None:
    text = text_of(admin_client.get(URL))
    assert "One thing wants attention." in text
    assert text.index("G7 Job types are used 1 finding") < text.index("in order G5 Sinks get")
    assert "No job of type idle has come for 90 days." in text
    assert text.index("G8 The clocks agree") < text.index("G9 Few jobs fail")


def test_fix_says_first_what_it_would_do_and_changes_nothing(admin_client: Client) -> None:
    jobs = ended(2, ago=timedelta(days=9))
    page = admin_client.get(FIX, {"subject": "jobs_job"})
    assert "It moves to the older ones what ended before" in text_of(page)
    page = admin_client.post(FIX, {"subject": "jobs_job", "reason": " "})
    assert page.status_code == 200
    assert "This field is required." in text_of(page)
    assert Job.objects.filter(pk__in=jobs).count() == 2


def test_fix_with_a_reason_is_done_and_in_the_journal(admin_client: Client) -> None:
    ended(2, ago=timedelta(days=9))
    asked = {"subject": "jobs_job", "reason": "It is full"}
    assert "Moved to the older ones: 2." in text_of(admin_client.post(FIX, asked, follow=True))
    entry = JournalEntry.objects.get(event=FIXED)
    assert (entry.actor, entry.reason) == ("admin:admin", "It is full")


def test_watch_without_a_fix_has_no_page_of_one(admin_client: Client) -> None:
    for number in ("G7", "G8", "G99"):
        assert admin_client.get(reverse("governance_fix", args=[number])).status_code == 404


def test_viewer_sees_findings_without_fixes(role_client: Any, idle: JobType) -> None:
    ended(1, ago=timedelta(days=9))
    viewer = role_client("viewer")
    page = viewer.get(URL)
    assert "No job of type idle" in text_of(page)
    pause = f"{reverse('admin:jobs_jobtype_act', args=['pause'])}?ids={idle.pk}"
    assert not {FIX, pause} & linked(page)
    for answer in (viewer.get(FIX, {"subject": "jobs_job"}), viewer.post(FIX, {"reason": "x"})):
        assert answer.status_code == 403
    assert {FIX, pause} & linked(role_client("operator").get(URL)) == {pause}
    assert {FIX, pause} & linked(role_client("configurer").get(URL)) == {FIX, pause}


def linked(page: Any) -> set[str]:
    """Where a page leads; of fixes without their subjects."""
    links = re.findall(r'href="([^"]*)"', page.content.decode())
    return {link.replace(f"{FIX}?subject=jobs_job", FIX) for link in links}


def test_people_with_limits_do_not_see_it(role_client: Any) -> None:
    operator = role_client("operator")
    user = User.objects.get(username="operator")
    OperatorScope.objects.create(operator=user, executor=factories.user())
    assert operator.get(URL).status_code == 403
    assert operator.get(FIX, {"subject": "jobs_job"}).status_code == 403


def test_failures_offer_the_page_that_retries_them(
    role_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = ended(1, ago=timedelta(hours=1), status="failed", error_key="e" * 32)
    found = Reading("error", f"mail:{'e' * 32}", text=Message("Many."))
    many = Watch(key="G9", title=Message("Few"), read=lambda _sheet: [found])
    monkeypatch.setattr(governance, "WATCHES", [many])
    page = role_client("operator").get(URL)
    url = f"{reverse('admin:jobs_job_group', args=['retry'])}?type=mail&error_key={'e' * 32}"
    assert url in page.content.decode().replace("&amp;", "&")
    assert "group/retry" not in role_client("viewer").get(URL).content.decode()
    assert str(job) in text_of(role_client("operator").get(url))


def test_what_cannot_be_looked_at_is_said(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_sheet: Any) -> Any:
        raise NotKnown(Message("It lacks a privilege."))

    blind = Watch(key="G10", title=Message("Blind"), read=read)
    monkeypatch.setattr(governance, "WATCHES", [blind])
    text = text_of(admin_client.get(URL))
    assert "G10 Blind not known It lacks a privilege." in text


def test_metrics_count_the_findings(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMBEDDED = True
    metrics = client.get("/metrics").content.decode()
    assert 'taskplatform_findings{detector="G7"} 1.0' in metrics
    assert 'taskplatform_findings{detector="G5"} 0.0' in metrics


def test_check_that_stumbles_takes_no_other_with_it(
    admin_client: Client, client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Governance, home and metrics go on; its error is said there, without secrets."""

    def read(_sheet: Any) -> Any:
        raise ValueError("token=s3cr3t-9f2c")

    settings.EMBEDDED = True
    stumbles = Watch(key="G5", title=Message("Sinks get"), read=read, severity=WARNING)
    watches = [stumbles, *(each for each in WATCHES if each.key in {"G7", "paused"})]
    for module in (governance, metrics, troubles):
        monkeypatch.setattr(module, "WATCHES", watches)
    said = "The check “Sinks get” fails, so nobody hears of what it watches: ValueError: token="

    page = text_of(admin_client.get(URL))
    assert f"not known {said}" in page
    assert "No job of type idle has come for 90 days." in page
    home = text_of(admin_client.get("/admin/"))
    assert said in home
    assert "s3cr3t" not in page + home
    figures = client.get("/metrics").content.decode()
    assert 'detector="G7"} 1.0' in figures
    assert 'detector="G5"' not in figures
