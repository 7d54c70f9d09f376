"""Nobody is shut out of what only steps lead to; pages with an address are walked by test_pages."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from django.conf import settings
from django.urls import reverse
from playwright.sync_api import Page, expect

from tests import factories
from tests.browser.barriers import barriers
from tests.browser.conftest import Watch
from tests.browser.looks import NARROW, THEMES, WIDE, faults
from tests.frozen import FrozenClock
from tests.scenes import Morning, play_morning


class PageCheck:
    """Collects what is wrong with pages, each in one of the themes."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def page(self, page: Page, name: str) -> None:
        theme = random.choice(THEMES)
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.evaluate(
            "is => document.documentElement.classList.toggle('dark', is)", theme == "dark"
        )
        self.found += [f"{name}, {theme}: {fault}" for fault in faults(page, theme)]
        page.set_viewport_size(WIDE)


@pytest.fixture
def check() -> PageCheck:
    return PageCheck()


@pytest.fixture
def morning(frozen_clock: FrozenClock) -> Morning:
    return play_morning(frozen_clock)


def press(page: Page, name: str) -> None:
    with page.expect_navigation():
        page.get_by_role("button", name=name, exact=True).first.click()


def send_login(page: Page, name: str, password: str) -> None:
    page.locator("[name=username]").fill(name)
    page.locator("[name=password]").fill(password)
    with page.expect_navigation():
        page.locator("#login-form [type=submit]").click()


def test_barriers_of_a_page_are_found(browser_page: Page, watch: Watch) -> None:
    """What the other tests rest on."""
    browser_page.goto(reverse("admin:index"))
    browser_page.evaluate(
        "document.querySelector('#content').insertAdjacentHTML('beforeend', "
        "`<input><p style='color:#aaa;background:#fff'>faint</p>`)"
    )

    found = {barrier.partition(" ")[0] for barrier in barriers(browser_page)}

    assert found == {"label", "color-contrast"}


def test_answers_to_forms_shut_nobody_out(
    browser_page: Page, morning: Morning, check: PageCheck
) -> None:
    page = browser_page
    page.goto(reverse("admin:dispatch_oncetask_add"))
    page.locator(".task-more summary").click()
    page.locator("[name=priority]").fill("5000")
    press(page, "Save")
    check.page(page, "refused task")

    page.goto(reverse("admin:dispatch_oncetask_change", args=[morning.task.pk]))
    page.locator(".task-more summary").click()
    page.locator("[name=priority]").fill("50")
    page.locator("button[name=_what_if]").click()
    page.locator("#what-if").wait_for()
    check.page(page, "what-if")

    page.goto(reverse("admin:dispatch_executor_import"))
    for text in ("name,kind\nuid_new,user\n", "name,kind\nuid_new,plant\n"):
        page.locator("textarea").fill(text)
        press(page, "Try it")
        check.page(page, "import")
        page.goto(reverse("admin:dispatch_executor_import"))

    page.goto(
        reverse("admin:dispatch_dispatch_act", args=["cancel"]) + f"?ids={morning.cancelled.pk}"
    )
    page.get_by_label("Reason").fill("Closed")
    page.locator("form.panel [type=submit]").click()
    check.page(page, "refused action")

    page.goto(reverse("audit"))
    press(page, "Run the audit")
    check.page(page, "audit")

    page.goto(reverse("admin:access_apiclient_rotate", args=[morning.client]))
    page.get_by_label("Reason").fill("Lost")
    press(page, "Rotate the key")
    check.page(page, "new key")

    assert check.found == []


def test_menus_shut_nobody_out(browser_page: Page, check: PageCheck) -> None:
    page = browser_page
    factories.once_task(factories.user("uid_ava"))
    page.goto(reverse("admin:dispatch_oncetask_changelist"))
    page.locator("#action-toggle").check()
    check.page(page, "chosen rows")
    page.get_by_title("Filters").click()
    check.page(page, "filters")
    page.goto(reverse("admin:index"))
    page.get_by_text("admin", exact=True).click()
    check.page(page, "account menu")
    page.set_viewport_size(NARROW)
    page.goto(reverse("admin:index"))
    page.get_by_text("dock_to_right").locator("visible=true").click()
    expect(page.locator("#nav-sidebar-apps")).to_be_visible()
    check.found += barriers(page)

    assert check.found == []


def test_pages_without_a_session_shut_nobody_out(
    page_as: Callable[[str | None], Page], check: PageCheck, watch: Watch
) -> None:
    watch.allow("404")
    watch.allow("429")
    page = page_as(None)
    page.goto("/admin/")
    check.page(page, "login")
    for _ in range(settings.AXES_FAILURE_LIMIT - 1):
        send_login(page, "olga", "wrong")
    check.page(page, "refused login")
    send_login(page, "olga", "wrong")
    check.page(page, "locked out")
    expect(page.get_by_text("Try again in 15 minutes")).to_be_visible()
    page.get_by_role("link", name="Back to the login page").click()
    expect(page.locator("#login-form")).to_be_visible()
    page.goto("/nowhere/")
    check.page(page, "not found")

    assert check.found == []
