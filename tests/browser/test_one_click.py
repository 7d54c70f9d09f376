"""What one more click undoes takes one click and asks nothing; all else asks why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.jobs.rules import transitions as t
from tests.jobs import end, job_type, jobs, row, take

pytestmark = pytest.mark.django_db(transaction=True)


def test_failed_job_is_retried_in_its_row_and_a_cancel_needs_a_reason(
    page_as: Callable[[str | None], Page],
) -> None:
    job_type(max_attempts=1)
    failed, other = jobs(2)
    for held in take(2):
        end(held, "failed", error="ConnectionRefusedError: 10.0.0.1:25")
    page = page_as("operator")
    page.goto(reverse("admin:jobs_job_changelist"))

    listed = page.get_by_role("row", name=str(failed))
    listed.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("1 job retried.")).to_be_visible()
    expect(listed).to_contain_text("Ready")
    expect(listed.get_by_role("button", name="Retry")).to_have_count(0)
    assert (row(failed).status, row(other).status) == (t.READY, t.FAILED)

    listed.get_by_role("link", name=str(failed)).click()
    page.get_by_role("link", name="Cancel the job").click()
    page.get_by_label("Reason").fill("   ")
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_text("This field is required.")).to_be_visible()
    assert row(failed).status == t.READY
    page.get_by_label("Reason").fill("Sent by hand")
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_text("1 job cancelled.")).to_be_visible()

    page.get_by_role("button", name="Retry", exact=True).click()
    expect(page.get_by_text("1 job retried.")).to_be_visible()
    assert row(failed).status == t.READY
