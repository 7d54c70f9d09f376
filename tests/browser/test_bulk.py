"""A bulk run as people start and follow it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connections
from playwright.sync_api import Page, expect

from apps.bulk.admin import runs
from apps.bulk.models import BulkRun
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from tests.integration.bulk.conftest import carry_out
from tests.jobs import end, job_type, jobs, take

pytestmark = pytest.mark.django_db(transaction=True)


def carried_out(run: BulkRun) -> threading.Thread:
    """The run under way in a thread."""

    def work() -> None:
        try:
            carry_out(run)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_five_hundred_jobs_are_cancelled_with_four_clicks_and_the_bar_moves(
    page_as: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_SECONDS", 0.2)
    job_type("mail")
    job_type("web")
    numbers, others = jobs(497), jobs(3, "web")
    running = jobs(3, status=t.RUNNING)
    page = page_as("operator")
    page.goto("/admin/jobs/job/?type=mail")

    page.get_by_text("Act on all").click()
    page.get_by_role("link", name="Cancel…", exact=True).click()
    expect(page.get_by_text("500 rows match")).to_be_visible()
    expect(page.get_by_text("3: running: asked to stop")).to_be_visible()
    assert not BulkRun.objects.exists()
    page.get_by_label("Reason").fill("Wrong address")
    page.get_by_role("button", name="Start: Cancel").click()

    bar = page.locator("#live progress")
    expect(bar).to_have_attribute("value", "0")
    run = BulkRun.objects.get()
    BulkRun.objects.filter(pk=run.pk).update(rate=300)
    run.refresh_from_db()
    working = carried_out(run)
    page.wait_for_function("0 < document.querySelector('#live progress').value")
    expect(page.locator("#live")).to_have_attribute("data-final", "")
    working.join()
    expect(page.locator("#live")).to_contain_text("Done")
    assert Job.objects.filter(pk__in=numbers, status=t.CANCELLED).count() == 497
    assert Job.objects.filter(pk__in=running, cancel_requested=True).count() == 3
    assert Job.objects.filter(pk__in=others, status=t.READY).count() == 3


def test_plan_is_started_without_scrolling(page_as: Callable[..., Page]) -> None:
    job_type("mail", max_attempts=1)
    jobs(3)
    for held in take(3):
        end(held, "failed", error="ConnectionRefusedError", retry="never")
    page = page_as("operator")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("/admin/bulk/new/jobs/retry/?type=mail")
    start = page.get_by_role("button", name="Start: Retry")
    expect(start).to_be_in_viewport(ratio=1)
