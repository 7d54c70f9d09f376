"""A morning of an operator, from the plan to the pause, every figure held against the journal; the
figures of reports are in integration/reports."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Locator, Page, expect

from apps.common import clock
from apps.jobs.handlers import Retry
from apps.jobs.models import Job
from apps.jobs.runner.process import Node, Process
from apps.journal.models import JournalEntry
from apps.reports.admin.overview.page import known_of
from apps.reports.services import rollup
from apps.reports.services.coverage import Stored
from taskplatform.demo.terminal import percentile
from taskplatform.sdk import Client, Nothing
from tests.clients import JsonClient
from tests.frozen import FrozenClock
from tests.integration.reports import output
from tests.jobs import drained, job_type

pytestmark = pytest.mark.django_db(transaction=True)
ENDED = {"job": ("succeeded", "failed", "cancelled"), "dispatch": ("succeeded", "failed")}


class Crm:
    """A system that jobs talk to; `accepts` that many more of them."""

    def __init__(self, frozen: FrozenClock) -> None:
        self.accepts = 0
        self._frozen = frozen

    def __call__(self, context: Any) -> Any:
        self._frozen.advance(milliseconds=700)
        if not self.accepts:
            raise ConnectionRefusedError(f"10.0.0.{context['customer']}:443")
        self.accepts -= 1


@pytest.fixture
def crm(handle: Callable[..., Any], frozen_clock: FrozenClock) -> Crm:
    """The types: a ready-made handler, one that asks for a second try, one that may fail."""

    def mail(context: Any, ctx: Any) -> Any:
        frozen_clock.advance(milliseconds=1300)
        if ctx.attempt == 1 and context["position"] % 3 == 0:
            raise Retry(5, "greylisted")
        return {"sent": True}

    crm = Crm(frozen_clock)
    handle("mail", mail, max_attempts=3)
    handle("crm.sync", crm, max_attempts=1)
    job_type("echo", handler="echo")
    return crm


def test_operator_plans_watches_mends_and_pauses(
    page_as: Callable[[str | None], Page],
    live_site: str,
    make_key: Callable[..., str],
    frozen_clock: FrozenClock,
    crm: Crm,
) -> None:
    key = make_key()
    page, watched = page_as("operator"), page_as("viewer")
    watched.goto("/admin/")
    plan_round(page)
    work_off_round(live_site, key, frozen_clock)
    submit(page, JsonClient(key))
    # The page of a job loads itself once more when the job has ended.
    page.goto("/admin/")
    come_back(watched)
    expect(tile(watched, "waiting")).to_have_text("17")

    work_off_jobs(frozen_clock)
    come_back(watched)
    check_overview(watched)

    watched.get_by_role("link", name="Problems").first.click()
    cause = watched.locator(".problem").filter(has_text="ConnectionRefusedError: 10.0.0.")
    expect(cause.locator(".problem-count-1")).to_have_text("4")
    page.goto(reverse("failures"))
    crm.accepts = 3
    page.locator(".failure").filter(has_text="Connection").get_by_role(
        "link", name="Retry…"
    ).click()
    expect(page.get_by_text("This concerns 4 jobs")).to_be_visible()
    send(page, "Retry")
    expect(page.get_by_text("4 jobs retried.")).to_be_visible()
    work_off_jobs(frozen_clock)
    watched.goto("/admin/")
    assert Job.objects.filter(status="failed").count() == 1

    pause_type(page, "crm.sync", "It went away again")
    submit_by_form(page, "crm.sync", '{"customer": 9}')
    expect(page.get_by_text("The type crm.sync is paused: It went away again")).to_be_visible()
    work_off_jobs(frozen_clock)
    notice = watched.locator(".trouble[data-kind=paused]")
    come_back(watched)
    expect(notice).to_contain_text("It went away again")
    expect(tile(watched, "waiting")).to_have_text("1")
    check_overview(watched)
    check_who_said_why()


# --- what the operator does -----------------------------------------------------------------------
def plan_round(page: Page) -> None:
    page.goto(reverse("admin:dispatch_executor_add"))
    page.get_by_label("Name").fill("gid_shops")
    page.get_by_label("Add members").fill("uid_ava, uid_bo, uid_cy")
    page.get_by_label("Also make those that do not exist yet").check()
    send(page, "Save")
    expect(page.get_by_role("row", name="gid_shops")).to_contain_text("3 members")
    page.goto(reverse("admin:dispatch_oncetask_add"))
    page.get_by_label("Title").fill("Night photo")
    page.locator("#id_executor").fill("gid_shops")
    page.get_by_label("Mode").select_option("multi")
    page.get_by_label("Quota").fill("3")
    send(page, "Save")
    expect(page.get_by_role("row", name="Night photo")).to_contain_text("0 / 3")


def submit(page: Page, api: JsonClient) -> None:
    """Sixteen by a program, and one by the form."""
    bodies = [{"type": "mail", "context": {"position": each}} for each in range(8)]
    bodies += [{"type": "echo", "context": {"position": each}} for each in range(5)]
    bodies += [{"type": "crm.sync", "context": {"customer": each}} for each in range(3)]
    assert api.post("/api/v1/jobs/", {"jobs": bodies}).status_code < 300
    submit_by_form(page, "crm.sync", '{"customer": 3}')


def submit_by_form(page: Page, type_: str, context: str) -> None:
    page.goto(f"{reverse('admin:jobs_job_add')}?type={type_}")
    page.get_by_label("Context as JSON").fill(context)
    send(page, "Save")
    expect(page.get_by_text("was submitted")).to_be_visible()


def pause_type(page: Page, name: str, reason: str) -> None:
    page.goto(reverse("admin:jobs_jobtype_changelist"))
    page.get_by_role("link", name=name, exact=True).first.click()
    page.get_by_role("link", name="Pause").click()
    give_reason(page, "Pause", reason)
    expect(page.get_by_role("alert").filter(has_text=reason)).to_be_visible()


def give_reason(page: Page, button: str, reason: str) -> None:
    page.get_by_label("Reason").fill(reason)
    send(page, button)


def send(page: Page, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()


# --- what others do meanwhile ---------------------------------------------------------------------
def work_off_round(site: str, key: str, frozen: FrozenClock) -> None:
    """Two members succeed, the third fails, each in a time of its own."""
    with Client(site, key) as client:
        for seconds, uid in ((20, "uid_ava"), (45, "uid_bo"), (90, "uid_cy")):
            offer = client.pull(uid)
            assert not isinstance(offer, Nothing)
            frozen.advance(seconds=seconds)
            client.callback(uid, offer.number, "failed" if uid == "uid_cy" else "succeeded")


def work_off_jobs(frozen: FrozenClock) -> None:
    """A worker runs what is due, twice, as some ask for another try; then the minutes are added
    up."""
    process = Process(Node("worker@test", ("fast", "slow"), 2))
    for _ in range(2):
        drained(process)
        frozen.advance(seconds=6)
    process.leave()
    frozen.advance(minutes=1, seconds=11)
    rollup.roll_up(until=clock.now() + timedelta(minutes=1))


# --- what pages show, and what the rows say ------------------------------------------------------
def tile(page: Page, name: str) -> Locator:
    return page.locator(f"#home-{name} strong")


def come_back(page: Page) -> None:
    """Look at the overview again, which asks for news then and not only every five seconds."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def entries_of(source: str) -> list[JournalEntry]:
    return list(JournalEntry.objects.filter(source=source).order_by("id"))


