"""Eleven things that operators do every day, from the overview, with the clicks they take.

Typing is not counted, choosing from a list is one click, and no move takes more than in the best
of the dashboards that people come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from apps.alerts.models import AlertRule
from apps.bulk.models import BulkRun
from apps.jobs.models import JobScope, Worker
from apps.jobs.rules import transitions as t
from apps.reports.services import rollup
from apps.schedules.models import Schedule
from tests import factories
from tests.alerts import channel
from tests.callback import take_next
from tests.frozen import FrozenClock
from tests.jobs import end, job_type, jobs, row, take

pytestmark = pytest.mark.django_db(transaction=True)


class Hand:
    """A person with a mouse, who counts its clicks."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def click(self, found: Locator) -> None:
        self.clicks += 1
        found.first.click()

    def choose(self, found: Locator, value: str) -> None:
        self.clicks += 1
        found.select_option(value)

    def menu(self, name: str) -> None:
        self.click(self.page.locator("#nav-sidebar a").filter(has_text=name))

    def link(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name, exact=True))

    def button(self, name: str) -> None:
        self.click(self.page.get_by_role("button", name=name, exact=True))


def failed_jobs(count: int, error: str, *, type: str = "mail") -> list[int]:  # noqa: A002
    """Jobs that have failed for good, by number."""
    job_type(type, max_attempts=1)
    made = jobs(count, type)
    for held in take(count, types=[type]):
        end(held, "failed", error=error, retry="never")
    return made


AtMost = Callable[..., AbstractContextManager[Hand]]


@pytest.fixture
def at_most(page_as: Callable[..., Page]) -> AtMost:
    """`with at_most(3) as hand:` stands on the overview, and the clicks of `hand` are counted."""

    @contextmanager
    def at_most(clicks: int, role: str = "operator") -> Iterator[Hand]:
        page = page_as(role)
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto("/admin/")
        hand = Hand(page)
        yield hand
        assert hand.clicks <= clicks

    return at_most


def test_five_hundred_jobs_of_a_type_are_cancelled(at_most: AtMost) -> None:
    job_type("mail")
    jobs(500)
    with at_most(3) as hand:
        hand.page.goto("/admin/jobs/job/?type=mail")
        hand.click(hand.page.get_by_text("Act on all that match"))
        hand.link("Cancel…")
        expect(hand.page.get_by_label("Reason")).to_be_focused()
        hand.page.keyboard.type("Wrong address")
        hand.button("Start: Cancel")
        expect(hand.page.locator("#live")).to_be_visible()
    assert BulkRun.objects.get().at_most == 500


def test_what_runs_where_is_seen(at_most: AtMost) -> None:
    job_type("mail")
    factories.worker("host-a:1")
    [number] = jobs()
    take(1)
    with at_most(1) as hand:
        hand.menu("Workers")
        running = hand.page.locator(".running-now")
        expect(running.get_by_role("row", name="host-a:1")).to_contain_text(str(number))


def test_error_of_a_failed_job_is_read(at_most: AtMost) -> None:
    frames = 'Traceback (most recent call last):\n  File "mail.py", line 7, in send\n'
    failed_jobs(1, f"{frames}ConnectionRefusedError: 10.0.0.1:25")
    with at_most(2) as hand:
        hand.click(hand.page.get_by_title("Failed jobs of the type"))
        hand.click(hand.page.locator("#result_list tbody tr th a"))
        expect(hand.page.get_by_text("ConnectionRefusedError: 10.0.0.1:25").first).to_be_visible()


def test_failed_job_is_retried(at_most: AtMost) -> None:
    [number] = failed_jobs(1, "ConnectionRefusedError")
    with at_most(2) as hand:
        hand.click(hand.page.get_by_title("Failed jobs of the type"))
        hand.click(hand.page.locator("#result_list").get_by_role("button", name="Retry"))
        expect(hand.page.get_by_text("1 job retried.")).to_be_visible()
    assert row(number).status == t.READY


