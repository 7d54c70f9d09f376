"""The editor of templates by rows with a live preview; all its tabs shut nobody out."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.dispatch.models import Template
from tests import factories
from tests.browser.looks import Theme, faults
from tests.frozen import FrozenClock

SCHEMA = {
    "type": "object",
    "properties": {
        "shop": {"type": "string", "title": "Shop"},
        "photos": {"type": "integer", "title": "Photos", "maximum": 20},
        "angle": {"enum": ["front", "left"], "title": "Angle", "default": "left"},
        "box": {"type": "object", "title": "Box", "minProperties": 1},
    },
    "required": ["shop"],
}


def test_configurer_edits_rows_and_moves_the_tasks_that_fit(
    page_as: Callable[..., Page], frozen_clock: FrozenClock
) -> None:
    first = factories.template("photo-check", SCHEMA)
    for title, photos in (("Shelf", 2), ("Counter", 8)):
        params = {"shop": "Nanjing Road", "photos": photos}
        factories.once_task(factories.user(f"uid_{photos}"), title, template=first, params=params)
    page = page_as("configurer")
    page.goto(reverse("admin:dispatch_template_change", args=[first.pk]))
    page.get_by_label("At most of row 2").fill("6")
    page.get_by_label("At most of row 2").press("Tab")
    changes = page.locator("#template-changes")
    expect(changes).to_contain_text("→ 6.")
    expect(changes).to_contain_text("2 tasks have earlier versions; 1 of them also fit v2.")
    # Enter checks, and makes no version.
    page.get_by_label("Photos", exact=True).fill("9")
    with page.expect_navigation():
        page.get_by_label("Photos", exact=True).press("Enter")
    expect(page.get_by_text("less than or equal to 6")).to_be_visible()
    assert Template.objects.count() == 1
    looks: tuple[tuple[str, Theme], ...] = (
        ("JSON", "dark"),
        ("Tasks", "light"),
        ("Versions", "dark"),
    )
    for tab, theme in looks:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        with page.expect_navigation():
            page.get_by_role("button", name=tab).first.click()
        assert [*faults(page, theme)] == [], tab
    page.get_by_role("button", name="Save v2").click()
    page.get_by_role("link", name="Move the once task that fits…").click()
    page.get_by_label("Reason").fill("Fewer photos")
    expect(page.get_by_text("v1 → v2")).to_have_count(1)
