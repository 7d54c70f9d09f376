"""Reports tell of jobs the same before and after they go to the archive: S4.16, I54."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.jobs.models import ArchivedJob
from apps.jobs.services import control
from apps.reports.services.summary import Period, summarise
from tests.frozen import FrozenClock
from tests.history import forget, move
from tests.integration.reports.day import roll_up
from tests.jobs import end, job_type, jobs, take
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock) -> FrozenClock:
    job_type("mail")
    return frozen_clock


@pytest.fixture
def done(mail: FrozenClock) -> list[int]:
    """Two jobs that failed alike and one that succeeded, eight days ago, all added up."""
    numbers = jobs(3)
    for held, how in zip(take(3), ("failed", "failed", "succeeded"), strict=True):
        end(held, how, **({"error": "no address", "retry": "never"} if how == "failed" else {}))
    mail.advance(days=8)
    roll_up()
    return numbers


def test_totals_are_not_changed_by_moves_retries_and_forgetting(
    done: list[int], mail: FrozenClock, settings: Any
) -> None:
    """I54: the journal alone is counted, and a move is no end."""
    settings.JOB_RETENTION = timedelta(days=30)
    now = clock.now()

    def told() -> Any:
        period = Period(now - timedelta(days=9), now + timedelta(hours=1), ZoneInfo("UTC"))
        found = summarise("job", "type", period)
        return found.rows, found.total

    before = told()
    assert move() == 3
    mail.advance(minutes=2)
    roll_up()
    assert told() == before
    job = ArchivedJob.objects.get(pk=done[0])
    control.retry(job=job, actor="admin:olga", reason="again")
    mail.advance(minutes=2)
    roll_up()
    assert told() == before
    mail.advance(days=31)
    assert forget() == 2
    roll_up()
    assert told() == before


def test_failures_lead_to_archived_jobs(done: list[int], admin_client: Client) -> None:
    """S4.16: the newest job of a group, and the list of all of them."""
    move()
    page = admin_client.get(reverse("failures"), {"period": "30d"})
    assert "no address" in text_of(page)
    newest = reverse("admin:jobs_job_change", args=[done[1]])
    assert newest in page.content.decode()
    there = admin_client.get(newest)
    assert there["Location"] == reverse("admin:jobs_archivedjob_change", args=[done[1]])
    group = {"type": "mail", "error_key": ArchivedJob.objects.get(pk=done[1]).error_key}
    live = admin_client.get(reverse("admin:jobs_job_changelist"), group)
    archive = admin_client.get(live.context["older_url"])
    assert [job.pk for job in archive.context["cl"].result_list] == [done[1], done[0]]