def test_all_that_failed_of_one_cause_are_retried(
    at_most: AtMost, frozen_clock: FrozenClock
) -> None:
    failed_jobs(60, "ConnectionRefusedError")
    failed_jobs(3, "ValueError", type="web")
    frozen_clock.advance(minutes=3)
    rollup.roll_up(until=frozen_clock())
    with at_most(3) as hand:
        hand.menu("Problems")
        cause = hand.page.locator(".problem").filter(has_text="ConnectionRefusedError")
        hand.click(cause.get_by_role("link", name="Retry 60"))
        hand.page.get_by_label("Reason").fill("The server is back")
        hand.button("Start: Retry")
        expect(hand.page.locator("#live")).to_be_visible()
    assert BulkRun.objects.get().at_most == 60


def test_job_is_found_by_what_is_in_its_payload(at_most: AtMost) -> None:
    job_type("mail")
    jobs(2)
    [number] = jobs(context={"order": {"city": "Berlin"}})
    with at_most(2, "configurer") as hand:
        hand.menu("Jobs")
        hand.click(hand.page.locator("#searchbar"))
        hand.page.keyboard.type("context.order.city:Berlin")
        hand.page.keyboard.press("Enter")
        rows = hand.page.locator("#result_list tbody tr")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text(str(number))


def test_worker_is_made_quiet_before_its_machine_is_restarted(
    at_most: AtMost,
) -> None:
    factories.worker("host-a:1")
    with at_most(2) as hand:
        hand.menu("Workers")
        hand.click(hand.page.locator("#result_list").get_by_role("button", name="Quiet"))
        expect(hand.page.get_by_text("1 worker made quiet.")).to_be_visible()
    assert Worker.objects.get().is_quiet


def test_job_of_every_night_is_planned(at_most: AtMost) -> None:
    job_type("mail")
    with at_most(4) as hand:
        hand.menu("Schedules")
        hand.click(hand.page.get_by_role("link", name="Add"))
        hand.page.get_by_label("Title").fill("Night report")
        hand.page.get_by_label("Every", exact=True).select_option("every_days")
        hand.page.locator("#id_every_days").fill("1")
        hand.page.locator("#id_at").fill("23:30")
        hand.button("Save")
        expect(hand.page.get_by_text("was added successfully")).to_be_visible()
    assert Schedule.objects.get().rule == {"every_days": 1, "at": "23:30"}


def test_people_are_called_when_work_stops(at_most: AtMost) -> None:
    channel("ops")
    with at_most(6, "configurer") as hand:
        hand.menu("System")
        hand.click(hand.page.locator("#content").get_by_role("link", name="Alert rules"))
        hand.click(hand.page.get_by_role("link", name="Add"))
        hand.page.get_by_label("Name").fill("Mail waits")
        hand.choose(hand.page.get_by_label("Kind"), "oldest_due")
        hand.click(hand.page.get_by_label("ops"))
        hand.button("Save")
        expect(hand.page.get_by_text("was added successfully")).to_be_visible()
    assert AlertRule.objects.get().channels.count() == 1


def test_colleague_gets_an_account_for_one_job_type(at_most: AtMost) -> None:
    for name in ("mail", "web"):
        job_type(name)
    with at_most(5, "superuser") as hand:
        hand.menu("System")
        hand.link("Add account")
        hand.page.get_by_label("Username").fill("ann")
        hand.click(hand.page.get_by_label("Operator"))
        hand.click(hand.page.get_by_label("mail", exact=True))
        hand.button("Save")
        expect(hand.page.get_by_text("Password of ann").first).to_be_visible()
    colleague = User.objects.get(username="ann")
    assert [each.name for each in colleague.groups.all()] == ["operator"]
    assert [each.type for each in JobScope.objects.filter(operator=colleague)] == ["mail"]


def test_reason_why_an_executor_gets_nothing_is_read(at_most: AtMost) -> None:
    ann = factories.user("uid_ann")
    factories.once_task(ann, "Shelf check")
    take_next(ann)
    with at_most(3) as hand:
        hand.menu("People")
        hand.link("uid_ann")
        hand.link("Why nothing?")
        said = hand.page.get_by_role("status")
        expect(said).to_contain_text("uid_ann: has Shelf check in hand until")
