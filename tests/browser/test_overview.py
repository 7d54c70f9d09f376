"""The home page as it stays open on a screen: it follows by itself, and only while it is seen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.urls import reverse
from playwright.sync_api import Page, Request, expect

from apps.dispatch.services import pull
from apps.jobs.models import Job, JobType
from apps.journal.models import JournalEntry
from apps.reports.services import standing
from apps.reports.services.coverage import Stored
from tests import factories
from tests.browser.conftest import Watch
from tests.frozen import FrozenClock
from tests.home_scenes import add_up, two_hours
from tests.jobs import end, job_type, jobs, take

pytestmark = pytest.mark.django_db(transaction=True)

# Of titles and figures: how many lines they take.
LINES = """tiles => tiles.flatMap(tile => [...tile.querySelectorAll("span:first-child, strong")])
  .map(part => Math.round(part.offsetHeight / parseFloat(getComputedStyle(part).lineHeight)))"""


def set_hidden(page: Page, hidden: bool) -> None:
    """As the browser does when another tab comes to the front."""
    page.evaluate(
        """hidden => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def asked_by(page: Page) -> list[str]:
    """The addresses of the refreshes that the page will have asked for."""
    found: list[str] = []

    def note(request: Request) -> None:
        if "/admin/overview/" in request.url:
            found.append(request.url)

    page.on("request", note)
    return found


def test_figures_follow_by_themselves_and_leave_the_reader_alone(
    browser_page: Page, frozen_clock: FrozenClock
) -> None:
    two_hours(frozen_clock)
    page = browser_page
    asked = asked_by(page)
    page.set_viewport_size({"width": 1280, "height": 600})
    page.goto("/admin/")
    ready = page.locator("#overview-tile-jobs-ready strong")
    waiting = int(ready.inner_text())
    assert waiting == ready_jobs()
    ended = page.locator("#overview-tile-job-ended strong")
    before = int(ended.inner_text())
    page.locator("#overview-sweeps summary").click()
    link = page.locator("#overview-type-mail th a")
    link.focus()
    page.evaluate("scrollTo(0, 180)")
    top = page.evaluate("scrollY")

    jobs(3)
    page.evaluate("document.marked = true")
    expect(ready).to_have_text(str(waiting + 3))

    # What the trends were, the page has, and asks for no more until another minute is over.
    assert all("known=" in url for url in asked)
    for held in take(2):
        end(held)
    frozen_clock.advance(minutes=1, seconds=11)
    add_up()
    JobType.objects.filter(name="sms").update(paused=True, pause_reason="A new provider")
    expect(ended).to_have_text(str(before + 2 - fell_out()))
    expect(ready).to_have_text(str(ready_jobs()))
    paused = page.locator("#overview-notice-paused")
    expect(paused).to_contain_text("A new provider")
    assert page.evaluate("document.marked"), "the page was loaded anew"
    expect(link).to_be_focused()
    assert page.evaluate("scrollY") - top == pytest.approx(0, abs=200)
    expect(page.locator("#overview-sweeps")).to_have_attribute("open", "")


def ready_jobs() -> int:
    return Job.objects.filter(status="ready").count()


def fell_out() -> int:
    """How many ended in the minutes that have just left the last hour."""
    until = Stored.read().closed_until
    assert until is not None
    left = JournalEntry.objects.filter(
        source="job",
        to_state__in=("succeeded", "failed"),
        at__lt=until - timedelta(hours=1),
        at__gte=until - timedelta(hours=1, minutes=1),
    )
    return left.count()


