"""What will uid_x get today, why not task y, and what if: clicked through. S0.31, U2-U4."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import Page, ViewportSize, expect

from apps.dispatch.models import OnceTask
from tests.browser.appearance.test_pages import SAME, written
from tests.browser.layout import english_texts, sideways
from tests.frozen import FrozenClock
from tests.scenes import Morning, play_morning

WHY = "Why not?"


@pytest.fixture
def morning(frozen_clock: FrozenClock) -> Morning:
    return play_morning(frozen_clock)


@pytest.fixture
def pallets(morning: Morning) -> OnceTask:
    """Due, and far from used up."""
    return OnceTask.objects.filter(title="Pallet count, Harbour Street").latest("pk")


def test_two_clicks_from_the_list_to_the_answer(browser_page: Page, morning: Morning) -> None:
    """S0.31: first what the user gets today, then why not a task."""
    user = morning.opened.executor.name
    browser_page.goto(reverse("admin:dispatch_executor_changelist"))

    browser_page.get_by_role("link", name=user, exact=True).click()
    upcoming = browser_page.locator("section", has=browser_page.get_by_text("Upcoming tasks"))
    expect(upcoming.get_by_role("row").nth(1)).to_contain_text("open dispatch")

    browser_page.get_by_role("button", name=WHY).click()
    expect(browser_page.get_by_role("status")).to_contain_text(f"{user} can")
    expect(browser_page.get_by_role("table")).to_contain_text("May change")


def test_page_of_a_task_asks_for_an_executor(browser_page: Page, morning: Morning) -> None:
    """The typed name goes with the question, not with the form of the task."""
    browser_page.goto(reverse("admin:dispatch_oncetask_change", args=[morning.task.pk]))
    box = browser_page.locator("input[form=why-not][name=executor]")
    box.fill(morning.opened.executor.name)
    box.press("Enter")
    expect(browser_page.get_by_role("status")).to_contain_text(morning.opened.executor.name)
    assert OnceTask.objects.get(pk=morning.task.pk).version == morning.task.version


def test_cached_queue_is_rebuilt_by_a_button(browser_page: Page, morning: Morning) -> None:
    pk = morning.opened.executor_id
    browser_page.goto(reverse("admin:dispatch_executor_change", args=[pk]))
    browser_page.get_by_role("button", name="Rebuild").click()
    expect(browser_page.locator("body")).to_contain_text("was rebuilt from")
    expect(browser_page.locator("body")).to_contain_text("and is current")


@pytest.mark.parametrize("scripts", [True, False])
def test_what_if_is_shown_and_not_saved(
    page_as: Callable[..., Page],
    pallets: OnceTask,
    scripts: bool,
) -> None:
    """S0.31: with and without JavaScript, as an operator."""
    page = page_as("operator", scripts=scripts)
    page.goto(reverse("admin:dispatch_oncetask_change", args=[pallets.pk]))

    page.locator("[name=priority]").fill("50")
    page.locator("[name=title]").fill("Pallets first")
    page.get_by_role("button", name="What if?").click()

    answer = page.locator("#what-if")
    expect(answer).to_contain_text("Nothing is saved yet.")
    expect(answer.locator(".mark-moved, .mark-changed").first).to_contain_text("Pallets first")
    expect(page.locator("[name=title]")).to_have_value("Pallets first")
    assert OnceTask.objects.get(pk=pallets.pk).title == pallets.title


@pytest.mark.parametrize(("language", "dark"), [("en", False), ("zh-hans", True)])
def test_what_if_fits_and_speaks_one_language(
    browser_page: Page,
    pallets: OnceTask,
    screenshots: Path,
    language: str,
    dark: bool,
) -> None:
    browser_page.set_extra_http_headers({"Accept-Language": language})
    browser_page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
    browser_page.goto(reverse("admin:dispatch_oncetask_change", args=[pallets.pk]))
    browser_page.locator("[name=priority]").fill("50")
    browser_page.locator("button[name=_what_if]").click()
    browser_page.locator("#what-if").wait_for()

    if language == "zh-hans":
        assert english_texts(browser_page, written() | {*SAME}) == set()
    for width in (390, 1280):
        browser_page.set_viewport_size(ViewportSize(width=width, height=900))
        assert sideways(browser_page) == 0
        browser_page.screenshot(
            path=screenshots / f"what-if-{language}-{width}.png",
            animations="disabled",
            full_page=True,
        )
