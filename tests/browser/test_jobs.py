"""The forms of jobs and of their types, which are drawn anew while they are filled in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.jobs.models import Job, JobType
from apps.jobs.services import types
from tests.job_scenes import MAIL


@pytest.fixture
def kinds(transactional_db: None) -> JobType:
    """Two types: one takes anything, the other a mail."""
    types.create_type(name="anything", actor="admin:olga")
    return types.create_type(name="mail", params_schema=MAIL, actor="admin:olga")


def send(page: Page, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()


def test_job_is_submitted_by_the_form_of_its_type(
    page_as: Callable[[str | None], Page], kinds: JobType
) -> None:
    """S1.4, S1.21: what is done to it on its page is in integration/jobs/admin."""
    page = page_as("operator")
    page.goto(reverse("admin:jobs_job_changelist"))
    page.locator(f'a[href="{reverse("admin:jobs_job_add")}"]').first.click()
    expect(page.get_by_label("Context as JSON")).to_be_visible()
    page.get_by_label("Key", exact=True).fill("order-17")
    page.get_by_label("Type").select_option("mail")
    page.get_by_label("Recipient").fill("ann@example.com")
    page.get_by_label("Template").select_option(label="invoice")
    send(page, "Save")
    expect(page.get_by_text("was submitted")).to_be_visible()
    job = Job.objects.get()
    assert (job.type, job.key, job.submitted_by) == ("mail", "order-17", "admin:operator")
    assert job.context == {"to": "ann@example.com", "template": "invoice"}


def test_form_of_a_type_says_itself_back_while_it_is_filled_in(
    page_as: Callable[[str | None], Page], kinds: JobType
) -> None:
    page = page_as("configurer")
    page.goto(reverse("admin:jobs_jobtype_change", args=[kinds.pk]))
    said, drawn = page.locator("#type-said"), page.locator("#type-tries")
    expect(said).to_contain_text("A job has 3 tries of 15 min each")
    page.locator("[name=max_attempts]").fill("2")
    page.locator("[name=max_running]").fill("4")
    expect(said).to_contain_text("A job has 2 tries of 15 min each")
    expect(said).to_contain_text("At most 4 run at once.")
    expect(drawn).to_contain_text("try 2")
    expect(drawn).not_to_contain_text("try 3")
    expect(page.locator("[name=max_running]")).to_be_focused()
    page.get_by_role("button", name="Short").click()
    expect(said).to_contain_text("A job has 5 tries of 10 s each")
    expect(page.locator("[name=max_running]")).to_have_value("4")
    page.locator("[name=max_running]").press("Enter")
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    kinds.refresh_from_db()
    assert (kinds.max_attempts, kinds.max_processing_seconds, kinds.max_running) == (5, 10, 4)
