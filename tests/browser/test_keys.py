"""An API key is tried out in the API's own pages."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.factories import group


def test_swagger_page_calls_a_route_with_a_key(
    page_as: Callable[[str | None], Page], make_key: Callable[..., str]
) -> None:
    group("gid_night", ["uid_ava"])
    page = page_as(None)
    page.goto("/api/docs/")

    page.get_by_role("button", name="Authorize").click()
    dialog = page.get_by_role("dialog").or_(page.locator(".dialog-ux"))
    dialog.locator("input").last.fill(make_key(scopes=["read"]))
    dialog.get_by_role("button", name="Apply credentials").last.click()
    dialog.get_by_role("button", name="Close").last.click()
    route = page.locator(".opblock-get").filter(has_text=re.compile(r"/executors/(?!\{)")).first
    route.locator(".opblock-summary-control").click()
    route.get_by_role("button", name="Try it out").click()
    route.get_by_role("button", name="Execute").click()

    answer = route.locator(".live-responses-table")
    expect(answer).to_contain_text("200")
    expect(answer).to_contain_text("gid_night")
