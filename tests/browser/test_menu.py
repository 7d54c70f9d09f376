"""The menu without a mouse, and titles and lists on a narrow page."""

from __future__ import annotations

from django.urls import reverse
from playwright.sync_api import Page, expect

from tests.browser.looks import NARROW, WIDE
from tests.factories import once_task, user


def test_menu_is_closed_and_opened_by_the_keyboard(browser_page: Page) -> None:
    page = browser_page
    menu = page.locator("#nav-sidebar-apps")
    page.set_viewport_size(WIDE)
    page.goto("/admin/")
    expect(menu).to_be_visible()
    toggle = page.get_by_role("button", name="Menu").locator("visible=true")
    toggle.focus()
    page.keyboard.press("Enter")
    expect(menu).to_be_hidden()
    page.keyboard.press("Space")
    expect(menu).to_be_visible()

    page.set_viewport_size(NARROW)
    expect(menu).to_be_hidden()
    page.get_by_role("button", name="Menu").locator("visible=true").focus()
    page.keyboard.press("Enter")
    expect(menu).to_be_visible()
    page.get_by_role("button", name="Menu").locator("visible=true").last.focus()
    page.keyboard.press("Enter")
    expect(menu).to_be_hidden()


def test_scrolled_menu_is_named_in_the_language_of_the_page(browser_page: Page) -> None:
    page = browser_page
    page.set_viewport_size(WIDE)
    page.set_extra_http_headers({"Accept-Language": "zh-hans"})
    page.goto("/admin/")
    area = page.locator("#nav-sidebar-apps [role=region]").first
    expect(area).to_have_attribute("aria-label", "可滚动的内容")


def test_title_of_a_page_with_buttons_can_be_read_when_it_is_narrow(browser_page: Page) -> None:
    task = once_task(user("uid_ava"), title="Night photo")
    page = browser_page
    page.set_viewport_size(NARROW)
    page.goto(reverse("admin:dispatch_oncetask_change", args=[task.pk]))
    title = page.locator("h1 bdi")
    expect(title).to_be_visible()
    shown = title.evaluate("e => [e.parentElement.clientWidth, e.parentElement.scrollWidth]")
    assert shown[0] >= shown[1] > 0


def test_cells_show_their_headings_as_these_are_written(
    browser_page: Page,
) -> None:
    once_task(user("uid_ann"))
    page = browser_page
    page.goto(reverse("admin:journal_journalentry_changelist"))
    headings = page.locator("#result_list thead th").all_inner_texts()
    page.set_viewport_size({"width": 800, "height": 900})
    labels = page.locator("#result_list tbody tr").first.evaluate(
        """row => [...row.querySelectorAll("[class^=field-]")].map(cell => {
            const { content, textTransform } = getComputedStyle(cell, "::before");
            return [content, textTransform];
        })"""
    )
    assert "Type or task" in headings
    assert labels == [[f'"{heading.strip()}"', "none"] for heading in headings]
