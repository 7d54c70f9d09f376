"""Two people read one instant each in a zone of their own, and a rotation keeps its own zone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.access.services import create_client
from apps.dispatch.models import RotateTask
from tests import factories
from tests.frozen import FrozenClock

pytestmark = pytest.mark.django_db(transaction=True)
PageAs = Callable[..., Page]
LIST = reverse("admin:dispatch_rotatetask_changelist")


def settle_in(page: Page, zone: str) -> Page:
    """Choose the zone on the page of one's own settings."""
    page.goto(reverse("preferences"))
    page.locator("#zone").fill(zone)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Your settings were saved.")).to_be_visible()
    return page


def test_two_people_read_one_instant_in_two_texts_with_their_zones(
    page_as: PageAs, frozen_clock: FrozenClock
) -> None:
    start = datetime(2026, 3, 2, 18, 30, tzinfo=UTC)
    task = factories.once_task(factories.user("uid_ann"), start_at=start)
    address = reverse("admin:dispatch_oncetask_changelist")
    for role, zone, text, offset in (
        ("operator", "Asia/Shanghai", "2026-03-03 02:30:00", "UTC+8"),
        ("viewer", "Europe/Berlin", "2026-03-02 19:30:00", "UTC+1"),
    ):
        page = settle_in(page_as(role), zone)
        page.goto(address)
        shown = page.get_by_role("row", name=task.title).locator(".field-shown_start_at time")
        expect(shown).to_have_text(f"{text} {offset}")
        expect(shown).to_have_attribute("title", "2026-03-02 18:30:00 UTC")
        expect(page.get_by_text(f"Times in {zone}, {offset}")).to_be_visible()


def test_rotation_at_two_in_berlin_lists_two_beside_the_time_of_its_reader(
    page_as: PageAs, frozen_clock: FrozenClock
) -> None:
    executor = factories.user("uid_ann")
    rule = {"every_days": 1, "at": "02:00"}
    factories.rotation(executor, "Night check", rule=rule, time_zone="Europe/Berlin")
    page = settle_in(page_as("operator"), "Asia/Shanghai")
    page.goto(LIST)
    row = page.get_by_role("row", name="Night check")
    expect(row).to_contain_text("2026-03-03 09:00:00 UTC+8")
    expect(row).to_contain_text("02:00:00 UTC+1 Europe/Berlin")


def test_start_typed_at_nine_in_shanghai_is_one_by_the_api_and_a_lost_hour_is_refused(
    page_as: PageAs, frozen_clock: FrozenClock
) -> None:
    factories.user("uid_ann")
    _client, key = create_client(name="planner", scopes=["read"], actor="admin:olga")
    page = settle_in(page_as("operator"), "Europe/Berlin")
    page.goto(reverse("admin:dispatch_rotatetask_add"))
    page.get_by_label("Title").fill("Till")
    page.locator("#id_executor").fill("uid_ann")
    page.locator("#id_every_days").fill("1")
    page.locator("#id_at").fill("09:00")
    page.locator("#id_start_at_0").fill("2027-03-28")
    page.locator("#id_start_at_1").fill("02:30:00")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("03:00")).to_be_visible()
    assert not RotateTask.objects.exists()

    page.locator("#id_time_zone").fill("Asia/Shanghai")
    page.locator("#id_start_at_0").fill("2026-03-05")
    page.locator("#id_start_at_1").fill("09:00:00")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    answer = page.request.get(
        f"/api/v1/rotate-tasks/{RotateTask.objects.get().pk}/",
        headers={"Authorization": f"Bearer {key}"},
    )
    assert answer.json()["start_at"] == "2026-03-05T01:00:00Z"
