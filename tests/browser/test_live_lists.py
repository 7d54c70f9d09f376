"""A list that renews itself takes nothing away from the one who reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from apps.jobs.models import Job
from tests.browser.conftest import Watch
from tests.jobs import job_type, jobs

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/jobs/job/"
ROWS = "#result_list tbody tr"
PageAs = Callable[..., Page]


def opened(page_as: PageAs, count: int) -> Page:
    """The list of so many jobs, in a browser whose clock the test moves on."""
    job_type()
    jobs(count)
    page = page_as("operator", own=True)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.clock.install()
    page.goto(LIST)
    expect(page.locator(ROWS)).to_have_count(count)
    return page


def wait(page: Page, *, answers: bool = True) -> None:
    """Until the list renews itself the next time."""
    if not answers:
        page.clock.run_for(10_000)
        return
    with page.expect_response(lambda answer: "_part=rows" in answer.url) as found:
        page.clock.run_for(10_000)
    found.value.finished()
    page.evaluate("() => new Promise(done => queueMicrotask(done))")


def test_rows_stay_while_some_are_selected_or_a_menu_is_open(page_as: PageAs) -> None:
    page = opened(page_as, 2)
    rows, news = page.locator(ROWS), page.locator(".list-news")
    box = rows.first.locator("input.action-select")
    counter = page.locator(".action-counter")

    box.check()
    jobs(3)
    wait(page)
    expect(news).to_have_text("3 new – show")
    expect(rows).to_have_count(2)
    expect(counter).to_have_text("1 of 2 selected")

    news.click()
    expect(rows).to_have_count(5)
    expect(news).to_be_hidden()
    expect(page.locator("input.action-select:checked")).to_have_count(1)
    expect(counter).to_have_text("1 of 5 selected")
    # A row that came later is one of all, too.
    page.locator("#action-toggle").check()
    expect(counter).to_have_text("5 of 5 selected")
    page.locator("#action-toggle").uncheck()

    page.get_by_title("Columns").click()
    jobs(1)
    wait(page)
    expect(news).to_have_text("1 new – show")
    page.get_by_title("Columns").click()
    expect(news).to_be_hidden()

    # A filter that is being filled in stays as it is, as do the rows behind it.
    page.locator(".filters-button").click()
    field = page.locator("#changelist-filter input[type=text]:visible").first
    field.fill("half a na")
    wait(page)
    expect(rows).to_have_count(5)
    expect(field).to_have_value("half a na")
    expect(field).to_be_focused()
    page.keyboard.press("Escape")
    wait(page)
    expect(rows).to_have_count(6)


def test_focus_stays_with_its_row_and_comes_to_the_next_when_that_goes(page_as: PageAs) -> None:
    page = opened(page_as, 3)
    last, link = page.locator(ROWS).last, page.locator("a.row-link")
    key = last.get_attribute("id")
    page.evaluate("() => { window.row = document.querySelector('tbody tr:last-child'); }")
    link.last.focus()
    jobs(2)
    wait(page)
    expect(page.locator(ROWS)).to_have_count(5)
    expect(link.last).to_be_focused()
    assert page.evaluate("() => window.row === document.querySelector('tbody tr:last-child')")

    Job.objects.filter(pk=str(key).removeprefix("row-")).delete()
    wait(page)
    expect(page.locator(ROWS)).to_have_count(4)
    expect(link.last).to_be_focused()


def test_list_rests_while_nobody_sees_it_and_says_when_it_is_signed_out(
    page_as: PageAs, watch: Watch
) -> None:
    page = opened(page_as, 1)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    hide = "is => Object.defineProperty(document, 'hidden', { get: () => is, configurable: true })"
    page.evaluate(hide, True)
    wait(page, answers=False)
    page.evaluate(hide, False)
    pause = page.get_by_role("button", name="Pause the refresh")
    pause.click()
    wait(page, answers=False)
    assert not asked
    pause.click()
    jobs(1)
    wait(page)
    expect(page.locator(ROWS)).to_have_count(2)

    page.context.clear_cookies()
    wait(page)
    expect(page.get_by_text("You are signed out; load the page again.")).to_be_visible()
    expect(page.locator(ROWS)).to_have_count(2)
