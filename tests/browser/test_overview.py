"""The home page as it stays open on a screen: it follows by itself, and only while it is seen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.urls import reverse
from playwright.sync_api import Page, Request, expect

from apps.access.services import create_client
from apps.dispatch.services import pull
from apps.jobs.models import Job, JobType
from apps.reports.services import fact_sheet
from tests import factories
from tests.browser.conftest import Watch
from tests.frozen import FrozenClock
from tests.home_scenes import MEMBERS, add_up, two_hours
from tests.jobs import end, job_type, jobs, take

pytestmark = pytest.mark.django_db(transaction=True)


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
    ready = page.locator("#home-waiting strong")
    waiting = int(ready.inner_text())
    assert waiting == ready_jobs()
    chart = page.locator("#overview-trends")
    known = chart.get_attribute("data-known")
    link = page.locator("#home-type-mail th a")
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
    expect(chart).not_to_have_attribute("data-known", known or "")
    expect(ready).to_have_text(str(ready_jobs()))
    paused = page.locator(".trouble[data-kind=paused]")
    expect(paused).to_contain_text("A new provider")
    assert page.evaluate("document.marked"), "the page was loaded anew"
    expect(link).to_be_focused()
    assert page.evaluate("scrollY") - top == pytest.approx(0, abs=200)


def ready_jobs() -> int:
    return Job.objects.filter(status="ready").count()


def test_hand_out_shows_within_five_seconds(
    browser_page: Page, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though everybody shares what was read up to two seconds ago."""
    two_hours(frozen_clock)
    monkeypatch.setattr(fact_sheet.sheets, "seconds", 2.0)
    page = browser_page
    page.goto("/admin/")
    opened = page.locator("#home-open strong")
    expect(opened).to_have_text("0")
    factories.once_task(factories.member("uid_ann"), priority=9)
    pull.answer_pull("uid_ann")
    expect(opened).to_have_text("1", timeout=5_000)


def test_five_troubles_and_all_else_fit_one_screen(
    browser_page: Page, frozen_clock: FrozenClock
) -> None:
    two_hours(frozen_clock)
    create_client(name="Phone", scopes=["pull"], actor="ann")
    for name in ("a", "b", "c"):
        job_type(name, paused=True, pause_reason="A new provider")
    for name in MEMBERS:
        end_at = frozen_clock.instant + timedelta(hours=9)
        factories.once_task(factories.member(name), "Shelf photos", end_at=end_at)
    page = browser_page
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("/admin/")
    assert page.locator(".trouble").count() >= 5
    beyond = page.locator(".trouble").count() - 5
    figures = page.locator(".home-figure")
    assert figures.count() == 6
    assert len({round(each.bounding_box()["width"]) for each in figures.all()}) == 1  # type: ignore[index]
    bottom = page.locator("#overview-tables").evaluate("e => e.getBoundingClientRect().bottom")
    assert bottom - 45 * beyond <= 925


def test_row_is_seen_and_snoozed_from_its_menu_which_nothing_moves(
    page_as: Callable[..., Page], frozen_clock: FrozenClock
) -> None:
    job_type(paused=True, pause_reason="A new provider")
    page = page_as("superuser", own=True)
    asked = asked_by(page)
    page.clock.install()
    page.goto("/admin/")
    row = page.locator(".trouble[data-kind=paused]")
    row.locator("summary").click()
    page.clock.run_for(20_000)
    assert asked == []
    row.get_by_role("button", name="Seen by me").click()
    expect(row).to_contain_text("seen by")
    row.locator("summary").click()
    row.get_by_role("button", name="Snooze 1 h").click()
    expect(page.locator("#home-strip-head")).to_contain_text("1 snoozed until")
    expect(row).to_have_count(0)


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
    ready = page.locator("#home-waiting strong")
    set_hidden(page, True)
    jobs(2)
    page.clock.run_for(60_000)
    # First, as a page whose time stands still could not be left.
    page.clock.resume()
    assert asked == []

    set_hidden(page, False)
    expect(ready).to_have_text("2")

    page.get_by_role("button", name="Pause the refresh").click()
    before = len(asked)
    page.clock.run_for(60_000)
    assert len(asked) == before
    jobs(2)
    page.get_by_role("button", name="Pause the refresh").click()
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


def test_figures_stand_on_one_line_in_chinese(
    browser_page: Page, frozen_clock: FrozenClock
) -> None:
    two_hours(frozen_clock)
    page = browser_page
    page.set_extra_http_headers({"Accept-Language": "zh-hans"})
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("/admin/")
    wait = page.locator("#home-wait strong")
    height = wait.evaluate("cell => { cell.textContent = '1 秒'; return cell.offsetHeight; }")
    whole = wait.evaluate(
        "cell => { cell.textContent = '23 小时 59 分钟';"
        " return [cell.offsetHeight, cell.scrollWidth <= cell.clientWidth]; }"
    )
    assert whole == [height, True]
