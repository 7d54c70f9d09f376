"""What if: clicked through. S0.31, U2-U4."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.dispatch.models import OnceTask
from tests.frozen import FrozenClock
from tests.scenes import play_morning


def test_what_if_is_shown_and_not_saved(
    page_as: Callable[..., Page], frozen_clock: FrozenClock
) -> None:
    """S0.31: without a script the server draws the same: test_admin_why_and_what_if.py."""
    play_morning(frozen_clock)
    # Due, and far from used up.
    pallets = OnceTask.objects.filter(title="Pallet count, Harbour Street").latest("pk")
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_change", args=[pallets.pk]))

    page.locator(".task-more summary").click()
    page.locator("[name=priority]").fill("50")
    page.locator("[name=title]").fill("Pallets first")
    page.get_by_role("button", name="What if?").click()

    answer = page.locator("#what-if")
    expect(answer).to_contain_text("Nothing is saved yet.")
    expect(answer.locator(".mark-moved, .mark-changed").first).to_contain_text("Pallets first")
    expect(page.locator("[name=title]")).to_have_value("Pallets first")
    assert OnceTask.objects.get(pk=pallets.pk).title == pallets.title
