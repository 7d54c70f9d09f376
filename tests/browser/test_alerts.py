"""From a channel and a rule that a person makes to the messages that others get."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.alerts.handlers import deliver
from apps.alerts.models import Channel, Delivery
from apps.jobs.handlers import Fail
from tests.alerts import Attempt, Receiver, callable_receiver, evaluate
from tests.frozen import FrozenClock
from tests.jobs import end, job_type, jobs, take

pytestmark = pytest.mark.django_db(transaction=True)
ALERTS = reverse("admin:alerts_alert_changelist")


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


def ended(how: str, count: int) -> None:
    jobs(count)
    for held in take(limit=count):
        end(held, how)


def minutes(clock: FrozenClock, count: int) -> None:
    """The sweep, every 15 seconds."""
    for _ in range(4 * count):
        evaluate()
        clock.advance(seconds=15)


def test_twenty_failures_are_one_alert_that_people_see_signed_and_one_that_is_over(
    page_as: Callable[..., Page], frozen_clock: FrozenClock, site: Receiver
) -> None:
    job_type(max_attempts=1)
    page = page_as("configurer")
    make_channel(page, "webhook", f"{site.url}/hook/T0KEN")
    page.goto(reverse("admin:alerts_alertrule_add"))
    page.get_by_label("Name").fill("Mail fails")
    page.get_by_label("Kind").select_option("failure_rate")
    page.get_by_label("ops").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()

    ended("failed", 20)
    minutes(frozen_clock, 10)
    page.goto(ALERTS)
    rows = page.locator("#result_list tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Mail fails")
    expect(rows).to_contain_text("Firing")
    ended("succeeded", 200)
    minutes(frozen_clock, 10)
    page.reload()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Resolved")

    for delivery in Delivery.objects.order_by("pk"):
        deliver({"delivery": delivery.pk}, Attempt())
    assert [json.loads(each.body)["event"] for each in site.taken] == [
        "alert.firing",
        "alert.resolved",
    ]
    for each in site.taken:
        signed = f"{each.headers['x-taskplatform-timestamp']}.".encode() + each.body
        digest = hmac.new(b"S3CRET", signed, hashlib.sha256).hexdigest()
        assert each.headers["x-taskplatform-signature"] == f"v1={digest}"


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
