"""An operator finds a failure, opens it and retries the whole group, with a reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.common import clock
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.journal.models import JournalEntry
from apps.reports.services import rollup
from tests.browser.appearance.test_barriers import PageCheck
from tests.frozen import FrozenClock
from tests.jobs import end, job_type, jobs, take


@pytest.fixture
def refused(transactional_db: None, frozen_clock: FrozenClock) -> list[int]:
    """Two mails that a server refused, and one that had no address."""
    job_type(max_attempts=1)
    numbers = jobs(3)
    for place in range(2):
        trace = f"Traceback (most recent call last):\n  line {place}\n"
        error = f"{trace}ConnectionRefusedError: 10.0.0.{place}:25"
        end(take(1)[0], "failed", error=error, retry="never")
    end(take(1)[0], "failed", error="ValueError: no address", retry="never")
    frozen_clock.advance(minutes=3)
    rollup.roll_up(until=clock.now() + timedelta(minutes=1))
    return numbers


def test_failure_is_found_and_its_group_retried(
    page_as: Callable[[str | None], Page], refused: list[int]
) -> None:
    page, check = page_as("operator"), PageCheck()
    page.goto("/admin/")
    page.locator(f'a[href="{reverse("failures")}"]').first.click()
    group = page.locator(".failure").filter(has_text="ConnectionRefusedError: 10.0.0.1:25")
    expect(group).to_contain_text("2 final")
    check.page(page, "failures")
    group.get_by_role("link", name="ConnectionRefusedError").click()
    expect(page.locator(".state-here")).to_contain_text("Failed")
    page.go_back()
    group.get_by_role("link", name="Retry…").click()
    expect(page.get_by_text("This concerns 2 jobs")).to_be_visible()
    check.page(page, "retry of a group")
    expect(page.get_by_label("Reason")).to_have_count(0)
    page.get_by_role("button", name="Retry", exact=True).click()
    expect(page.get_by_text("2 jobs retried.")).to_be_visible()
    assert reverse("failures") in page.url
    retried = set(Job.objects.filter(status=t.READY).values_list("pk", flat=True))
    assert retried == set(refused[:2])
    reasons = JournalEntry.objects.filter(event="retried").values_list("actor", "reason")
    assert list(reasons) == [("admin:operator", "")] * 2
    assert check.found == []
