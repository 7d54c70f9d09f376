"""What the pages of a job, a task and a user say at their top, and what renews itself there."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page, Route, expect

from apps.jobs.admin import jobs as jobs_admin
from apps.jobs.models import Job
from tests.jobs import HERE, end, job_type, jobs, take

pytestmark = pytest.mark.django_db(transaction=True)


def test_head_of_a_running_job_moves_without_a_reload_and_stops_at_its_end(
    page_as: Callable[[str | None], Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_admin, "LIVE_SECONDS", 0.1)
    job_type()
    [number] = jobs()
    [held] = take(1, by=HERE)
    page = page_as("operator")
    page.goto(reverse("admin:jobs_job_change", args=[number]))
    page.evaluate("window.isTheSame = true")
    page.get_by_text("All states").click()

    for percent in ("20", "60"):
        Job.objects.filter(pk=number).update(progress=percent)
        expect(page.locator("#live progress")).to_have_attribute("value", percent)
    # What the reader has opened stays open.
    expect(page.locator(".state-picture")).to_be_visible()
    assert page.evaluate("window.isTheSame")

    end(held, "succeeded", result={"sent": 7})
    expect(page.locator("#live .row-line")).to_contain_text("Succeeded")
    # All of the page is that of a job that has ended, and is not loaded anew.
    expect(page.locator(".timeline-moment")).to_contain_text(["Submitted", "Succeeded"])
    expect(page.get_by_role("button", name="Retry")).to_have_attribute("aria-keyshortcuts", "r")
    expect(page.get_by_role("link", name="Cancel…")).to_have_count(0)
    expect(page.locator("script[src*='taskplatform/live']")).to_have_count(0)
    expect(page.locator("#main")).to_have_attribute("role", "main")
    expect(page.locator(".state-picture")).to_be_visible()
    assert page.evaluate("window.isTheSame")


def test_end_of_a_job_does_not_hold_back_who_leaves_its_page(
    page_as: Callable[[str | None], Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page that the reader has asked for comes after the job has ended."""
    monkeypatch.setattr(jobs_admin, "LIVE_SECONDS", 0.1)
    job_type()
    [number] = jobs()
    [held] = take(1, by=HERE)
    page = page_as("operator")
    of_the_job = reverse("admin:jobs_job_change", args=[number])
    page.goto(of_the_job)
    asked: list[Route] = []
    page.route(f"**{reverse('failures')}", lambda route: asked.append(route))
    with page.expect_request(f"**{reverse('failures')}"):
        page.evaluate("address => { window.location = address }", reverse("failures"))

    with page.expect_response(f"**{of_the_job}"):
        end(held)
    asked[0].continue_()

    expect(page).to_have_title(re.compile("^Failures"))
