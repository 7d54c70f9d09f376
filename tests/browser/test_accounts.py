"""A new account from the form to its first sign-in."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import reverse
from playwright.sync_api import Page, expect

from tests import factories
from tests.browser.test_people import send_login

ADD = reverse("admin:auth_user_add")


def test_new_operator_signs_in_with_the_generated_password_and_sees_what_the_role_may_see(
    page_as: Callable[..., Page],
) -> None:
    factories.once_task(factories.user("uid_ann"), "Count the till")
    factories.job_type("mail")
    page = page_as("superuser")
    page.goto(ADD)
    page.get_by_label("Username").fill("nora")
    page.get_by_label("Email address").fill("nora@shop.example")
    page.get_by_label("Time zone").fill("Asia/Shanghai")
    page.get_by_label("operator – also sees these, plans tasks").check()
    page.get_by_label("Sees these executors only").press_sequentially("uid_a")
    page.locator('#id_executors-names option[value="uid_ann"]').wait_for(state="attached")
    page.get_by_label("Sees these executors only").fill("uid_ann")
    page.get_by_label("mail", exact=True).check()
    page.get_by_role("button", name="Save", exact=True).click()

    password = page.locator("#new-password").inner_text()
    page.get_by_role("link", name="I have copied it").click()
    panel = page.locator(".panel-body", has_text="Cannot")
    expect(panel).to_contain_text("Submit jobs")
    expect(panel).to_contain_text("Executors: uid_ann")
    assert password not in page.content()

    nora = page_as(None)
    nora.goto("/admin/dispatch/oncetask/")
    send_login(nora, "nora", password)
    expect(nora.get_by_role("link", name="Count the till")).to_be_visible()
    expect(nora.locator(".zone-note")).to_contain_text("Asia/Shanghai, UTC+8")
    expect(nora.locator("a[href='/admin/jobs/job/']").first).to_be_visible()
    for hidden in ("auth/user", "access/apiclient", "alerts/alert"):
        expect(nora.locator(f"a[href='/admin/{hidden}/']")).to_have_count(0)


def test_boxes_of_a_typed_password_are_there_when_one_is_typed(
    page_as: Callable[..., Page],
) -> None:
    page = page_as("superuser", scripts=False)
    page.goto(ADD)
    box = page.locator("#id_password1")
    expect(box).to_be_hidden()

    page.get_by_label("Type one").check()
    expect(box).to_be_visible()
    page.get_by_label("Generate a strong one").check()
    expect(box).to_be_hidden()