def test_hand_out_shows_within_five_seconds(
    browser_page: Page, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though everybody shares what was read up to two seconds ago."""
    two_hours(frozen_clock)
    monkeypatch.setattr(standing.sheets, "seconds", 2.0)
    page = browser_page
    page.goto("/admin/")
    handed_out = page.locator("#overview-tile-dispatch-in")
    before = handed_out.inner_text()
    opened = page.locator("#overview-tile-dispatches-open strong")
    expect(opened).to_have_text("0")
    factories.once_task(factories.member("uid_ann"), priority=9)
    pull.answer_pull("uid_ann")
    expect(opened).to_have_text("1", timeout=5_000)
    assert handed_out.inner_text() != before


def test_number_of_a_tile_is_that_of_the_rows_in_its_list(
    browser_page: Page, frozen_clock: FrozenClock
) -> None:
    job_type()
    group, hour = factories.group("gid_a", ["uid_ann"]), timedelta(hours=1)
    now = frozen_clock.instant
    factories.once_task(group, "Taken", lease_seconds=3600, priority=9, end_at=now + 5 * hour)
    factories.once_task(group, "Ends", end_at=now + 3 * hour)
    factories.once_task(group, "Ends tomorrow", end_at=now + 20 * hour)
    factories.once_task(group, "Nobody took it", start_at=now - 30 * hour)
    pull.answer_pull("uid_ann")
    frozen_clock.advance(minutes=31)
    page = browser_page
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("/admin/")
    # The clock of a test is years away from that of the database.
    tiles = page.locator(".overview .figure:not(#overview-tile-clock)")
    assert len({round(tile.bounding_box()["width"]) for tile in tiles.all()}) == 1  # type: ignore[index]
    assert {*tiles.evaluate_all(LINES)} == {1}
    numbers = {"tasks-unfilled": 2, "tasks-ending": 2, "tasks-overdue": 1, "executors-silent": 1}
    for key, number in numbers.items():
        page.goto("/admin/")
        tile = page.locator(f"#overview-tile-{key}")
        expect(tile.locator("strong")).to_have_text(str(number))
        tile.click()
        expect(page.locator("#result_list .data-row")).to_have_count(number)


def test_figures_of_sweeps_lead_to_each_of_them(
    browser_page: Page, frozen_clock: FrozenClock
) -> None:
    two_hours(frozen_clock)
    page = browser_page
    for key in ("late-sweeps", "beat"):
        page.goto("/admin/")
        table = page.locator("#overview-sweeps table")
        expect(table).to_be_hidden()
        page.locator(f"#overview-tile-{key}").click()
        expect(table).to_be_in_viewport()


def test_nothing_is_asked_while_nobody_looks(
    page_as: Callable[..., Page], frozen_clock: FrozenClock
) -> None:
    job_type()
    page = page_as("superuser", own=True)
    asked = asked_by(page)
    page.clock.install(time=0)
    # The period must not be over before the page is hidden.
    page.clock.pause_at(1)
    page.goto("/admin/")
    ready = page.locator("#overview-tile-jobs-ready strong")
    set_hidden(page, True)
    jobs(2)
    page.clock.run_for(60_000)
    # First, as a page whose time stands still could not be left.
    page.clock.resume()
    assert asked == []

    set_hidden(page, False)
    expect(ready).to_have_text("2")

    page.get_by_role("button", name="Pause").click()
    before = len(asked)
    page.clock.run_for(60_000)
    assert len(asked) == before
    jobs(2)
    page.get_by_role("button", name="Pause").click()
    expect(ready).to_have_text("4")


def test_pages_that_renew_themselves_say_when_they_cannot(
    page_as: Callable[..., Page], watch: Watch, subtests: pytest.Subtests
) -> None:
    job_type()
    [number] = jobs(1)
    page = page_as("superuser", own=True)
    page.clock.install()
    watch.allow("ERR_INTERNET_DISCONNECTED|Failed to load resource")
    cookies = page.context.cookies()
    for name, *args in (["index"], ["jobs_worker_changelist"], ["jobs_job_change", number]):
        with subtests.test(page=name):
            page.context.add_cookies(cookies)  # type: ignore[arg-type]
            page.goto(reverse(f"admin:{name}", args=args))
            stale = page.locator(".stale")
            expect(stale).to_have_text("")
            page.context.set_offline(True)
            page.clock.run_for(5_000)
            expect(stale).to_have_text("Cannot refresh this now; trying again.")

            page.context.set_offline(False)
            page.clock.run_for(5_000)
            expect(stale).to_have_text("")

            page.context.clear_cookies()
            page.clock.run_for(5_000)
            expect(stale).to_have_text("You are signed out; load the page again.")
