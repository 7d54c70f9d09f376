"""What people look for on a page is to be seen before they scroll."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.urls import reverse
from playwright.sync_api import Page, ViewportSize, expect

from apps.common import clock
from apps.common.admin import list_head
from apps.common.leases import sweep_lease
from apps.dispatch.models import Executor
from apps.reports.rules.outcomes import JOB_ENDS
from apps.reports.services import rollup
from tests import callback, factories, trouble
from tests.browser.layout import await_drawn
from tests.frozen import FrozenClock
from tests.integration.reports.history import entry, write
from tests.job_scenes import fill_yard
from tests.jobs import end, job_type, jobs, take
from tests.pages import change_url

pytestmark = pytest.mark.django_db(transaction=True)

WIDE, PHONE = ViewportSize(width=1280, height=900), ViewportSize(width=390, height=844)
MINUTES = timedelta(minutes=30)


def test_error_and_attempts_of_a_failed_job_come_before_all_else(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock
) -> None:
    yard = fill_yard(frozen_clock, many=2)
    page = page_as("operator")
    page.set_viewport_size(WIDE)
    page.goto(reverse("admin:jobs_job_change", args=[yard.failed.pk]))
    await_drawn(page)
    place = page.locator("#last-error").bounding_box()
    assert place is not None and place["y"] < 400
    place = page.locator("table.attempts tbody tr").first.bounding_box()
    assert place is not None and place["y"] + place["height"] < WIDE["height"]
    picture = page.locator(".state-picture")
    expect(picture).to_be_hidden()
    page.locator(".way summary").click()
    expect(picture).to_be_visible()


def test_report_of_nothing_is_seen_at_a_glance(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock
) -> None:
    rollup.roll_up(until=frozen_clock() + timedelta(minutes=1))
    page = page_as("viewer")
    page.set_viewport_size(WIDE)
    page.goto(reverse("report") + "?source=dispatch&by=task")
    await_drawn(page)
    height = page.evaluate("document.documentElement.scrollHeight")
    assert height <= WIDE["height"]
    expect(page.get_by_text("Nothing ended in this period.")).to_be_in_viewport()


def test_report_with_figures_in_every_column_fits_without_moving_it_sideways(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock
) -> None:
    kinds = [kind for kind, outcome in JOB_ENDS.items() if outcome != "succeeded"]
    now = frozen_clock()
    name = "report.monthly.of-each-country"
    for kind in kinds:
        write(*(entry(now - timedelta(minutes=9), kind=kind, type_or_task=name) for _ in range(99)))
    rollup.roll_up(until=now + timedelta(minutes=1))
    page = page_as("viewer")
    page.set_viewport_size(WIDE)
    page.goto(reverse("report") + "?period=1h")
    await_drawn(page)
    for table in page.locator(".report-scroll:visible").all():
        needed, has = table.evaluate("box => [box.scrollWidth, box.clientWidth]")
        assert needed <= has


@pytest.mark.parametrize("name", ["dispatch_dispatch", "jobs_job"])
def test_states_and_tools_of_a_long_list_stand_in_one_line(
    page_as: Callable[[str | None], Page], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """However many rows there are, and narrowed to some of them, too."""
    monkeypatch.setattr(list_head, "capped", lambda _count: "1,000+")
    factories.once_task(factories.user("uid_ann"))
    callback.taken(factories.member("uid_ann"))
    # With a limit, so that there is a state more.
    job_type("mail", limit_by="key", limit_running=1)
    jobs(1)
    page = page_as("operator")
    page.set_viewport_size(WIDE)
    address = reverse(f"admin:{name}_changelist")
    for query in ("", "?type=mail" if name == "jobs_job" else "?executor=uid_ann"):
        page.goto(address + query)
        expect(page.get_by_text("Act on all")).to_be_visible()
        expect(page.get_by_title("Save this view…")).to_have_count(1 if query else 0)
        blocked = page.get_by_role("link", name="Blocked 1,000+")
        expect(blocked).to_have_count(int(name == "jobs_job"))
        assert page.locator(".list-bar").evaluate("bar => bar.clientHeight") < 45


def test_numbers_of_home_stand_below_their_heads_on_a_phone(
    page_as: Callable[[str | None], Page],
) -> None:
    group = factories.group("gid_all", ["uid_ann", "uid_bob"])
    factories.once_task(group, mode="multi", dispatch_times=2, end_at=clock.now() + MINUTES)
    page = page_as("viewer")
    page.set_viewport_size(PHONE)
    page.goto("/admin/")
    table = page.locator("#overview-tables table").last
    expect(table).to_contain_text("0 of 2")
    edges = table.evaluate(
        "t => [...t.rows].map(row => row.lastElementChild.getBoundingClientRect().right)"
    )
    assert max(edges) - min(edges) < 1


def test_home_with_five_troubles_is_seen_at_once(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock
) -> None:
    trouble.play_up_to(frozen_clock, frozen_clock.instant + trouble.LENGTH)
    factories.worker("host-a:1", types=[*trouble.TYPES], lanes=["fast", "slow"])
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        pass
    page = page_as("operator")
    page.set_viewport_size(WIDE)
    page.goto("/admin/")
    await_drawn(page)
    expect(page.locator(".trouble")).to_have_count(5)
    height = page.evaluate("document.documentElement.scrollHeight")
    assert height <= WIDE["height"]


def test_page_of_a_person_begins_with_what_they_have_and_why_not_more(
    page_as: Callable[[str | None], Page],
) -> None:
    factories.group("gid_all", ["uid_ann", "uid_bob"])
    factories.once_task(Executor.objects.get(name="uid_ann"), "Shelf check")
    callback.taken(Executor.objects.get(name="uid_ann"))
    page = page_as("operator")
    page.set_viewport_size(WIDE)
    page.goto(change_url(Executor.objects.get(name="uid_ann")))
    await_drawn(page)
    places = [
        place["y"]
        for shown in ("Open dispatch", "Why nothing?", "Title", "Latest dispatches")
        if (place := page.get_by_text(shown, exact=True).first.bounding_box())
    ]
    assert places == sorted(places) and len(places) == 4 and places[1] < 400
    history = page.get_by_text("Person or group added")
    expect(history).to_be_hidden()
    page.get_by_role("heading", name="History").click()
    expect(history).to_be_visible()


def test_page_of_a_task_shows_what_comes_and_folds_what_was(
    page_as: Callable[[str | None], Page], subtests: pytest.Subtests
) -> None:
    person = factories.user("uid_ann")
    page = page_as("operator")
    page.set_viewport_size(WIDE)
    for task in (factories.once_task(person), factories.rotation(person)):
        with subtests.test(task=type(task).__name__):
            page.goto(change_url(task))
            await_drawn(page)
            made = page.locator(".timeline-moment").first
            expect(made).to_be_hidden()
            page.get_by_role("heading", name="History").click()
            expect(made).to_be_visible()


def test_page_of_a_worker_is_seen_at_once(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock
) -> None:
    """However many types it works on; times are short and say the whole instant as a tooltip."""
    names = [f"type-{number}" for number in range(20)]
    for name in names:
        job_type(name)
    worker = factories.worker("host-a:1", types=names)
    page = page_as("operator")
    page.set_viewport_size(WIDE)
    page.goto(change_url(worker))
    await_drawn(page)
    assert page.evaluate("document.documentElement.scrollHeight") <= WIDE["height"]
    started = page.locator(".row-facts time").first
    expect(started).to_have_text("09:00:00")
    expect(started).to_have_attribute("title", "2026-03-02 09:00:00 UTC")
    expect(page.get_by_text("Times in UTC; without a date: today")).to_be_visible()


def test_failures_of_a_type_are_retried_on_a_phone(
    page_as: Callable[[str | None], Page], frozen_clock: FrozenClock
) -> None:
    made = job_type("mail", max_attempts=1)
    jobs(3)
    for held in take(3):
        end(held, "failed", error="HTTP 503 from mail.example", retry="never")
    frozen_clock.advance(minutes=3)
    rollup.roll_up(until=frozen_clock())
    page = page_as("operator")
    # The narrowest that pages are made for.
    page.set_viewport_size({"width": 320, "height": 640})
    page.goto(reverse("job_type_now", args=[made.pk]))
    retry = page.get_by_role("link", name="Retry 3")
    retry.scroll_into_view_if_needed()
    panel = page.locator(".type-panel").filter(has=retry)
    over = panel.evaluate("panel => panel.scrollWidth - panel.clientWidth")
    assert over == 0
