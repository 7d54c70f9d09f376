"""The search box: from any page, by keyboard, on a wide and on a narrow screen."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.urls import reverse
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Watch
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
    expect(page.get_by_role("option", name="uid_ann").first).to_have_attribute(
        "aria-selected", "true"
    )
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(reverse("admin:dispatch_executor_change", args=[ann.pk])))


def test_palette_closes_by_esc_or_beside_it_and_gives_the_focus_back(page: Page) -> None:
    page.goto(reverse("admin:dispatch_dispatch_changelist"))
    link = page.get_by_role("link", name="Older").first
    link.focus()
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search or do")
    expect(box).to_be_focused()
    box.click()
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    expect(link).to_be_focused()
    page.keyboard.press("Control+k")
    box.click()
    expect(box).to_be_focused()
    page.mouse.click(2, 2)
    expect(box).to_be_hidden()


def test_late_answer_never_takes_the_place_of_a_newer_one(page: Page) -> None:
    user("uid_ann")
    user("uid_bob")
    page.goto(reverse("admin:index"))
    held: list[Route] = []
    page.route(re.compile(r"part=hits&term=ann"), lambda route: held.append(route))

    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search or do")
    with page.expect_request(re.compile("term=ann")):
        box.fill("ann")
    box.fill("bob")
    expect(page.get_by_role("option", name="uid_bob").first).to_be_visible()
    with page.expect_response(re.compile("term=ann")):
        held[0].continue_()

    expect(page.get_by_role("option", name="uid_bob").first).to_be_visible()
    expect(page.get_by_role("option", name="uid_ann")).to_have_count(0)


def test_palette_says_why_it_finds_nothing(page_as: Callable[..., Page], watch: Watch) -> None:
    user("uid_ann")
    page = page_as("viewer", own=True)
    watch.allow("ERR_INTERNET_DISCONNECTED|Failed to load resource")
    page.goto(reverse("admin:index"))
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search or do")
    said = page.locator("#palette").get_by_role("status")

    page.context.set_offline(True)
    box.fill("an")
    expect(said).to_have_text("No answer comes from the server now; type on to try again.")
    page.context.set_offline(False)
    box.fill("ann")
    expect(page.get_by_role("option", name="uid_ann").first).to_be_visible()

    page.context.clear_cookies()
    box.fill("uid_ann")
    expect(said).to_have_text("You are signed out; load the page again.")
    expect(page.get_by_role("option")).to_have_count(0)


def test_empty_palette_shows_the_last_places(page: Page) -> None:
    page.goto(reverse("admin:jobs_job_changelist"))
    page.goto(reverse("admin:index"))
    page.keyboard.press("Control+k")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(reverse("admin:jobs_job_changelist")))


def test_narrow_screen_has_a_way_to_the_search_and_back_to_a_row(page: Page) -> None:
    for name in ("uid_ann", "uid_anna"):
        user(name)
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(reverse("admin:jobs_job_changelist"))

    page.locator("header, body").get_by_role("link", name="Search everything").click()
    page.get_by_role("searchbox", name="Search everything").last.fill("ann")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="People and groups")).to_be_visible()
    page.get_by_role("link", name="uid_anna").click()

    expect(page).to_have_url(re.compile(r"/admin/dispatch/executor/\d+/change/"))


def test_palette_fits_a_phone(page: Page) -> None:
    user("uid_ann", title="A name with 150 letters " + "x" * 126)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(reverse("admin:index"))
    page.keyboard.press("Control+k")
    page.keyboard.type("ann")
    expect(page.get_by_role("option", name="uid_ann").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
