"""An operator and the jobs: submit one by its type's form, find it, step in, look why it waits."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.jobs.models import Job, JobType
from apps.jobs.services import types
from apps.jobs.services.submit import submit
from tests.browser.conftest import Watch
from tests.job_scenes import MAIL


@pytest.fixture
def kinds(transactional_db: None) -> JobType:
    """Two types: one takes anything, the other a mail."""
    types.create_type(name="anything", actor="admin:olga")
    return types.create_type(name="mail", params_schema=MAIL, actor="admin:olga")


def send(page: Page, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()


def test_job_is_submitted_found_edited_and_cancelled(
    page_as: Callable[[str | None], Page], kinds: JobType
) -> None:
    """S1.4, S1.21: every step in a form, none in a shell."""
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

    expect(page.locator(".state-here")).to_contain_text("Ready")
    expect(page.get_by_text("No live worker runs jobs of type mail")).to_be_visible()
    page.get_by_role("link", name="Edit", exact=True).click()
    page.get_by_label("Priority").fill("7")
    page.get_by_label("Reason").fill("The customer is waiting")
    send(page, "Save")
    expect(page.locator(".timeline-facts")).to_contain_text("0 → 7")

    page.goto(reverse("admin:jobs_job_changelist"))
    page.locator("[name=q]").fill("order-17")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=order-17"))
    page.get_by_role("link", name=str(job.pk)).click()
    page.get_by_role("link", name="Cancel the job").click()
    page.get_by_label("Reason").fill("Order withdrawn")
    send(page, "Cancel the job")
    expect(page.locator(".state-here")).to_contain_text("Cancelled")
    expect(page.locator(".arrow-taken")).to_have_count(1)
    expect(page.get_by_role("link", name="Cancel the job")).to_have_count(0)


def test_stale_edit_shows_both_values_and_saves_neither(
    page_as: Callable[[str | None], Page], kinds: JobType, watch: Watch
) -> None:
    """I57, as two operators see it."""
    watch.allow("409")
    first, second = page_as("operator"), page_as("configurer")
    first.goto(reverse("admin:jobs_job_add") + "?type=anything")
    first.get_by_label("Context as JSON").fill("{}")
    send(first, "Save")
    job = Job.objects.get()
    edit = reverse("admin:jobs_job_edit", args=[job.pk])
    for page, priority in ((first, "5"), (second, "9")):
        page.goto(edit)
        page.get_by_label("Priority").fill(priority)
        page.get_by_label("Reason").fill("Mine")
    send(second, "Save")
    expect(second.locator(".timeline-facts")).to_contain_text("0 → 9")
    send(first, "Save")
    expect(first.get_by_text("configurer changed this")).to_be_visible()
    row = first.get_by_role("row", name="Priority")
    expect(row).to_contain_text("5")
    expect(row).to_contain_text("9")
    job.refresh_from_db()
    assert job.priority == 9


def test_paused_type_says_why_on_its_page_and_on_those_of_its_jobs(
    page_as: Callable[[str | None], Page], kinds: JobType
) -> None:
    """S4.19: pause with a reason, until a time."""
    page = page_as("configurer")
    page.goto(reverse("admin:jobs_jobtype_change", args=[kinds.pk]))
    page.get_by_role("link", name="Pause").click()
    page.get_by_label("Until").fill("2099-01-01T12:00:07")
    page.get_by_label("Reason").fill("The mail server moves")
    send(page, "Pause")
    expect(page.get_by_role("alert").filter(has_text="The mail server moves")).to_be_visible()
    page.goto(reverse("admin:jobs_job_add") + "?type=mail")
    page.get_by_label("Recipient").fill("ann@example.com")
    send(page, "Save")
    expect(page.get_by_text("The type mail is paused: The mail server moves")).to_be_visible()
    expect(page.get_by_text("12:00:07").first).to_be_visible()


def test_job_is_found_by_its_payload_and_a_secret_is_refused_with_words(
    page_as: Callable[[str | None], Page], kinds: JobType
) -> None:
    """S1.21: typed into the filter, seen as a chip."""
    context = {"order": {"city": "北京"}, "password": "x"}
    found = submit("anything", context).id
    other = submit("anything", {"order": {"city": "上海"}}).id
    page = page_as("configurer")
    page.goto(reverse("admin:jobs_job_changelist"))

    def search(typed: str) -> None:
        page.get_by_text("Filters", exact=False).first.click()
        page.get_by_label("Payload").fill(typed)
        send(page, "Apply Filters")

    search("context.order.city:北京")
    expect(page.get_by_role("link", name="Payload: context.order.city:北京")).to_be_visible()
    expect(page.get_by_role("link", name=str(found))).to_be_visible()
    expect(page.get_by_role("link", name=str(other))).to_have_count(0)

    search("context.password:x")
    words = "Values of password are masked, and nobody can search for them."
    expect(page.get_by_text(words)).to_be_visible()
    expect(page.get_by_role("link", name=str(found))).to_have_count(0)
