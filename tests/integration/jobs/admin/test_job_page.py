"""The page of a job: its picture, facts, order and every attempt, and the forms by which it is
submitted and edited: S1.4, S1.13, S1.21, S4.6, I28, I35, I55, I57."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.dispatch.models import OperatorScope
from apps.jobs.admin.job_head import head
from apps.jobs.admin.job_panels import REASON_WORDS
from apps.jobs.models import Job, JobType
from apps.jobs.rules import transitions as t
from apps.jobs.rules.explain import CODES
from apps.jobs.rules.submission import Submission
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import LIST, TYPES, edit_url, now_url, page_of
from tests.job_scenes import MAIL, fill_yard
from tests.jobs import end, job_type, jobs, row, take
from tests.pages import form_of, tables_of, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


def test_page_begins_with_how_it_stands_the_error_and_the_attempts(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    yard = fill_yard(frozen_clock, many=2)
    frozen_clock.advance(minutes=3)
    page = page_of(admin_client, yard.failed.pk)
    text = text_of(page)
    line = "Failed mail · order-17 · try 4 of 4 · ended 4 min 51 s ago · on host-a · took 3 s"
    parts = [line, "mailbox busy", "Tries", "Number", "Submitted"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    [attempts, *_] = tables_of(page)
    assert [[cell.text for cell in row][::5] for row in attempts[1:]] == [
        ["4", "Failed"],
        ["3", "Failed"],
        ["2", "Worker offline"],
        ["1", "Failed"],
    ]
    assert "mailbox busy" in attempts[1][-1].text
    way = "Ready → Running → Ready → Running → Scheduled → Ready → Running → Failed"
    assert way in text


def test_page_says_what_a_retry_would_meet(role_client: Any) -> None:
    """As *Why is it not running?* would of the retried job; only to who may retry."""
    job_type(retry_delay_seconds=30)
    (number,) = jobs()
    end(take()[0], "failed", error="refused", retry="never")
    jobs(3)
    text = text_of(page_of(role_client("operator"), number))
    shown = text[text.index("If you retry now") :]
    assert "3 ready jobs" in shown
    assert "No live worker runs jobs of type mail" in shown
    assert "All 3 tries; after a failure it waits about 30 s." in shown
    assert row(number).status == t.FAILED
    assert "If you retry now" not in text_of(page_of(role_client("viewer"), number))


def test_page_leads_to_the_jobs_submitted_with_its_end_and_back(admin_client: Client) -> None:
    job_type("receipt")
    job_type()
    [number] = jobs()
    then = [Submission("receipt", key=f"r-{n}") for n in range(22)]
    end(take()[0], submit=then)
    made = Job.objects.filter(parent=number).order_by("id")

    page = page_of(admin_client, number)

    assert "Submitted with its end" in text_of(page)
    assert "and 2 more" in text_of(page)
    links = [f"/admin/jobs/job/{each.pk}/change/" in page.content.decode() for each in made]
    assert links == [True] * 20 + [False] * 2
    child = page_of(admin_client, made[0].pk)
    assert f"/admin/jobs/job/{number}/change/" in child.content.decode()
    assert "Submitted with its end" not in text_of(child)


def test_attempt_that_ends_while_its_page_is_made_is_shown_once(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    job_type()
    (number,) = jobs(max_attempts=1)
    [held] = take()
    frozen_clock.advance(seconds=2)
    read = row(number)
    end(held, "failed", error="refused")
    made = head(read, Job.objects.all())
    assert made.attempts is not None
    assert made.error is None
    assert "Failed" in made.attempts.body
    assert "Running" not in made.attempts.body


def test_error_leads_to_its_group_as_far_as_the_person_sees_it(
    admin_client: Client, role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    job_type(max_attempts=1)
    numbers = jobs(3, user_id="uid_ann")
    for held in take(3):
        end(held, "failed", error="ConnectionRefusedError: 10.0.0.1:25")
    Job.objects.filter(pk=numbers[2]).update(user_id="uid_eve")
    page = page_of(admin_client, numbers[0])
    assert "Failure group (3)" in text_of(page)
    [url] = re.findall(r'href="([^"]+)">Failure group', page.content.decode())
    assert admin_client.get(html.unescape(url)).context["cl"].result_count == 3
    OperatorScope.objects.create(operator=role_user("operator"), executor=factories.user("uid_eve"))
    shown = page_of(role_client("operator"), numbers[2])
    assert "Failure group (1)" in text_of(shown)


def test_job_of_another_app_leads_to_what_it_is_for(admin_client: Client) -> None:
    job_type("bulk")
    job_type("mail")
    [run], [mine] = jobs(1, "bulk", key="bulk:7"), jobs(1, key="bulk:7")
    link = reverse("admin:bulk_bulkrun_change", args=[7])
    assert link in page_of(admin_client, run).content.decode()
    assert link not in page_of(admin_client, mine).content.decode()


def test_order_is_shown_as_a_formula_with_its_numbers(admin_client: Client) -> None:
    """S4.6: the effective priority of a row, and how it comes about."""
    job_type()
    jobs(3)
    (number,) = jobs(priority=-2, attempts=2)
    job = row(number)
    text = text_of(page_of(admin_client, number))
    base = job.order_key - 2 * 60_000 - 30_000
    assert f"waiting since {base} 2026-03-02 08:59:59" in text
    assert "− priority -2 × 60000 ms + 120000" in text
    assert "+ demotion after 2 tries + 30000" in text
    assert f"order {job.order_key}" in text
    assert "3 ready jobs of mail are before it" in text


def test_links_to_lists_lead_there_whatever_signs_a_key_has(admin_client: Client) -> None:
    """A plus in an address means a blank."""
    made = job_type("e+mail", paused=True)
    [number] = jobs(1, "e+mail", key="a+b/c")
    links = set()
    for page in (f"{LIST}{number}/change/", LIST, now_url(made)):
        shown = admin_client.get(page, follow=True).content.decode()
        found = set(re.findall(r'href="(/admin/jobs/job/\?type=[^"]*)"', shown))
        assert found, page
        links |= found

    for link in links:
        rows = admin_client.get(html.unescape(link)).context["cl"].result_list
        is_other = "status=scheduled" in link or "status=running" in link
        assert [job.pk for job in rows] == ([] if is_other else [number]), link


def test_contexts_checkpoints_and_results_are_for_those_who_may_see_them(role_client: Any) -> None:
    job_type()
    jobs(context={"to": "Main Street 5"}, checkpoint={"at": "line 88"})
    held = take(1)[0]
    end(held, "succeeded", result={"sent": "to Ann"})
    jobs()
    failed = take(1)[0]
    # The body that a foreign server answers may hold anything.
    end(failed, "failed", error="shop answered 404", detail={"body": "card 4711"})
    for role in ("viewer", "blind", "operator"):
        pages = [page_of(role_client(role), each.id) for each in (held, failed)]
        text = " ".join(map(text_of, pages))
        assert "shop answered 404" in text
        for payload in ("Main Street 5", "line 88", "to Ann", "card 4711"):
            assert (payload in text) is (role == "operator"), (role, payload)


def test_type_that_is_gone_does_not_break_the_page(admin_client: Client) -> None:
    made = job_type()
    (number,) = jobs(run_at=clock.now() + timedelta(hours=1))
    made.delete()
    assert "this type no longer exists" in text_of(page_of(admin_client, number))
    assert admin_client.get(LIST).status_code == 200


# --- why it is not running ------------------------------------------------------------------------
def test_waiting_job_shows_all_that_stands_in_its_way(admin_client: Client) -> None:
    """S1.2, S4.19: and when each could change."""
    job_type(
        paused=True, pause_reason="CRM <b>down</b>", paused_until=clock.now() + timedelta(days=1)
    )
    (number,) = jobs(run_at=clock.now() + timedelta(hours=2))
    text = text_of(page_of(admin_client, number))
    shown = text[text.index("Why is it not running?") :]
    for expected in (
        "Not due The job is scheduled for 2026-03-02 11:00",
        "in 2 h",
        "Paused The type mail is paused: CRM <b>down</b>",
        "No worker No live worker runs jobs of type mail",
    ):
        assert expected.lower() in shown.lower(), expected


def test_every_reason_has_a_word() -> None:
    assert set(REASON_WORDS) == set(CODES)


ADD = f"{LIST}add/"


def filled(client: Client, url: str, holding: str, **typed: Any) -> dict[str, Any]:
    return {**form_of(client.get(url), holding), **typed}


# --- a new job --------------------------------------------------------------------------------
def test_form_is_made_from_the_schema_of_the_type_and_submits(role_client: Any) -> None:
    client = role_client("operator")
    job_type("mail", params_schema=MAIL, max_attempts=4, default_priority=3)
    page = client.get(f"{ADD}?type=mail")
    for expected in ("Recipient", "One address.", "Reminders left"):
        assert expected in text_of(page), expected
    form = form_of(page, "key")
    typed = {
        "key": "order-17",
        "params-value/to": "ann@example.com",
        "params-value/attempts_left": "2",
    }
    answer = client.post(ADD, {**form, **typed})
    job = Job.objects.get()
    assert answer["Location"] == f"{LIST}{job.pk}/change/"
    assert (job.type, job.key, job.status) == ("mail", "order-17", t.READY)
    assert job.context == {"to": "ann@example.com", "attempts_left": 2}
    assert (job.priority, job.max_attempts) == (3, 4)
    assert job.submitted_by == "admin:operator"
    assert "by operator" in text_of(page_of(client, job.pk))


def test_times_and_numbers_of_the_form_count(admin_client: Client) -> None:
    job_type()
    typed = {
        "run_at_0": "2026-03-02",
        "run_at_1": "12:30:00",
        "priority": "-7",
        "max_attempts": "9",
        "user_id": "uid_ann",
        "params-raw": '{"a": 1}',
    }
    admin_client.post(ADD, filled(admin_client, ADD, "key", **typed))
    job = Job.objects.get()
    assert job.run_at.isoformat() == "2026-03-02T12:30:00+00:00"
    assert (job.priority, job.max_attempts, job.user_id) == (-7, 9, "uid_ann")
    assert (job.status, job.context) == (t.SCHEDULED, {"a": 1})


def test_all_that_is_wrong_with_a_new_job_is_shown_at_once(admin_client: Client) -> None:
    """The context, what is no number, what is out of range, and what the type requires."""
    job_type("mail", params_schema=MAIL)
    typed = {
        "params-uses_raw": "on",
        "params-raw": '{"to": 5}',
        "max_attempts": "many",
        "priority": "101",
        "user_id": "ä b",
        "is_unique": "on",
    }
    page = admin_client.post(ADD, filled(admin_client, f"{ADD}?type=mail", "key", **typed))
    form = page.context["adminform"].form
    assert set(form.errors) == {"__all__", "max_attempts", "priority", "user_id", "key"}
    assert form.errors["priority"] == ["101 is no priority; write a whole number from -100 to 100."]
    assert [len(each) for each in form.errors.values()] == [1] * 5
    assert form.params_form.errors


def test_unique_twin_that_is_open_is_shown_in_place_of_a_second(admin_client: Client) -> None:
    """I35: both callers get the one row."""
    job_type()
    typed = {"key": "order-17", "is_unique": "on", "params-raw": "{}"}
    form = filled(admin_client, ADD, "key", **typed)
    first = admin_client.post(ADD, form)
    second = admin_client.post(ADD, filled(admin_client, ADD, "key", **typed))
    assert first["Location"] == second["Location"]
    assert Job.objects.count() == 1
    assert "This job with the same key is still open" in text_of(
        admin_client.get(second["Location"])
    )


def test_other_type_draws_its_fields_from_what_was_typed(admin_client: Client) -> None:
    job_type("mail", params_schema=MAIL)
    job_type("plain")
    form = filled(admin_client, f"{ADD}?type=plain", "key", key="k-1")
    page = admin_client.post(ADD, {**form, "type": "mail", "_draft": "1"})
    assert "Recipient" in text_of(page)
    assert form_of(page, "key")["key"] == "k-1"
    assert not Job.objects.exists()


# --- the edit of a waiting one --------------------------------------------------------------------
def scheduled(**columns: Any) -> int:
    job_type(params_schema=columns.pop("schema", {}))
    return jobs(run_at=clock.now() + timedelta(hours=1), **columns)[0]


def test_edit_changes_what_was_typed_and_shows_before_and_after(role_client: Any) -> None:
    """S1.21: change time, priority and maximum attempts; I55: with before, after and why."""
    client = role_client("operator")
    number = scheduled(context={"to": "ann"})
    factories.worker("host-b:1")
    typed = {
        "run_at_0": "2026-03-02",
        "run_at_1": "18:00:00",
        "priority": "8",
        "max_attempts": "6",
        "affinity_host": "host-b",
        "reason": "Customer called",
    }
    url = edit_url(number)
    answer = client.post(url, filled(client, url, "priority", **typed))
    assert answer["Location"] == f"{LIST}{number}/change/"
    job = row(number)
    assert (job.priority, job.max_attempts, job.affinity_host) == (8, 6, "host-b")
    assert job.run_at.isoformat() == "2026-03-02T18:00:00+00:00"
    assert job.context == {"to": "ann"}
    entry = JournalEntry.objects.latest("id")
    assert (entry.actor, entry.reason) == ("admin:operator", "Customer called")
    assert set(entry.data["after"]) == {"run_at", "priority", "max_attempts", "affinity_host"}
    text = text_of(client.get(answer["Location"]))
    assert "Priority 0 → 8. Maximum tries 3 → 6. Only on host any → host-b." in text
    assert "priority 0 → 8" in text
    assert "only on host" in text


def test_untouched_form_changes_nothing(admin_client: Client) -> None:
    """Neither of a job nor of a type."""
    number = scheduled(context={"password": "hunter2", "n": 1.0}, schema={"type": "object"})
    made = job_type(stages=["a"], retry_delay_seconds=0.5)
    before = [list(model.objects.values()) for model in (Job, JobType)]
    type_url = f"{TYPES}{made.pk}/change/"
    for url, holding in ((edit_url(number), "priority"), (type_url, "max_attempts")):
        sent = filled(admin_client, url, holding, reason="Nothing")
        assert admin_client.post(url, sent).status_code == 302
    assert [list(model.objects.values()) for model in (Job, JobType)] == before
    assert not JournalEntry.objects.exists()


def test_all_that_is_wrong_with_an_edit_is_shown_at_once(admin_client: Client) -> None:
    url = edit_url(scheduled())
    typed = {"priority": "-101", "max_attempts": "x", "context": "{", "reason": ""}
    page = admin_client.post(url, filled(admin_client, url, "priority", **typed))
    errors = page.context["adminform"].form.errors
    assert set(errors) == {"priority", "max_attempts", "context", "reason"}
    assert [len(each) for each in errors.values()] == [1] * 4


def test_operator_without_the_right_to_see_contexts_edits_all_else(role_client: Any) -> None:
    client = role_client("blind")
    number = scheduled(context={"to": "Main Street 5"})
    url = edit_url(number)
    form = filled(client, url, "priority", priority="2", reason="Hurry")
    assert "context" not in form
    client.post(url, {**form, "context": "{}"})
    assert (row(number).priority, row(number).context) == (2, {"to": "Main Street 5"})
