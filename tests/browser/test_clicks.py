"""What operators do every day, from the overview, with the clicks it takes.

Typing is not counted, choosing from a list is one click, and no move takes more than in the best
of the dashboards that people come from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from apps.access.models import ApiClient
from apps.alerts.models import AlertRule, Channel
from apps.bulk.models import BulkRun
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask
from apps.jobs.models import Job, JobScope, JobType, Worker
from apps.jobs.rules import transitions as t
from apps.jobs.services import control
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
        hand.click(hand.page.get_by_text("Act on all"))
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


def test_task_for_six_of_a_group_is_planned(at_most: AtMost) -> None:
    factories.group("gid_shops", [f"uid_{number}" for number in range(20)])
    with at_most(3) as hand:
        hand.click(hand.page.get_by_role("link", name="Add task"))
        hand.page.get_by_label("Title").fill("Count the exits")
        hand.page.locator("#id_executor").fill("gid_shops")
        hand.choose(hand.page.get_by_label("Mode"), "multi")
        hand.page.get_by_label("Quota").fill("6")
        hand.button("Save")
        expect(hand.page.get_by_text("was added successfully")).to_be_visible()
    assert OnceTask.objects.get().dispatch_times == 6


def test_task_of_every_monday_is_planned(at_most: AtMost) -> None:
    factories.user("uid_ann")
    with at_most(5) as hand:
        hand.click(hand.page.get_by_role("link", name="Add task"))
        hand.page.get_by_label("Title").fill("Count the till")
        hand.page.locator("#id_executor").fill("uid_ann")
        hand.click(hand.page.get_by_label("Again and again"))
        hand.choose(hand.page.get_by_label("Every", exact=True), "week")
        hand.click(hand.page.get_by_label("Mon", exact=True))
        hand.button("Save")
        expect(hand.page.get_by_text("was added successfully")).to_be_visible()
    assert RotateTask.objects.get().rule == {"cron": "0 9 * * 1"}


def test_who_has_done_a_task_is_seen(at_most: AtMost) -> None:
    ann = factories.user("uid_ann")
    factories.once_task(ann, "Shelf check")
    take_next(ann)
    with at_most(2) as hand:
        hand.menu("Tasks")
        hand.link("Shelf check")
        expect(hand.page.locator(".handed-table")).to_contain_text("uid_ann")


def test_open_dispatch_is_given_to_somebody_else(at_most: AtMost) -> None:
    factories.group("gid_shops", ["uid_ann", "uid_bob"])
    factories.once_task(Executor.objects.get(name="gid_shops"), "Shelf check")
    take_next(Executor.objects.get(name="uid_ann"))
    with at_most(2) as hand:
        hand.page.goto(f"/admin/dispatch/dispatch/{Dispatch.objects.get().pk}/change/")
        hand.click(hand.page.get_by_role("link", name="Give to…"))
        row = hand.page.get_by_role("row").filter(has_text="uid_bob")
        hand.click(row.get_by_role("button"))
        expect(hand.page.locator("#content")).to_contain_text("uid_bob")
    assert Dispatch.objects.get(state="open").executor.name == "uid_bob"


def test_payload_of_a_job_is_edited(at_most: AtMost) -> None:
    job_type("mail")
    [number] = jobs()
    with at_most(4, "configurer") as hand:
        hand.menu("Jobs")
        hand.link(str(number))
        hand.click(hand.page.get_by_role("link", name="Edit"))
        hand.page.get_by_label("Context").fill('{"to": "ann"}')
        hand.page.get_by_label("Reason").fill("Wrong address")
        hand.button("Save")
        expect(hand.page.get_by_text("Wrong address")).to_be_visible()
    assert row(number).context == {"to": "ann"}


def test_type_is_paused_by_the_palette(at_most: AtMost) -> None:
    job_type("mail")
    with at_most(1) as hand:
        hand.page.keyboard.press("Control+k")
        hand.page.get_by_role("combobox").fill("pause mail")
        hand.page.get_by_role("option", name="Pause mail…", selected=True).wait_for()
        hand.page.keyboard.press("Enter")
        expect(hand.page.get_by_label("Reason")).to_be_focused()
        hand.page.keyboard.type("The server is down")
        hand.button("Pause")
        expect(hand.page.locator("#content")).to_contain_text("The server is down")
    assert JobType.objects.get().paused


def test_type_is_paused_in_the_list_of_types(at_most: AtMost) -> None:
    job_type("mail")
    with at_most(2) as hand:
        hand.page.goto("/admin/jobs/jobtype/")
        row = hand.page.locator("#result_list tr").filter(has_text="mail")
        hand.click(row.get_by_role("link", name="Pause…"))
        expect(hand.page.get_by_label("Reason")).to_be_focused()
        hand.page.keyboard.type("The server is down")
        hand.button("Pause")
        expect(row).to_contain_text("Paused")
    assert JobType.objects.get(name="mail").paused


def test_type_is_paused_from_home(at_most: AtMost) -> None:
    job_type("mail")
    with at_most(2) as hand:
        row = hand.page.locator("#home-type-mail")
        hand.click(row.get_by_role("link", name="Pause mail…"))
        expect(hand.page.get_by_label("Reason")).to_be_focused()
        hand.page.keyboard.type("The server is down")
        hand.button("Pause")
        expect(row).to_contain_text("paused")
        expect(row.get_by_role("link", name="Resume mail…")).to_be_visible()
    assert JobType.objects.get(name="mail").paused


def test_webhook_gets_the_alerts_of_all_rules(at_most: AtMost) -> None:
    with at_most(3, "configurer") as hand:
        hand.menu("System")
        hand.link("Add channel")
        hand.page.get_by_label("Name").fill("ops")
        hand.page.get_by_label("Address").fill("https://hooks.slack.com/x")
        expect(hand.page.get_by_label("Recipients")).to_be_hidden()
        hand.button("Save")
        expect(hand.page.get_by_text("was added successfully")).to_be_visible()
    assert Channel.objects.get().is_default


def test_figures_of_a_month_are_exported(at_most: AtMost) -> None:
    with at_most(3) as hand:
        hand.menu("Reports")
        hand.link("Last month")
        with hand.page.expect_download() as export:
            hand.link("Export")
        assert export.value.suggested_filename.endswith(".csv")


def test_program_gets_a_key_for_a_group(at_most: AtMost) -> None:
    factories.group("gid_shops", ["uid_ann"])
    with at_most(4, "configurer") as hand:
        hand.menu("System")
        hand.link("Add API key")
        hand.page.get_by_label("Name").fill("Shop app")
        hand.click(hand.page.get_by_label("pull: take dispatches and call back"))
        hand.page.get_by_label("People and groups").fill("gid_shops")
        hand.button("Save")
        expect(hand.page.get_by_text("Copy this key now").first).to_be_visible()
    assert ApiClient.objects.get().executors == ["gid_shops"]


def test_what_people_did_is_read_and_undone(at_most: AtMost) -> None:
    job_type("mail")
    for number in jobs(2):
        control.cancel(job=row(number), actor="admin:operator", reason="Twice")
    with at_most(4) as hand:
        hand.menu("Activity")
        hand.click(hand.page.get_by_role("link", name="By people"))
        line = hand.page.locator(".activity li").filter(has_text="operator cancelled jobs")
        expect(line).to_contain_text("“Twice”")
        hand.click(line.get_by_role("link", name="Undo…"))
        hand.button("Undo")
        expect(hand.page.get_by_text("Undone: 2 rows.")).to_be_visible()
    assert {row(job.pk).status for job in Job.objects.all()} == {t.READY}


def test_run_times_of_a_type_in_a_week_are_read(at_most: AtMost) -> None:
    job_type("mail")
    jobs()
    with at_most(2) as hand:
        hand.click(hand.page.locator("#content").get_by_role("link", name="mail", exact=True))
        hand.link("7 days")
        expect(hand.page.get_by_role("heading", name="7 days")).to_be_visible()


def test_jobs_that_ended_long_ago_are_seen(at_most: AtMost) -> None:
    with at_most(2) as hand:
        hand.menu("Jobs")
        hand.link("Older")
        expect(hand.page).to_have_url(re.compile("/archivedjob/"))
