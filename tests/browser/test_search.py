"""The search box: from any page, by keyboard, on a wide and on a narrow screen."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from tests.factories import user

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def page(page_as: Callable[[str | None], Page]) -> Page:
    return page_as("viewer")


def test_keyboard_leads_from_any_page_to_what_is_sought(page: Page) -> None:
    ann = user("uid_ann")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(reverse("admin:dispatch_dispatch_changelist"))

    page.keyboard.press("Control+k")
    page.keyboard.type("ann")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(reverse("admin:dispatch_executor_change", args=[ann.pk])))


def test_narrow_screen_has_a_way_to_the_search_and_back_to_a_row(page: Page) -> None:
    for name in ("uid_ann", "uid_anna"):
        user(name)
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(reverse("admin:jobs_job_changelist"))

    page.locator("header, body").get_by_role("link", name="Search everything").click()
    page.get_by_role("searchbox", name="Search everything").last.fill("ann")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Executors")).to_be_visible()
    page.get_by_role("link", name="uid_anna").click()

    expect(page).to_have_url(re.compile(r"/admin/dispatch/executor/\d+/change/"))


def test_shortcut_opens_the_page_of_the_search_where_the_box_is_away(page: Page) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(reverse("admin:index"))

    page.keyboard.press("Control+k")

    expect(page).to_have_url(re.compile(reverse("admin:search")))
    expect(page.locator("#search-term")).to_be_focused()
