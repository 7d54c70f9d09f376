"""Signing in: the form, the lock after wrong passwords, the language a person chooses."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

PASSWORD = "a-password-of-olga"


def send_login(page: Page, name: str, password: str) -> None:
    page.locator("[name=username]").fill(name)
    page.locator("[name=password]").fill(password)
    with page.expect_navigation():
        page.locator("#login-form [type=submit]").click()


def test_language_chosen_in_the_header_stays_until_another_is_chosen(
    page_as: Callable[[str | None], Page],
) -> None:
    page = page_as("operator")
    page.goto("/admin/dispatch/oncetask/?status=paused")

    page.get_by_role("button", name="简体中文").click()

    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
    expect(page).to_have_url(re.compile(r"/admin/dispatch/oncetask/\?status=paused$"))
    expect(page.get_by_text("未找到结果")).to_be_visible()
    page.get_by_text("operator", exact=True).click()
    page.get_by_role("button", name="退出登录").or_(page.get_by_role("button", name="注销")).click()
    page.goto("/admin/login/")
    expect(page.get_by_role("button", name="登录")).to_be_visible()


def test_language_is_chosen_before_signing_in(
    page_as: Callable[[str | None], Page], role_user: Callable[[str], User]
) -> None:
    user = role_user("operator")
    user.set_password(PASSWORD)
    user.save()
    page = page_as(None)
    page.goto("/admin/dispatch/oncetask/")

    page.get_by_role("button", name="简体中文").click()
    expect(page.get_by_role("button", name="登录")).to_be_visible()
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    page.get_by_role("button", name="简体中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
    send_login(page, "operator", PASSWORD)

    expect(page).to_have_url(re.compile("/admin/dispatch/oncetask/$"))
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")


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
