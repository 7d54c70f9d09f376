"""The browser tests notice what a page must not do, and sign in, look and shoot as asked."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Contexts, Watch

ELSEWHERE = "https://elsewhere.example/x"


@pytest.mark.parametrize("role", ["superuser", "viewer", "operator", "configurer"])
def test_admin_home_opens_for_each_role_and_breaks_no_rule(
    page_as: Callable[[str | None], Page], role: str
) -> None:
    page = page_as(role)

    page.goto("/admin/")

    assert page.url.endswith("/admin/")


def test_page_without_a_session_is_led_to_the_login(page_as: Callable[[str | None], Page]) -> None:
    page = page_as(None)

    page.goto("/admin/")

    assert "/admin/login/" in page.url


@pytest.mark.parametrize(
    ("address", "script", "complaint"),
    [
        (
            "/health/live",
            f"fetch('{ELSEWHERE}').catch(() => 0)",
            "console: .*violates.*connect-",
        ),
        ("about:blank", f"fetch('{ELSEWHERE}').catch(() => 0)", f"foreign request: {ELSEWHERE}"),
        ("/health/live", "fetch('/nowhere').then(() => 0)", "console: Failed to load resource"),
        ("/health/live", "console.error('oh')", "console: oh"),
        ("/health/live", "setTimeout(() => { throw Error('ouch') })", "script: .*ouch"),
        (
            "/health/live",
            "document.body.append(Object.assign(document.createElement('script'), {text: '1'}))",
            "console: .*inline script violates .*script-src",
        ),
    ],
    ids=["policy", "foreign request", "missing file", "console", "script", "inline script"],
)
def test_offence_of_a_page_is_noticed(
    contexts: Contexts, live_site: str, address: str, script: str, complaint: str
) -> None:
    watch = Watch(live_site)
    with contexts.new() as context:
        watch.attend(context)
        page = context.new_page()
        page.goto(address)
        assert watch.verdict() == []

        page.evaluate(script)
        watch.settle(context)

    assert [line for line in watch.verdict() if re.match(complaint, line)]


def test_offence_allowed_but_never_seen_is_shown(live_site: str) -> None:
    watch = Watch(live_site)
    watch.allow("console: oh")

    assert watch.verdict() == ["expected but never seen: console: oh"]


def test_screenshot_has_width_theme_and_language(
    browser_page: Page, shoot: Callable[..., Path]
) -> None:
    browser_page.goto("/admin/")

    wide = shoot("light")
    narrow = shoot("narrow", width=390, height=700)
    dark = shoot("dark", dark=True)
    chinese = shoot("chinese", language="zh-hans")

    assert size(wide) == (1280, 900)
    assert size(narrow) == (390, 700)
    assert len({path.read_bytes() for path in (wide, dark, chinese)}) == 3
    assert browser_page.locator("html").get_attribute("lang") == "en"


def size(png: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    return width, height


def test_borrower_finds_nothing_of_the_last_one(contexts: Contexts, live_site: str) -> None:
    left = "[localStorage.length, document.cookie]"
    first = contexts.borrow()
    page = first.new_page()
    page.goto("/health/live")
    page.evaluate("localStorage.theme = 'dark'; document.cookie = 'seen=1'")
    assert page.evaluate(left) == [1, "seen=1"]

    contexts.give_back(first)
    second = contexts.borrow()

    assert second is first
    assert second.pages == []
    page = second.new_page()
    page.goto("/health/live")
    assert page.evaluate(left) == [0, ""]
    contexts.give_back(second)
