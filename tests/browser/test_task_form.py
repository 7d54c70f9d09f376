"""The one form of tasks: short, it says itself back while it is filled in, and loses nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.dispatch.models import RotateTask
from tests.factories import group, template
from tests.frozen import FrozenClock

HIGHEST = 1_000
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


def test_planner_reads_what_the_form_means_and_loses_nothing(
    page_as: Callable[..., Page], frozen_clock: FrozenClock
) -> None:
    template("photo-check", SCHEMA)
    group("gid_photo", ["uid_ava", "uid_bo"])
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_add"))
    page.get_by_label("Title").fill("Photograph the shelf")
    page.locator("#id_executor").fill("gid_photo")
    page.get_by_label("Template").select_option(label="photo-check v1")
    page.get_by_label("Shop").fill("Nanjing Road")
    expect(page.locator("#task-who-line")).to_contain_text("2 people · 2 could take it now")
    height = page.evaluate("document.getElementById('content-main').scrollHeight")
    assert height <= HIGHEST, height

    # Once and again are one form.
    page.get_by_label("At a date").check()
    expect(page.locator("#id_start_at_0")).to_be_visible()
    page.get_by_label("Again and again").check()
    page.get_by_label("Every", exact=True).select_option("week")
    expect(page.locator("#id_cron")).to_be_hidden()
    page.get_by_label("Mon", exact=True).check()
    page.get_by_label("Thu", exact=True).check()
    runs = page.locator("#task-runs time")
    expect(runs).to_have_count(5)
    expect(runs.first).to_have_text("Mon 2 Mar 09:00")
    expect(page.locator("#task-said")).to_contain_text("Not right yet: Photos")
    page.get_by_label("Photos").fill("2")
    page.get_by_label("Angle").select_option(label="front")
    expect(page.locator("#task-said")).to_contain_text(
        "Every Monday and Thursday at 09:00: one person of gid_photo"
    )
    expect(page.locator("#task-said")).to_contain_text("What if:")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    assert RotateTask.objects.get().rule == {"cron": "0 9 * * 1,4"}


def test_error_goes_when_its_field_is_changed(page_as: Callable[..., Page]) -> None:
    """It was said of another value. The note above goes with the last of them."""
    template("photo-check", SCHEMA)
    group("gid_photo", ["uid_ava"])
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_add"))
    page.get_by_label("Title").fill("Photograph the shelf")
    who = page.locator("#id_executor")
    who.fill("gid_foto")
    page.get_by_label("At a date").check()
    page.get_by_role("button", name="Save", exact=True).click()
    note = page.get_by_text("Please correct the errors below.")
    expect(note).to_be_visible()
    expect(who).to_have_accessible_description(re.compile("gid_foto"))
    errors = page.locator(".errorlist")
    expect(errors).to_have_count(2)

    who.fill("gid_photo")
    expect(errors).to_have_count(1)
    expect(page.locator("[aria-invalid], .errors #id_executor")).to_have_count(2)
    expect(note).to_be_visible()
    page.locator("#id_start_at_1").fill("09:00")
    expect(errors).to_have_count(0)
    expect(page.locator("[aria-invalid], .errors")).to_have_count(0)
    expect(note).to_have_count(0)


def test_error_of_any_form_goes_so(page_as: Callable[..., Page]) -> None:
    page = page_as("configurer")
    page.goto(reverse("admin:dispatch_executor_add"))
    name = page.locator("#id_name")
    name.fill("ann")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(name).to_have_attribute("aria-invalid", "true")
    name.fill("uid_ann")
    expect(page.locator("[aria-invalid], .errorlist, .errornote")).to_have_count(0)


def test_saving_is_in_sight_on_a_phone(page_as: Callable[..., Page]) -> None:
    """The usual way first, the others in one line below it."""
    page = page_as("configurer")
    page.set_viewport_size({"width": 390, "height": 700})
    page.goto(reverse("admin:dispatch_oncetask_add"))
    names = ("_save", "_continue", "_addanother")
    save, on, another = (page.locator(f"#submit-row [name={name}]") for name in names)
    expect(save).to_be_in_viewport(ratio=1)
    page.get_by_label("Title").fill("Photograph the shelf")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(another).to_be_in_viewport(ratio=1)
    boxes = [each.bounding_box() for each in (save, on, another)]
    tops = [box["y"] for box in boxes if box]
    assert tops[0] < tops[1] == tops[2]
