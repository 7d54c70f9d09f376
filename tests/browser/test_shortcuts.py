"""The keyboard as a way through the platform: keys of pages, rows and what is done with them."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from tests.browser.barriers import barriers
from tests.jobs import end, job_type, jobs, take

pytestmark = pytest.mark.django_db(transaction=True)

JOBS = reverse("admin:jobs_job_changelist")


def press(page: Page, keys: str) -> None:
    for key in keys.split():
        page.keyboard.press(key)


def test_question_mark_lists_the_keys_and_escape_or_a_click_beside_closes(
    browser_page: Page,
) -> None:
    page = browser_page
    page.goto(reverse("admin:index"))
    listed = page.get_by_role("dialog", name="Keyboard shortcuts")
    press(page, "?")
    expect(listed).to_be_visible()
    expect(listed.get_by_role("link", name="Failures")).to_be_visible()
    assert barriers(page) == []
    press(page, "j")
    listed.get_by_role("heading").first.click()
    expect(listed).to_be_visible()
    press(page, "Escape")
    expect(listed).to_be_hidden()
    press(page, "?")
    page.mouse.click(2, 2)
    expect(listed).to_be_hidden()
    press(page, "g f")
    page.wait_for_url(re.compile(reverse("failures")))


def test_rows_are_walked_selected_and_opened(browser_page: Page) -> None:
    job_type(max_attempts=1)
    older, newest = jobs(2)
    end(take(1)[0], "failed", error="OSError: disk full", retry="never")
    page = browser_page
    page.goto(JOBS)
    rows = page.locator("#result_list .data-row")
    press(page, "j")
    expect(rows.nth(0).get_by_role("link", name=str(newest))).to_be_focused()
    press(page, "j j")
    expect(rows.nth(1).get_by_role("link", name=str(older))).to_be_focused()
    press(page, "x")
    expect(rows.nth(1).get_by_role("checkbox")).to_be_checked()
    press(page, "k j Enter")
    page.wait_for_url(re.compile(f"{older}/change"))
    press(page, "r")
    expect(page.get_by_text("1 job retried.")).to_be_visible()


def test_who_types_or_holds_another_key_only_types(browser_page: Page) -> None:
    page = browser_page
    page.goto(JOBS)
    box = page.locator("#searchbar")
    press(page, "/")
    expect(box).to_be_focused()
    press(page, "g f ? Control+g f")
    expect(box).to_have_value("gf?f")
    expect(page.locator("#keys")).to_be_hidden()
    assert page.url.endswith(JOBS)
    box.blur()
    press(page, "g x f")
    assert page.url.endswith(JOBS)


def test_person_turns_them_off(browser_page: Page) -> None:
    page = browser_page
    page.goto(reverse("preferences"))
    page.get_by_role("checkbox", name="Keyboard shortcuts").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Your settings were saved.")).to_be_visible()
    page.goto(JOBS)
    press(page, "? g f")
    expect(page.locator("#keys")).to_have_count(0)
    assert page.url.endswith(JOBS)
    page.goto(reverse("preferences"))
    expect(page.get_by_role("checkbox", name="Keyboard shortcuts")).not_to_be_checked()
