"""The page before a bulk run: what it would change, and its start."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
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
from apps.common import time_limit
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from tests.integration.bulk.conftest import carry_out, page_of
from tests.jobs import job_type, jobs
from tests.pages import form_of, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]
NEW = "/admin/bulk/new/jobs/{}/"
LIST = "/admin/jobs/job/"
Start = Callable[..., BulkRun]


# --- the way there --------------------------------------------------------------------------------
def test_list_leads_to_the_plan_of_what_it_shows(page: Client) -> None:
    jobs(2)
    jobs(3, "web")
    listed = page.get(LIST, {"type": "web", "before": "9" * 18, "p": "2"})
    links = {str(words): url for words, url in listed.context["bulk_links"]}
    assert links["Cancel"] == NEW.format("cancel") + "?type=web"
    assert "Mark done" not in links
    assert "3 rows match" in text_of(page.get(links["Cancel"]))


def test_unknown_actions_do_not_exist(page: Client) -> None:
    for url in ("/admin/bulk/new/jobs/explode/", "/admin/bulk/new/cows/cancel/"):
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
    spread = page.get(NEW.format("time"), {"type": "mail", "set-spread_seconds": "30m"})
    times = [each["change"][-12:-4] for each in spread.context["samples"]]
    minutes = [int(hour) * 60 + int(minute) for hour, minute, _ in (at.split(":") for at in times)]
    ahead = [(minute - minutes[-1]) % 1440 for minute in minutes]
    assert ahead == [*range(29, 19, -1), *range(9, -1, -1)]


def test_plan_writes_nothing(page: Client) -> None:
    jobs(3)
    page.get(LIST)
    with CaptureQueriesContext(connection) as seen:
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


@pytest.mark.both
def test_plan_of_rows_that_take_long_looks_at_fewer(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "MAX_SECONDS", 0.01)
    monkeypatch.setattr(time_limit, "MAX_SECONDS", 0.01)
    monkeypatch.setattr(time_limit, "FEWER", (200, 120))
    jobs(300, memo="a" * 2_000)
    answer = page.get(NEW.format("cancel"), {"q": "a" * 60 + "b" + "a" * 39})
    assert "0 rows match among the newest 120" in text_of(answer)


@pytest.mark.both
def test_plan_by_payloads_compares_as_many_as_there_is_time_for(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an index finds the rows: three conditions on 100,000 contexts took 10 s."""
    jobs(12, context={"city": "Bern"})
    wanted = {"type": "mail", "where": "context.city:Bern"}
    url = NEW.format("cancel")
    assert "12 rows match" in text_of(page.get(url, wanted))
    ticks = count(step=0.3)
    monkeypatch.setattr(planning, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    monkeypatch.setattr(planning, "FEWER", (5,))
    answer = page.get(url, wanted)
    assert "10 rows match among the newest 10" in text_of(answer)
    assert "however_many" in answer.context["form"].fields


def test_filter_that_is_wrong_leads_back_to_the_list(page: Client) -> None:
    answer = page.get(NEW.format("cancel"), {"status": "gone"}, follow=True)
    assert answer.redirect_chain[0][0] == LIST
    assert "gone is none of the choices: scheduled, blocked, ready," in text_of(answer)


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


def test_move_needs_a_host_or_the_tick_for_any(page: Client) -> None:
    jobs(1)
    for asked in ({"set-host": ""}, {"set-host": "vm", "set-any_host": "on"}):
        answer = page.get(NEW.format("move"), {"type": "mail", **asked})
        assert answer.context["form"] is None
        assert "Name a host, or tick any host; not both." in text_of(answer)
        assert "at most 1 will change" in text_of(answer)


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
        f"{NEW.format('time')}?{urlencode(asked)}", {**form_of(planned, "once"), "reason": "later"}
    ).url
    run = BulkRun.objects.get()
    assert run.params == {"shift_seconds": seconds}
    assert f": {shown} " in text_of(page.get(page_of(run)))


def test_what_is_no_shift_is_refused(page: Client, subtests: pytest.Subtests) -> None:
    jobs(1)
    for written in ["soon", "0", "+-5", "9" * 12]:
        with subtests.test(written=written):
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
    assert answer.url == page_of(run)
    assert (run.verb, run.params, run.filter) == ("priority", {"priority": 40}, {"type": ["mail"]})
    assert (run.at_most, run.rate, run.reason, run.actor) == (
        5,
        1000,
        "wrong address",
        "admin:operator",
    )
    carry_out(run)
    assert set(Job.objects.filter(priority=40).values_list("pk", flat=True)) == {*numbers}


def test_each_form_of_a_person_with_a_long_name_starts_its_own_run(
    page: Client, operator: User
) -> None:
    operator.username = "o" * 150
    operator.save()
    jobs(5)
    for _form in range(2):
        started(page, NEW.format("cancel"), {"type": "mail"})
    assert BulkRun.objects.count() == 2


def test_what_is_missing_is_said_beside_its_field(page: Client, subtests: pytest.Subtests) -> None:
    jobs(2)
    for asked, given, said in [
        ({"type": "mail"}, {"reason": " "}, "This field is required."),
        ({"type": "mail"}, {"at_most": ""}, "Write a number."),
        ({"type": "mail"}, {"at_most": "0"}, "Write 1 or more."),
        ({"type": "mail"}, {"rate": "1001"}, "less than or equal to 1000"),
        ({}, {}, "Tick it if you mean every row"),
    ]:
        with subtests.test(said=said):
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
