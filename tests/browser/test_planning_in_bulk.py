"""An operator's week: look at a period, move what stands in it, bring in the rest from a file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.dispatch.models import OnceTask, RotateTask
from tests.factories import group, once_task, rotation, user
from tests.frozen import FrozenClock
from tests.processes import eventually

HEADINGS = "title,executor,start_at,mode,dispatch_times\n"


def send(page: Page, name: str) -> None:
    page.locator("form.panel").get_by_role("button", name=name).click()


def test_tasks_of_a_period_are_shifted_together(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock
) -> None:
    """S0.31, S0.32: by the picker and its address, and only those that were chosen."""
    ava, now = user("uid_ava"), frozen_clock.instant
    once_task(ava, "This week")
    once_task(ava, "Next month", start_at=now + timedelta(days=20))
    moved = once_task(ava, "Also next month", start_at=now + timedelta(days=21))
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_changelist"))
    rows = page.locator("#result_list tbody tr")
    expect(rows).to_have_count(1)
    expect(page.locator(".period-words")).to_have_text("2026-02-23 – 2026-03-09")

    page.get_by_text("Filters", exact=False).first.click()
    page.get_by_label("From", exact=True).fill("2026-03-20")
    page.get_by_label("To", exact=True).fill("2026-03-31")
    page.get_by_role("button", name="Apply Filters").click()
    expect(rows).to_have_count(2)
    page.goto(page.url)
    expect(rows).to_have_count(2)

    page.get_by_role("row", name="Also next month").get_by_role("checkbox").check()
    page.locator("select[name=action]").select_option(label="Shift")
    page.get_by_role("button", name="Run").click()
    expect(page.locator(".plain-list")).to_have_text("Also next month · uid_ava")
    page.get_by_label("Shift by").fill("later")
    page.get_by_label("Reason").fill("Stock-taking")
    send(page, "Shift")
    expect(page.get_by_text("is not a shift")).to_be_visible()
    page.get_by_label("Shift by").fill("-5d")
    send(page, "Shift")

    expect(page.get_by_text("Shift: 1 row done.")).to_be_visible()
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Earlier").click()
    expect(page.get_by_role("row", name="Also next month")).to_contain_text("18 Mar")
    assert OnceTask.objects.get(pk=moved.pk).start_at == now + timedelta(days=16)


def test_tasks_come_from_a_file_after_a_trial_and_go_out_as_one(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock, tmp_path: Path
) -> None:
    """S0.32: mistakes are shown row by row, and what went out comes in unchanged."""
    group("gid_shops", members=["uid_ava"])
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_changelist"))
    page.get_by_role("link", name="Import").click()
    bad = tmp_path / "bad.csv"
    bad.write_text(HEADINGS + "Shelf,gid_shops,,multi,3\nTill,gid_nowhere,soon,,\n")
    page.locator("input[type=file]").set_input_files(bad)
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_role("alert")).to_contain_text("One row cannot be imported")
    expect(page.get_by_role("row", name="Till")).to_contain_text("There is no executor")
    assert not OnceTask.objects.exists()

    good = HEADINGS + "Shelf,gid_shops,,multi,3\nTill,uid_ava,2026-03-04T08:00:00Z,,\n"
    page.locator("textarea[name=text]").fill(good)
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("2 new, 0 changed, 0 unchanged")).to_be_visible()
    assert not OnceTask.objects.exists()
    page.get_by_role("button", name="Import them").click()
    expect(page.get_by_text("Imported: 2 new")).to_be_visible()
    expect(page.get_by_role("row", name="Shelf")).to_contain_text("0 / 3")

    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    download.value.save_as(tmp_path / "out.csv")
    page.get_by_role("link", name="Import").click()
    page.locator("input[type=file]").set_input_files(tmp_path / "out.csv")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("0 new, 0 changed, 2 unchanged")).to_be_visible()


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
    expect(page.get_by_role("row", name="uid_bea")).to_contain_text("1 of 100 rotations")


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
    page.get_by_label("Reason").fill("Holiday")
    send(page, "Pause")
    expect(page.get_by_text("Pause: 55 rows done.")).to_be_visible()
    assert not OnceTask.objects.filter(status="active").exists()
