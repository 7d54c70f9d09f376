"""Accounts and preferences of people, where a browser adds to them."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import reverse
from playwright.sync_api import Page, expect


def test_times_of_a_form_name_their_zone_and_bear_no_sign_of_an_error(browser_page: Page) -> None:
    """A browser of another zone is no mistake; the script of the forms takes it for one."""
    browser_page.goto("/admin/settings/")
    browser_page.locator("#zone").fill("Asia/Shanghai")
    browser_page.get_by_role("button", name="Save").click()
    browser_page.goto("/admin/dispatch/oncetask/add/?repeats=date")
    warnings = browser_page.locator(".timezonewarning")
    expect(warnings.first).to_be_attached()
    for warning in warnings.all():
        expect(warning).to_be_hidden()
    expect(browser_page.get_by_text("Time zone: Asia/Shanghai").first).to_be_visible()


def test_boxes_of_a_typed_password_are_there_when_one_is_typed(
    page_as: Callable[..., Page],
) -> None:
    page = page_as("superuser", scripts=False)
    page.goto(reverse("admin:auth_user_add"))
    box = page.locator("#id_password1")
    expect(box).to_be_hidden()

    page.get_by_label("Type one").check()
    expect(box).to_be_visible()
    page.get_by_label("Generate a strong one").check()
    expect(box).to_be_hidden()


def test_first_wrong_field_of_a_refused_form_has_the_focus(page_as: Callable[..., Page]) -> None:
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_executor_add"))
    expect(page.get_by_text("uid_… for a person, gid_… for a group of people.")).to_be_visible()
    page.get_by_label("Name").fill("gid_shops")
    page.get_by_label("Add members").fill("uid_ann")
    page.get_by_role("button", name="Save", exact=True).click()
    refused = (
        "There is nobody called uid_ann yet. Correct it, or switch on “Also make those that do"
    )
    expect(page.get_by_text(refused)).to_be_visible()
    expect(page.get_by_label("Add members")).to_be_focused()
