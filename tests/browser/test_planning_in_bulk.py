"""Acting on many tasks: names that are completed while they are typed, and the whole of a list."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.dispatch.models import OnceTask, RotateTask
from tests.factories import group, once_task, rotation, user
from tests.processes import eventually


def send(page: Page, name: str) -> None:
    page.locator("form.panel").get_by_role("button", name=name).click()


def test_rotations_are_copied_to_names_that_are_completed(
    page_as: Callable[[str | None], Page],
) -> None:
    """S0.32: the last of several names is completed while it is typed."""
    task = rotation(user("uid_ava"), "Check the till")
    for name in ("uid_bo", "uid_bea", "gid_shops"):
        (group if name.startswith("gid") else user)(name)
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_rotatetask_change", args=[task.pk]))
    page.locator(".object-more summary").click()
    page.get_by_role("link", name="Copy").click()

    page.get_by_label("For").press_sequentially("gid_shops, uid_be")
    suggested = page.locator("datalist option")
    expect(suggested).to_have_count(1)
    expect(suggested).to_have_attribute("value", "gid_shops, uid_bea")
    page.get_by_label("For").fill("gid_shops, uid_bea")
    page.get_by_label("Reason").fill("New colleague")
    send(page, "Copy")

    expect(page.get_by_text("Copy: 2 rows done.")).to_be_visible()
    names = RotateTask.objects.values_list("executor__name", flat=True)
    assert sorted(names) == ["gid_shops", "uid_ava", "uid_bea"]
    page.goto(reverse("admin:dispatch_rotatetask_changelist"))
    expect(page.get_by_role("row", name="uid_bea")).to_contain_text("1 of 100 repeating tasks")


def test_names_that_did_not_come_are_asked_for_again(
    page_as: Callable[[str | None], Page],
) -> None:
    """A session that is over answers with the login page in their place."""
    task = rotation(user("uid_ava"), "Check the till")
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_rotatetask_act", args=["copy"]) + f"?ids={task.pk}")
    page.route("**/names/**", lambda route: route.fulfill(body="<title>Log in</title>"))
    box = page.get_by_label("For")
    with page.expect_response("**/names/?term=uid_a"):
        box.press_sequentially("uid_a")
    page.unroute("**/names/**")
    names = page.locator("datalist option")

    def have_come() -> int:
        # The answer has come to the browser, and perhaps not yet to the script.
        box.blur()
        box.focus()
        return names.count()

    eventually(have_come)
    expect(names).to_have_attribute("value", "uid_ava")


def test_whole_list_is_paused_beyond_its_page(page_as: Callable[[str | None], Page]) -> None:
    """S0.32: the list is never counted, and all of it can be chosen."""
    ava = user("uid_ava")
    for number in range(55):
        once_task(ava, f"Task {number}")
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_changelist"))
    page.locator("#action-toggle").check()
    expect(page.get_by_text("50 of 50 selected")).to_be_visible()
    page.get_by_role("link", name="Select the whole list").click()
    expect(page.get_by_text("The whole list is selected, with all its pages.")).to_be_visible()
    page.locator("select[name=action]").select_option(label="Pause")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("This concerns 55 once tasks")).to_be_visible()
    send(page, "Pause")
    # The browser holds the form back until there is a reason.
    expect(page.get_by_label("Reason")).to_be_focused()
    page.get_by_label("Reason").fill("Holiday")
    send(page, "Pause")
    expect(page.get_by_text("Pause: 55 rows done.")).to_be_visible()
    assert not OnceTask.objects.filter(status="active").exists()
