"""The page of a message renews itself until the message is sent or is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.alerts.handlers import deliver
from apps.alerts.models import Channel, Delivery
from apps.jobs.handlers import Fail
from tests.alerts import Attempt, Receiver, callable_receiver

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def site(settings: Any) -> Iterator[Receiver]:
    with callable_receiver(settings) as server:
        yield server


def make_channel(page: Page, kind: str, url: str) -> None:
    page.goto(reverse("admin:alerts_channel_add"))
    page.get_by_label("Name").fill("ops")
    page.get_by_label("Kind").select_option(kind)
    page.locator("#id_url").fill(url)
    page.locator("#id_secret").fill("S3CRET")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()


def send_test(page: Page) -> None:
    page.goto(reverse("admin:alerts_channel_change", args=[Channel.objects.get().pk]))
    page.get_by_role("link", name="Send test").click()
    page.get_by_role("button", name="Send test").click()


def test_test_button_shows_the_error_of_the_vendor_and_no_page_shows_a_secret(
    page_as: Callable[..., Page], site: Receiver
) -> None:
    site.answers = [(200, b'{"errcode": 310000, "errmsg": "sign not match S3CRET"}')]
    page = page_as("configurer")
    seen: list[str] = []
    page.on("domcontentloaded", lambda opened: seen.append(opened.content()))
    make_channel(page, "dingtalk", f"{site.url}/robot/send?access_token=T0KEN")

    send_test(page)
    expect(page.get_by_text("Waiting", exact=True)).to_be_visible()
    with pytest.raises(Fail):
        deliver({"delivery": Delivery.objects.get().pk}, Attempt(8))
    expect(page.get_by_text("310000: sign not match")).to_be_visible()
    [taken] = site.taken
    assert "access_token=T0KEN&timestamp=" in taken.path

    for name in ("channel", "delivery"):
        page.goto(reverse(f"admin:alerts_{name}_changelist"))
        page.locator("#result_list tbody tr a").first.click()
        page.wait_for_load_state()
    assert len(seen) > 6
    assert not [html for html in seen if "S3CRET" in html or "T0KEN" in html]


def test_form_of_a_channel_has_what_its_kind_has(page_as: Callable[..., Page]) -> None:
    page = page_as("configurer")
    page.goto(reverse("admin:alerts_channel_add"))
    address, recipients = page.locator("#id_url"), page.locator("#id_recipients")
    expect(address).to_be_visible()
    expect(recipients).to_be_hidden()
    page.get_by_label("Name").fill("ops")
    page.get_by_label("Kind").select_option("mail")
    expect(address).to_be_hidden()
    recipients.fill("ann@example.com")
    page.get_by_label("Kind").select_option("webhook")
    expect(recipients).to_be_hidden()
    # What a fault is said of is seen whatever the kind is.
    page.get_by_role("button", name="Save", exact=True).click()
    expect(recipients).to_be_visible()
    expect(page.get_by_text("Only mail has recipients")).to_be_visible()