def check_overview(page: Page) -> None:
    """The figures of the last hour; all that has ended here ended in it."""
    until = Stored.read().closed_until
    assert until is not None
    # The chart comes first.
    expect(page.locator(f'[data-known="{known_of(until)}"]')).to_be_attached()
    statuses = list(Job.objects.values_list("status", flat=True))
    expect(tile(page, "waiting")).to_have_text(str(statuses.count("ready")))
    # These figures are kept for two seconds.
    expect(tile(page, "succeeded")).to_contain_text("%")
    chart = page.locator("#overview-trends svg")
    said = chart.get_attribute("aria-label") or ""
    for source, final in ENDED.items():
        entries = entries_of(source)
        ends = [each for each in entries if each.to_state in final and each.from_state != "failed"]
        name = {"job": "jobs", "dispatch": "dispatches"}[source]
        assert f"{name} ended: {len(ends)}" in said
        if source == "dispatch":
            continue
        good = sum(each.to_state == "succeeded" for each in ends)
        share = output.share_of(tile(page, "succeeded").inner_text())
        assert share == pytest.approx(good / len(ends), abs=0.001)
        for of in ("wait", "run"):
            shown = output.milliseconds_of(tile(page, of).inner_text())
            attempts = [each for each in entries if getattr(each, f"{of}_ms") is not None]
            values = [getattr(each, f"{of}_ms") for each in attempts]
            assert shown == pytest.approx(percentile(values, 95), rel=0.07)


def check_who_said_why() -> None:
    reasons = JournalEntry.objects.exclude(reason="").filter(actor="admin:operator")
    assert set(reasons.values_list("event", "reason")) == {
        ("type_paused", "It went away again"),
    }
