"""A day of an operator: plan, hand out to real clients, find it, step in."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.dispatch.models import Dispatch
from taskplatform.sdk import Client, Nothing
from tests.factories import group, once_task, template, user

SCHEMA = {
    "type": "object",
    "properties": {
        "shop": {"type": "string", "title": "Shop", "minLength": 1, "maxLength": 80},
        "photos": {"type": "integer", "title": "Photos", "minimum": 1, "maximum": 20},
        "angle": {"type": "string", "title": "Angle", "enum": ["front", "above"]},
        "flash": {"type": "boolean", "title": "With flash"},
    },
    "required": ["shop", "photos", "angle", "flash"],
    "additionalProperties": False,
}


def test_planned_task_goes_out_comes_back_and_is_found_in_the_log(
    page_as: Callable[[str | None], Page], make_key: Callable[..., str], live_site: str
) -> None:
    """S0.2, S0.3, S0.5, S0.12: members of a group are handed what a form planned."""
    template("night-photo", SCHEMA)
    group("gid_night_shift", ["uid_ava", "uid_bo"])
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_add"))
    page.get_by_label("Title").fill("Night photo, Harbour Street")
    page.get_by_label("Executor").fill("gid_night_shift")
    page.get_by_label("Mode").select_option("multi")
    page.get_by_label("Quota").fill("2")
    page.get_by_label("Template").select_option(label="night-photo v1")
    page.get_by_label("Shop").fill("Harbour Street")
    page.get_by_label("Photos").fill("3")
    page.get_by_label("Angle").select_option(label="above")
    page.get_by_text("With flash").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("row", name="Night photo")).to_contain_text("0 / 2")

    with Client(live_site, make_key(scopes=["pull"])) as client:
        offer = client.pull("uid_ava")
        assert not isinstance(offer, Nothing)
        assert offer.params == {
            "shop": "Harbour Street",
            "photos": 3,
            "angle": "above",
            "flash": True,
        }
        client.callback("uid_ava", offer.number, "succeeded", {"photos": 3}, "All sharp")

    page.reload()
    expect(page.get_by_role("row", name="Night photo")).to_contain_text("1 / 2")
    page.get_by_role("link", name="Dispatches").first.click()
    page.get_by_placeholder("Number or executor, or params.path:value").fill("uid_ava")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=uid_ava"))
    expect(page.get_by_role("row", name="Night photo")).to_contain_text("Succeeded")
    page.locator("#result_list a.row-link").click()
    expect(page.get_by_text("All sharp")).to_be_visible()
    moments = page.locator(".timeline-moment")
    expect(moments).to_have_count(2)
    expect(moments.nth(0)).to_contain_text("Handed out by uid_ava")
    expect(moments.nth(1)).to_contain_text("Succeeded by uid_ava")


def test_open_dispatch_is_cancelled_with_a_reason(
    page_as: Callable[[str | None], Page], make_key: Callable[..., str], live_site: str
) -> None:
    """S0.28, I55: the reason is required, kept beside the name, and shown."""
    once_task(user("uid_ava"))
    with Client(live_site, make_key(scopes=["pull"])) as client:
        offer = client.pull("uid_ava")
    assert not isinstance(offer, Nothing)
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_dispatch_change", args=[offer.number]))

    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Cancel").click()
    confirm = page.get_by_role("button", name="Cancel")
    confirm.click()
    # The browser holds the form back until there is a reason.
    expect(page.get_by_label("Reason")).to_be_focused()
    page.get_by_label("Reason").fill("The shop closed early")
    confirm.click()

    expect(page.get_by_text("1 row done.")).to_be_visible()
    expect(page.locator(".timeline-moment").nth(1)).to_contain_text("Cancelled by operator")
    expect(page.locator(".timeline-reason")).to_have_text("The shop closed early")
    expect(page.get_by_role("link", name="Cancel")).to_have_count(0)
    assert Dispatch.objects.get(pk=offer.number).state == Dispatch.State.CANCELLED
