"""The browser tests notice what a page must not do."""

from __future__ import annotations

import re

from tests.browser.conftest import Contexts, Watch

ELSEWHERE = "https://elsewhere.example/x"


# By what is noticed: where the page stands, and what it does there.
OFFENCES = {
    "console: .*violates.*connect-": ("/health/live", f"fetch('{ELSEWHERE}').catch(() => 0)"),
    f"foreign request: {ELSEWHERE}": ("about:blank", f"fetch('{ELSEWHERE}').catch(() => 0)"),
    "console: Failed to load resource": ("/health/live", "fetch('/nowhere').then(() => 0)"),
    "console: oh": ("/health/live", "console.error('oh')"),
    "script: .*ouch": ("/health/live", "setTimeout(() => { throw Error('ouch') })"),
    "console: .*inline script violates .*script-src": (
        "/health/live",
        "document.body.append(Object.assign(document.createElement('script'), {text: '1'}))",
    ),
}


def test_offence_of_a_page_is_noticed(contexts: Contexts, live_site: str) -> None:
    with contexts.new() as context:
        page = context.new_page()
        for complaint, (address, script) in OFFENCES.items():
            watch = Watch(live_site)
            watch.attend(context)
            page.goto(address)
            assert watch.verdict() == []
            page.evaluate(script)
            watch.settle(context)
            assert [line for line in watch.verdict() if re.match(complaint, line)]
            watch.leave(context)


def test_offence_allowed_but_never_seen_is_shown(live_site: str) -> None:
    watch = Watch(live_site)
    watch.allow("console: oh")

    assert watch.verdict() == ["expected but never seen: console: oh"]


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
