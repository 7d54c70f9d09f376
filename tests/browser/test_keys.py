"""API keys as people meet them: shown once in the admin, tried out in the API's own pages."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.contrib.sessions.models import Session
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.access.models import ApiClient
from apps.journal.models import JournalEntry
from taskplatform.sdk import Client, Nothing
from tests.factories import group, user


def test_secret_of_a_new_key_is_shown_on_one_page_and_kept_nowhere(
    page_as: Callable[[str | None], Page], live_site: str
) -> None:
    user("uid_ava")
    page = page_as("configurer")
    page.goto(reverse("admin:access_apiclient_add"))
    page.get_by_label("Name").fill("Handhelds")
    page.get_by_label("pull: take dispatches and call back").check()
    page.get_by_role("button", name="Save", exact=True).click()

    key = page.locator("#new-key").inner_text()
    assert re.fullmatch(r"handhelds-[a-z0-9]+\.[A-Za-z0-9_-]{40,}", key)
    with Client(live_site, key) as client:
        assert isinstance(client.pull("uid_ava"), Nothing)

    page.get_by_role("link", name="I have copied it").click()
    secret = key.partition(".")[2]
    assert secret not in page.content()
    page.goto(reverse("admin:access_apiclient_changelist"))
    assert secret not in page.content()
    rows = [*ApiClient.objects.values(), *JournalEntry.objects.values()]
    assert secret not in str(rows)
    assert all(secret not in str(session.get_decoded()) for session in Session.objects.all())


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
