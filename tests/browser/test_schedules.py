"""An operator plans a recurring job: what the rule means is seen before it is saved."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.schedules.models import Schedule
from tests import factories
from tests.frozen import FrozenClock


def test_recurring_job_is_planned_from_the_page_of_once_tasks(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock
) -> None:
    factories.job_type()
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_add"))
    page.get_by_role("link", name="a job type").click()
    page.get_by_label("Title").fill("Night report")

    page.get_by_label("Every", exact=True).select_option("every_days")
    expect(page.locator("#id_cron")).to_be_hidden()
    expect(page.locator("#id_every_minutes")).to_be_hidden()
    page.locator("#id_every_days").fill("1")
    page.locator("#id_at").fill("23:30")
    runs = page.locator("#next-runs time")
    expect(runs).to_have_count(5)
    expect(runs.first).to_have_text("Mon 2 Mar 23:30")

    # What is folded is said in a line, as it is now.
    more = page.locator("#more-line")
    expect(more).to_contain_text("also beside an open job of it")
    more.click()
    page.get_by_label("Overlap").select_option("skip")
    expect(more).to_contain_text("not while a job of it is open")

    # Bad input takes them away again, without leaving the page.
    page.get_by_label("Every", exact=True).select_option("cron")
    page.locator("#id_cron").fill("61 * * * *")
    expect(runs).to_have_count(0)
    page.locator("#id_cron").fill("* * * * *")
    expect(runs.first).to_have_text("Mon 2 Mar 09:00")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    assert Schedule.objects.get().rule == {"cron": "* * * * *"}
