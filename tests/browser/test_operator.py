"""A day of an operator: plan, hand out to real clients, find it, step in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.dispatch.models import Dispatch, OnceTask
from apps.journal.models import JournalEntry
from taskplatform.sdk import Client, Nothing
from tests.browser.conftest import Watch
from tests.factories import group, once_task, template, user
from tests.frozen import FrozenClock
from tests.scenes import Morning, play_morning

PASSWORD = "a-password-of-olga"
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


def sign_in(page: Page, user: User, password: str = PASSWORD) -> None:
    user.set_password(password)
    user.save()
    page.goto("/admin/")
    page.locator("[name=username]").fill(user.username)
    page.locator("[name=password]").fill(password)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile("/admin/$"))


def open_from_menu(page: Page, name: str) -> None:
    page.get_by_role("link", name=name).first.click()


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("successfully")).to_be_visible()


def test_planned_task_goes_out_comes_back_and_is_found_in_the_log(
    page_as: Callable[[str | None], Page],
    role_user: Callable[[str], User],
    make_key: Callable[..., str],
    live_site: str,
) -> None:
    """S0.2, S0.3, S0.5, S0.12: members of a group are handed what a form planned."""
    configurer = page_as("configurer")
    configurer.goto(reverse("admin:dispatch_template_add"))
    configurer.get_by_label("Name").fill("night-photo")
    configurer.get_by_label("Schema").fill(json.dumps(SCHEMA))
    save(configurer)

    page = page_as(None)
    sign_in(page, role_user("operator"))
    open_from_menu(page, "Executors")
    page.goto(reverse("admin:dispatch_executor_add"))
    page.get_by_label("Name").fill("gid_night_shift")
    page.get_by_label("Title").fill("Night shift")
    page.get_by_label("Add members").fill("uid_ava\nuid_bo")
    save(page)
    expect(page.get_by_role("row", name="gid_night_shift")).to_contain_text("2 members")

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
    save(page)
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
    open_from_menu(page, "Dispatches")
    page.get_by_placeholder("Number or executor, or params.path:value").fill("uid_ava")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=uid_ava"))
    expect(page.get_by_role("row", name="Night photo")).to_contain_text("Succeeded")
    page.get_by_role("link", name=offer.number).click()
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


def test_stale_form_shows_both_values_and_saves_nothing(
    page_as: Callable[[str | None], Page], watch: Watch
) -> None:
    """I57: a stale edit form answers with a conflict page, and nothing is saved."""
    watch.allow("409")
    task = once_task(user("uid_ava"), title="First title")
    first, second = page_as("configurer"), page_as("operator")
    for page in (first, second):
        page.goto(reverse("admin:dispatch_oncetask_change", args=[task.pk]))
    first.get_by_label("Title").fill("Title of the first")
    save(first)
    entries = JournalEntry.objects.count()

    second.get_by_label("Title").fill("Title of the second")
    second.get_by_label("Priority").fill("7")
    second.get_by_role("button", name="Save", exact=True).click()

    conflict = second.get_by_role("table")
    expect(conflict.get_by_role("row", name="Title")).to_contain_text("Title of the first")
    expect(conflict.get_by_role("row", name="Title")).to_contain_text("Title of the second")
    expect(second.get_by_text("configurer changed this")).to_be_visible()
    task.refresh_from_db()
    assert (task.title, task.priority) == ("Title of the first", 0)
    assert JournalEntry.objects.count() == entries
    second.get_by_role("link", name="Open the current version").click()
    expect(second.get_by_label("Title")).to_have_value("Title of the first")


def test_viewer_sees_everything_and_can_do_nothing(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock
) -> None:
    """S0.31: no action, no form and no payload for a viewer."""
    morning = play_morning(frozen_clock)
    seen = [what_one_can_do(page_as(role), morning) for role in ("viewer", "configurer")]

    assert seen == [
        {"choose": 0, "add": 0, "save": 0, "act": 0, "payload": 0},
        # The same search finds them where they are; new dispatches are nobody's to add.
        {"choose": 4, "add": 3, "save": 1, "act": 2, "payload": 2},
    ]


def what_one_can_do(page: Page, morning: Morning) -> dict[str, int]:
    """On how many pages of the dispatch box there is something to do, or a payload to see."""
    found = {"choose": 0, "add": 0, "save": 0, "act": 0, "payload": 0}
    for name in ("oncetask", "dispatch", "executor", "template"):
        page.goto(reverse(f"admin:dispatch_{name}_changelist"))
        expect(page.locator("#result_list tbody tr").first).to_be_attached()
        found["choose"] += page.locator("#result_list input[type=checkbox]").count() > 0
        found["add"] += page.locator(f"a[href*='/dispatch/{name}/add/']").count() > 0
    for name, pk in (("oncetask", morning.task.pk), ("dispatch", morning.opened.pk)):
        page.goto(reverse(f"admin:dispatch_{name}_change", args=[pk]))
        expect(page.get_by_role("heading", name="History")).to_be_visible()
        found["save"] += page.locator("[name=_save]").count() > 0
        found["act"] += page.locator("a[href*='/act/']").count() > 0
        found["payload"] += "aisle" in page.content()
    return found


def test_template_is_edited_into_its_next_version(page_as: Callable[[str | None], Page]) -> None:
    """S0.3: a used version stays as it is."""
    first = template("shelf")
    once_task(group("gid_a", ["uid_a"]), template=first, params={"shop": "A"})
    page = page_as("configurer")
    page.goto(reverse("admin:dispatch_template_change", args=[first.pk]))

    page.get_by_label("Schema").fill('{"type": "object", "properties": {"shop": {"type": "text"}}}')
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("fits none of the allowed schemas")).to_be_visible()
    page.get_by_label("Schema").fill('{"type": "object"}')
    page.get_by_role("button", name="Save and continue editing").click()

    expect(page.get_by_text("v2").first).to_be_visible()
    first.refresh_from_db()
    assert first.version == 1
    assert OnceTask.objects.get().template == first
