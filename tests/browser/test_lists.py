"""What a list is narrowed to: by a tile or a tab, by chips, by a view of somebody else, and the way
from the words of an error to the retry of all that failed by it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.jobs.models import Job, JobScope
from apps.jobs.rules import transitions as t
from tests.jobs import end, job_type, jobs, take

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/jobs/job/"
PageAs = Callable[..., Page]


def failed_jobs(count: int, error: str, *, type: str = "mail") -> list[int]:  # noqa: A002
    """Jobs that have failed for good, by number."""
    job_type(type, max_attempts=1)
    made = jobs(count, type)
    for held in take(count, types=[type]):
        end(held, "failed", error=error, retry="never")
    return made


@pytest.fixture
def failures() -> list[int]:
    """Three failed jobs of one type, two of another one, and two that wait."""
    found = failed_jobs(3, "ConnectionRefusedError: 10.0.0.1:25")
    found += failed_jobs(2, "ValueError: no address", type="web")
    jobs(2)
    return found


def test_one_click_leads_to_the_failed_jobs_and_its_number_is_that_of_the_rows(
    page_as: PageAs, failures: list[int]
) -> None:
    page = page_as("viewer")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(LIST)
    way = page.locator("nav.tabs a.tab-failed")
    expect(way).to_have_text(f"Failed {len(failures)}")

    way.click()

    expect(page).to_have_url(re.compile(rf"{LIST}\?(.*&)?status=failed"))
    expect(page.locator("nav.tabs a[aria-current]")).to_have_text(f"Failed {len(failures)}")
    expect(page.locator("#result_list tbody tr")).to_have_count(len(failures))


def test_cross_of_a_chip_takes_just_that_filter_off(page_as: PageAs, failures: list[int]) -> None:
    page = page_as("viewer")
    page.goto(f"{LIST}?type=mail&status=failed&user=")
    chips, rows = page.locator("a.chip bdi"), page.locator("#result_list tbody tr")
    expect(chips).to_have_text(["Type: mail", "Status: failed"])
    expect(rows).to_have_count(3)

    page.get_by_role("link", name="Type: mail").click()
    expect(chips).to_have_text(["Status: failed"])
    expect(rows).to_have_count(5)

    page.get_by_role("link", name="Status: failed").click()
    expect(chips).to_have_count(0)
    expect(rows).to_have_count(7)


def test_shared_view_shows_each_reader_their_own_rows(
    page_as: PageAs, role_user: Callable[[str], User], failures: list[int]
) -> None:
    owner, reader = page_as("operator"), page_as("viewer")
    owner.goto(f"{LIST}?status=failed")
    owner.get_by_text("Save this view…").click()
    owner.get_by_label("Title", exact=True).fill("Broken")
    owner.get_by_label("Share with all").check()
    owner.get_by_role("button", name="Save", exact=True).click()
    expect(owner.get_by_text("The view “Broken” was saved.")).to_be_visible()
    expect(owner.locator("#result_list tbody tr")).to_have_count(5)

    JobScope.objects.create(operator=role_user("viewer"), type="web")
    reader.goto(LIST)
    reader.get_by_role("link", name="Broken operator").click()
    expect(reader.locator("a.chip:not(.view-link) bdi")).to_have_text(["Status: failed"])
    expect(reader.locator("#result_list tbody tr")).to_have_count(2)
    expect(reader.locator("#result_list")).not_to_contain_text("mail")


def test_text_of_an_error_leads_to_its_group_and_the_retry_of_all_its_jobs(
    page_as: PageAs, failures: list[int]
) -> None:
    page = page_as("operator")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(reverse("admin:dispatch_dispatch_changelist"))
    page.keyboard.press("Control+k")
    page.keyboard.type("refused")
    page.keyboard.press("Enter")

    hit = page.locator(".search-hits li").filter(has_text="ConnectionRefusedError")
    expect(hit).to_contain_text("3 times")
    hit.get_by_role("link", name="Retry…").click()
    expect(page.get_by_text("This concerns 3 jobs")).to_be_visible()
    page.get_by_role("button", name="Retry", exact=True).click()
    expect(page.get_by_text("3 jobs retried.")).to_be_visible()

    ready = Job.objects.filter(status=t.READY, pk__in=failures)
    assert {*ready.values_list("pk", flat=True)} == {*failures[:3]}
