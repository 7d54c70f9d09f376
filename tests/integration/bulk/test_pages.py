"""The page before a bulk run writes nothing, and the page of a run shows how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.bulk.models import BulkRun
from apps.bulk.services import plan as planning
from apps.bulk.services import steps
from apps.bulk.services.runs import is_stalled
from apps.common import clock
from apps.jobs.models import Job, JobScope
from apps.jobs.rules import transitions as t
from tests.frozen import FrozenClock
from tests.integration.bulk.conftest import carry_out
from tests.jobs import job_type, jobs
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db
NEW = "/admin/bulk/new/jobs/{}/"
LIST = "/admin/jobs/job/"
Start = Callable[..., BulkRun]


@pytest.fixture(autouse=True)
def mail(db: None) -> None:
    job_type("mail")
    job_type("web")


@pytest.fixture
def page(role_client: Callable[[str], Client]) -> Client:
    return role_client("operator")


def run_page(run: BulkRun) -> str:
    return f"/admin/bulk/bulkrun/{run.pk}/change/"


# --- the way there --------------------------------------------------------------------------------
def test_list_leads_to_the_plan_of_what_it_shows(page: Client) -> None:
    jobs(2)
    jobs(3, "web")
    listed = page.get(LIST, {"type": "web", "before": "9" * 18, "p": "2"})
    links = {str(words): url for words, url in listed.context["bulk_links"]}
    assert links["Cancel"] == NEW.format("cancel") + "?type=web"
    assert "Mark done" not in links
    assert "3 rows match" in text_of(page.get(links["Cancel"]))


def test_viewer_is_offered_nothing_and_may_not_ask(role_client: Callable[[str], Client]) -> None:
    jobs(1)
    viewer = role_client("viewer")
    assert viewer.get(LIST).context["bulk_links"] == []
    assert viewer.get(NEW.format("cancel")).status_code == 403


def test_operator_may_not_mark_done(page: Client) -> None:
    assert page.get(NEW.format("mark_done")).status_code == 403


@pytest.mark.parametrize("url", ["/admin/bulk/new/jobs/explode/", "/admin/bulk/new/cows/cancel/"])
def test_unknown_actions_do_not_exist(page: Client, url: str) -> None:
    assert page.get(url).status_code == 404


# --- the plan -------------------------------------------------------------------------------------
def test_plan_counts_what_changes_and_what_is_left_out(page: Client) -> None:
    jobs(12)
    jobs(3, status=t.RUNNING)
    jobs(2, status=t.CANCELLED)
    jobs(1, status=t.SUCCEEDED)
    text = text_of(page.get(NEW.format("cancel"), {"type": "mail"}))
    for part in (
        "Type: mail",
        "18 rows match",
        "15 will change",
        "3: running: asked to stop",
        "3 left out: 2 cancelled, 1 succeeded",
        "Nothing is changed yet.",
    ):
        assert part in text


def test_plan_shows_the_newest_and_the_oldest(page: Client) -> None:
    numbers = jobs(30)
    samples = page.get(NEW.format("priority"), {"type": "mail", "set-priority": "40"}).context[
        "samples"
    ]
    assert [int(each["number"]) for each in samples] == [*numbers[:19:-1], *numbers[9::-1]]
    assert {each["change"] for each in samples} == {"priority 0 → 40"}


def test_plan_writes_nothing(page: Client) -> None:
    jobs(3)
    page.get(LIST)
    with CaptureQueriesContext(
        connection,
    ) as seen:
        page.get(NEW.format("cancel"), {"type": "mail"})
    written = [q["sql"] for q in seen if q["sql"].startswith(("INSERT", "UPDATE", "DELETE"))]
    assert written == []
    assert Job.objects.filter(type="bulk").count() == 0


def test_plan_of_rare_rows_says_how_far_it_looked(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (steps, planning):
        monkeypatch.setattr(module, "LOOKED", 4)
    jobs(30, user_id="uid_ann")
    answer = page.get(NEW.format("cancel"), {"user": "uid_ann"})
    assert "20 rows match among the newest 20" in text_of(answer)
    assert "however_many" in answer.context["form"].fields
    assert not answer.context["form"].initial.get("at_most")


def test_filter_that_is_wrong_leads_back_to_the_list(page: Client) -> None:
    answer = page.get(NEW.format("cancel"), {"status": "gone"}, follow=True)
    assert answer.redirect_chain[0][0] == LIST
    assert "gone is none of the choices." in text_of(answer)


def test_limited_person_sees_only_counts_within_the_limits(
    page: Client, role_user: Callable[[str], User]
) -> None:
    jobs(4)
    jobs(2, "web")
    JobScope.objects.create(operator=role_user("operator"), type="web")
    text = text_of(page.get(NEW.format("cancel"), {"status": "ready"}))
    assert "2 rows match" in text
    assert "mail" not in text


def test_action_with_fields_asks_for_them_first(page: Client) -> None:
    jobs(1)
    answer = page.get(NEW.format("priority"), {"type": "mail"})
    assert answer.context["form"] is None
    wrong = page.get(NEW.format("priority"), {"type": "mail", "set-priority": "101"})
    assert wrong.context["form"] is None
    assert "101 is no priority" in text_of(wrong)


def test_time_that_only_some_zones_have_is_refused(page: Client) -> None:
    jobs(1)
    page.post("/admin/settings/", {"time_zone": "Asia/Shanghai"})
    asked = {"type": "mail", "set-run_at_0": "9999-12-31", "set-run_at_1": "23:59"}
    assert "more than 36525 days ahead" in text_of(page.get(NEW.format("time"), asked))


@pytest.mark.parametrize("asked", [{"set-host": ""}, {"set-host": "vm", "set-any_host": "on"}])
def test_move_needs_a_host_or_the_tick_for_any(page: Client, asked: dict[str, str]) -> None:
    jobs(1)
    answer = page.get(NEW.format("move"), {"type": "mail", **asked})
    assert answer.context["form"] is None
    assert "Name a host, or tick any host; not both." in text_of(answer)


@pytest.mark.parametrize(
    ("written", "seconds", "shown"),
    [("+2h", 7200, "+2h"), ("-30m", -1800, "-30m"), ("-3600", -3600, "-1h")],
)
def test_shift_is_written_as_for_one_row(
    page: Client, written: str, seconds: int, shown: str
) -> None:
    job_type("mail")
    Job.objects.filter(pk__in=jobs(2)).update(status=t.SCHEDULED)
    asked = {"type": "mail", "set-shift_seconds": written}
    planned = page.get(NEW.format("time"), asked)
    assert planned.context["params_form"]["shift_seconds"].value() == shown
    assert page.post(
        f"{NEW.format('time')}?{urlencode(asked)}",
        {**form_of(planned, "once"), "reason": "later"},
    ).url
    run = BulkRun.objects.get()
    assert run.params == {"shift_seconds": seconds}
    assert f": {shown} " in text_of(page.get(run_page(run)))


@pytest.mark.parametrize("written", ["soon", "0", "+-5", "9" * 12])
def test_what_is_no_shift_is_refused(page: Client, written: str) -> None:
    jobs(1)
    answer = page.get(NEW.format("time"), {"type": "mail", "set-shift_seconds": written})
    assert answer.context["form"] is None
    assert "shift" in str(answer.context["params_form"].errors["shift_seconds"])


def test_priority_0_is_one_that_can_be_chosen(page: Client) -> None:
    jobs(2, priority=5)
    answer = page.get(NEW.format("priority"), {"type": "mail", "set-priority": "0"})
    assert {each["change"] for each in answer.context["samples"]} == {"priority 5 → 0"}


# --- the start ------------------------------------------------------------------------------------
def started(page: Client, url: str, asked: dict[str, str], **given: Any) -> Any:
    form = form_of(page.get(url, asked), "once")
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    return page.post(f"{url}?{query}", {**form, "reason": "wrong address", **given})


def test_start_makes_the_run_that_was_shown(page: Client) -> None:
    numbers = jobs(5)
    jobs(2, "web")
    answer = started(
        page, NEW.format("priority"), {"type": "mail", "set-priority": "40"}, rate="1000"
    )
    run = BulkRun.objects.get()
    assert answer.url == run_page(run)
    assert (run.verb, run.params, run.filter) == (
        "priority",
        {"priority": 40},
        {"type": ["mail"]},
    )
    assert (run.at_most, run.rate, run.reason, run.actor) == (
        5,
        1000,
        "wrong address",
        "admin:operator",
    )
    carry_out(run)
    assert set(Job.objects.filter(priority=40).values_list("pk", flat=True)) == {*numbers}


def test_form_sent_twice_starts_one_run(page: Client) -> None:
    jobs(5)
    url = NEW.format("cancel") + "?type=mail"
    form = {**form_of(page.get(url), "once"), "reason": "twice"}
    assert page.post(url, form).url == page.post(url, form).url
    assert BulkRun.objects.count() == 1


def test_each_form_of_a_person_with_a_long_name_starts_its_own_run(
    page: Client, operator: User
) -> None:
    operator.username = "o" * 150
    operator.save()
    jobs(5)
    for _form in range(2):
        started(page, NEW.format("cancel"), {"type": "mail"})
    assert BulkRun.objects.count() == 2


@pytest.mark.parametrize(
    ("asked", "given", "said"),
    [
        ({"type": "mail"}, {"reason": " "}, "This field is required."),
        ({"type": "mail"}, {"at_most": ""}, "Write a number."),
        ({"type": "mail"}, {"at_most": "0"}, "Write 1 or more."),
        ({"type": "mail"}, {"rate": "1001"}, "less than or equal to 1000"),
        ({}, {}, "Tick it if you mean every row"),
    ],
)
def test_what_is_missing_is_said_beside_its_field(
    page: Client, asked: dict[str, str], given: dict[str, str], said: str
) -> None:
    jobs(2)
    answer = started(page, NEW.format("cancel"), asked, **given)
    assert answer.status_code == 400
    assert said in text_of(answer)
    assert not BulkRun.objects.exists()


def test_form_refuses_fewer_rows_than_are_known_to_match(page: Client) -> None:
    jobs(5)
    answer = started(page, NEW.format("cancel"), {"type": "mail"}, at_most="4")
    assert answer.status_code == 400
    assert answer.context["form"].errors["at_most"] == [
        "5 rows match. Write 5 or more, or narrow the filter."
    ]
    assert not BulkRun.objects.exists()


def test_form_sent_again_when_more_rows_match_leads_to_its_run(page: Client) -> None:
    jobs(5)
    url = NEW.format("cancel") + "?type=mail"
    form = {**form_of(page.get(url), "once"), "reason": "twice"}
    first = page.post(url, form).url
    jobs(3)
    assert page.post(url, form).url == first


def test_plan_that_changes_nothing_offers_no_start(page: Client) -> None:
    jobs(3, status=t.CANCELLED)
    answer = page.get(NEW.format("cancel"), {"type": "mail"})
    assert answer.context["form"] is None
    assert "0 will change" in text_of(answer)
    assert "So there is nothing to start." in text_of(answer)


def test_every_row_needs_a_tick(page: Client) -> None:
    jobs(2)
    answer = started(page, NEW.format("cancel"), {}, every="on")
    assert answer.status_code == 302
    assert BulkRun.objects.get().filter == {}


# --- the page of a run ----------------------------------------------------------------------------
def test_page_shows_counts_rows_and_the_way_back(page: Client, start: Start) -> None:
    done, left = jobs(3), jobs(1, status=t.SUCCEEDED)
    run = start("cancel", {"type": "mail"})
    assert "data-live-url" in page.get(run_page(run)).content.decode()
    carry_out(run)
    answer = page.get(run_page(run))
    text = text_of(answer)
    for part in ("Done", "Skipped 1", "succeeded", str(left[0]), "wrong address", "Take back"):
        assert part in text
    assert "data-final" in answer.content.decode()
    # What it did to which rows, as in the list and on the plan.
    assert f"Jobs · Cancel · {run.pk}" in text
    assert "Jobs · Cancel" in text_of(page.get("/admin/bulk/bulkrun/"))
    assert "Jobs · Cancel" in text_of(page.get(NEW.format("cancel"), {"type": "mail"}))
    # A key keeps its kind.
    assert "By operator" in text
    BulkRun.objects.update(actor="key:tills")
    assert "By key:tills" in text_of(page.get(run_page(run)))
    assert str(done[0]) in text_of(page.get(run_page(run), {"outcome": "done"}))
    back = next(b.url for b in answer.context["object_buttons"] if "Take back" in str(b.text))
    assert "3 rows match" in text_of(page.get(back))


def test_way_back_leads_to_all_rows_that_were_changed_and_from_there_to_the_run(
    page: Client, start: Start
) -> None:
    jobs(1_200)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    jobs(3, status=t.CANCELLED)
    [back] = [b for b in page.get(run_page(run)).context["object_buttons"] if "Take" in str(b.text)]
    planned = page.get(back.url)
    text = text_of(planned)
    for part in (f"Changed by bulk run: {run.pk}", "1,200 rows match", "1,200 will change"):
        assert part in text
    assert planned.context["back"] == run_page(run)
    # It is no run over all rows, so nobody has to tick that.
    assert "every" not in planned.context["form"].fields
    answer = page.post(back.url, {**form_of(planned, "once"), "reason": "it was right"})
    assert answer.status_code == 302
    made = BulkRun.objects.latest("pk")
    assert (made.verb, made.filter, made.at_most) == ("retry", {"run": str(run.pk)}, 1_200)
    assert f"Changed by bulk run: {run.pk}" in text_of(page.get(run_page(made)))


def test_plan_of_a_way_back_says_that_what_has_ended_stays(page: Client, start: Start) -> None:
    jobs(2, status=t.FAILED)
    run = start("retry", {"type": "mail"})
    carry_out(run)
    [back] = [b for b in page.get(run_page(run)).context["object_buttons"] if "Take" in str(b.text)]
    said = "What has ended since cannot be taken back."
    assert said not in text_of(page.get(back.url))
    Job.objects.filter(type="mail").update(status=t.FAILED)
    assert said in text_of(page.get(back.url))


def test_viewer_is_offered_no_way_back(role_client: Callable[[str], Client], start: Start) -> None:
    jobs(1)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    answer = role_client("viewer").get(run_page(run))
    assert answer.status_code == 200
    assert list(answer.context["object_buttons"]) == []


def test_run_of_another_kind_or_of_others_is_no_way_back(
    page: Client, start: Start, role_user: Callable[[str], User]
) -> None:
    jobs(2)
    other = start("cancel", {"type": "mail"}, actor="admin:olga")
    tasks = start("pause", {}, kind="once-tasks")
    JobScope.objects.create(operator=role_user("operator"), type="mail")
    for number in (other.pk, tasks.pk, 999):
        answer = page.get(NEW.format("retry"), {"run": str(number)}, follow=True)
        assert answer.redirect_chain[0][0] == LIST
        assert f"There is no bulk run {number} over such rows." in text_of(answer)


def test_time_left_follows_the_speed(page: Client, start: Start, frozen_clock: FrozenClock) -> None:
    jobs(300)
    run = start("cancel", {"type": "mail"}, rate=100)
    live = f"/admin/bulk/bulkrun/{run.pk}/live/"
    BulkRun.objects.filter(pk=run.pk).update(state="acting", collected=300, below=None)
    # Before the first round by its rate.
    assert "0 % 3.0 s left" in text_of(page.get(live))
    began = clock.now()
    BulkRun.objects.filter(pk=run.pk).update(done=100, paced_at=began, paced_from=50)
    frozen_clock.advance(seconds=10)
    assert "5 rows per second 40.0 s left" in text_of(page.get(live))


def test_live_part_comes_alone(page: Client, start: Start) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    part = page.get(f"/admin/bulk/bulkrun/{run.pk}/live/").content.decode()
    assert part.lstrip().startswith('<div id="live"')
    assert "data-final" not in part


def test_stop_and_continue_are_on_the_page(page: Client, start: Start) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    act = "/admin/bulk/bulkrun/act/{}/"
    page.post(act.format("stop_run"), {"ids": run.pk, "reason": "too many"})
    assert BulkRun.objects.get().state == BulkRun.State.STOPPED
    assert Job.objects.get(pk=run.job).status == t.CANCELLED
    page.post(act.format("continue_run"), {"ids": run.pk, "reason": "go on"})
    carry_out(run)
    assert BulkRun.objects.get().state == BulkRun.State.DONE


def test_run_whose_job_was_cancelled_can_be_continued(page: Client, start: Start) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    Job.objects.filter(pk=run.job).update(status=t.CANCELLED)
    answer = page.get(run_page(run))
    assert "Stopped" in text_of(answer)
    assert "Continue" in [str(each.text) for each in answer.context["object_buttons"]]


def test_rows_of_a_run_that_failed_are_not_waiting(page: Client, start: Start) -> None:
    jobs(4)
    run = start("cancel", {"type": "mail"}, at_most=3)
    carry_out(run)
    text = text_of(page.get(run_page(run)))
    assert "Not changed 4" in text
    assert "Waiting" not in text


def test_run_that_ends_while_its_page_is_made_is_not_stopped(page: Client, start: Start) -> None:
    jobs(4)
    run = start("cancel", {"type": "mail"}, at_most=3)
    read = BulkRun.objects.get(pk=run.pk)
    carry_out(run)
    Job.objects.filter(pk=run.job).update(status=t.SUCCEEDED)
    assert not is_stalled(read)
    assert read.state == BulkRun.State.FAILED


def test_csv_has_a_line_for_each_row(page: Client, start: Start) -> None:
    [ready], [done] = jobs(1), jobs(1, status=t.SUCCEEDED)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    answer: Any = page.get(f"/admin/bulk/bulkrun/{run.pk}/csv/")
    lines = b"".join(answer.streaming_content).decode("utf-8-sig").splitlines()
    assert lines == ["number,outcome,why", f"{done},skipped,succeeded", f"{ready},done,"]


def test_limited_person_sees_only_own_runs(
    page: Client, start: Start, role_user: Callable[[str], User]
) -> None:
    mine = start("cancel", {"type": "web"})
    other = start("cancel", {"type": "mail"}, actor="admin:olga")
    assert page.get(run_page(other)).status_code == 200
    JobScope.objects.create(operator=role_user("operator"), type="web")
    assert page.get(run_page(mine)).status_code == 200
    assert page.get(run_page(other)).status_code == 404
    assert page.get(f"/admin/bulk/bulkrun/{other.pk}/csv/").status_code == 302


def test_reasons_are_told_in_the_language_of_the_page(page: Client, start: Start) -> None:
    jobs(1, status=t.SUCCEEDED)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    answer = page.get(run_page(run), headers={"Accept-Language": "zh-hans"})
    text = text_of(answer)
    assert "succeeded" not in text
    assert "成功" in text
