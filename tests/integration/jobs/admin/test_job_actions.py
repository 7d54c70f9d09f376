"""Stepping in: legal arrows only, each with its reason, one by one or for all that went wrong in
one way: S1.21, I26, I55, I56 and I58."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from apps.common.admin import actions
from apps.jobs.admin import job_groups
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.journal.models import JournalEntry
from apps.journal.services import error_key
from tests import factories
from tests.integration.jobs.acted_on import job_in
from tests.integration.jobs.admin.pages import LIST, act, buttons, page_of, shown, statuses
from tests.jobs import end, job_type, jobs, row, take
from tests.pages import form_of, text_of
from tests.statements import analyze, explained, sent_by

pytestmark = pytest.mark.django_db

# What a button does, by its words.
ARROWS = {
    "Edit": "edit",
    "Retry": "retry",
    "Retry on host…": "retry",
    "Retry with another context…": "retry",
    "Submit again…": "retry",
    "Run now": "run_now",
    "Mark done": "mark_done",
    "Cancel by force": "force_cancel",
}


def test_buttons_are_the_legal_arrows_of_the_state(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    for status in t.STATUSES:
        with subtests.test(status=status):
            legal = set(t.legal_actions(status))
            wanted = {words for words, arrow in ARROWS.items() if arrow in legal}
            if legal & {"cancel", "request_cancel"}:
                wanted.add("Cancel")
            assert buttons(page_of(admin_client, job_in(status).pk)) == wanted


TAKEN = (
    ("retry", t.FAILED, t.READY, "retried"),
    ("run_now", t.SCHEDULED, t.READY, "run_now"),
    ("cancel", t.READY, t.CANCELLED, "cancelled"),
    ("cancel", t.RUNNING, t.RUNNING, "cancel_requested"),
    ("force_cancel", t.RUNNING, t.CANCELLED, "cancelled"),
    ("mark_done", t.FAILED, t.SUCCEEDED, "marked_done"),
)


def test_action_takes_the_arrow_and_shows_who_and_why_once(
    role_client: Any, subtests: pytest.Subtests
) -> None:
    """I55: who, when, from, to and why, one entry in the transaction of the change."""
    client = role_client("configurer")
    for name, before, after, event in TAKEN:
        with subtests.test(name=name, before=before):
            number = job_in(before).pk
            assert act(client, name, number).status_code == 302
            assert row(number).status == after
            [entry] = JournalEntry.objects.filter(source="job", subject_id=number)
            assert (entry.event, entry.actor) == (event, "admin:configurer")
            assert entry.reason == "Shop closed"
            assert (entry.from_state, entry.to_state) == (before, after)


def test_retry_is_one_click_and_asks_nothing(admin_client: Client) -> None:
    number = job_in(t.FAILED).pk
    html = page_of(admin_client, number).content.decode()
    assert re.search(rf'action="{LIST}act/retry/".*?name="ids" value="{number}"', html, re.DOTALL)

    answer = admin_client.post(f"{LIST}act/retry/", {"ids": str(number)})

    assert answer.status_code == 302
    assert row(number).status == t.READY
    assert "1 job retried." in text_of(page_of(admin_client, number))


def test_selected_jobs_are_retried_at_once(admin_client: Client) -> None:
    number = job_in(t.FAILED).pk
    given = {"action": "retry", "_selected_action": [str(number)], "index": "0"}
    answer = admin_client.post(f"{LIST}?status=failed", given)
    assert (answer.status_code, answer["Location"]) == (302, f"{LIST}?status=failed")
    assert row(number).status == t.READY


def test_bulk_action_shows_what_was_done_and_what_was_skipped_and_why(admin_client: Client) -> None:
    """I58: each row on its own merits; the same again changes nothing."""
    job_type()
    numbers = jobs(4)
    end(take(1)[0], "succeeded")
    take(1)
    selected = {"_selected_action": [str(n) for n in numbers], "index": "0"}
    confirm = admin_client.post(LIST, {"action": "cancel", **selected})
    # Cancel beside it would say the same word twice.
    assert "Cancel Back" in text_of(confirm)
    assert statuses(numbers) == [t.SUCCEEDED, t.RUNNING, t.READY, t.READY]
    form = {**form_of(confirm, "reason"), "reason": "Storm"}
    report = admin_client.post(f"{LIST}act/cancel/", form)
    assert "2 jobs cancelled. 1 running job asked to stop. 1 row skipped." in text_of(report)
    assert f"Job {numbers[0]} is succeeded" in text_of(report)
    assert statuses(numbers) == [t.SUCCEEDED, t.RUNNING, t.CANCELLED, t.CANCELLED]
    versions = [row(n).version for n in numbers]
    again = admin_client.post(f"{LIST}act/cancel/", {**form, "sent": ""})
    assert "4 rows skipped" in text_of(again)
    assert [row(n).version for n in numbers] == versions


def test_list_offers_only_what_suits_many(admin_client: Client) -> None:
    job_type()
    jobs()
    choices = admin_client.get(LIST).context["action_form"].fields["action"].choices
    assert {name for name, _words in choices} == {"", "retry", "cancel", "run_now"}


# --- cancelling what runs -----------------------------------------------------------------------
def test_running_job_is_asked_once_and_can_then_only_be_forced(admin_client: Client) -> None:
    number = job_in(t.RUNNING).pk
    act(admin_client, "cancel", number)
    page = page_of(admin_client, number)
    assert buttons(page) == {"Cancel by force"}
    assert "asked to stop" in text_of(page).lower()
    version = row(number).version
    act(admin_client, "cancel", number)
    assert row(number).version == version


# --- hosts --------------------------------------------------------------------------------------
@pytest.mark.both
def test_retry_on_a_host_offers_the_hosts_of_registered_workers(admin_client: Client) -> None:
    """S1.8: "rerun on host…" is an action."""
    number = job_in(t.FAILED).pk
    factories.worker("host-b:1")
    factories.worker("host-z:1", state="gone")
    page = admin_client.get(f"{LIST}act/retry_on_host/?ids={number}")
    assert form_of(page, "reason")["host"] == "host-b"
    assert "host-z" not in text_of(page)
    refused = act(admin_client, "retry_on_host", number, host="host-z")
    assert refused.status_code == 200
    assert row(number).status == t.FAILED
    act(admin_client, "retry_on_host", number, host="host-b")
    assert (row(number).status, row(number).affinity_host) == (t.READY, "host-b")


# --- who may ------------------------------------------------------------------------------------
def test_role_has_the_buttons_that_it_may_press(role_client: Any) -> None:
    number = job_in(t.FAILED).pk
    offered = {"Retry", "Retry on host…", "Retry with another context…", "Submit again…"}
    for role, found in (
        ("viewer", set()),
        ("operator", offered),
        ("configurer", offered | {"Mark done"}),
    ):
        assert buttons(page_of(role_client(role), number)) == found, role


REFUSED = "ConnectionRefusedError: [Errno 111] 10.0.0.{}:5432"
KEY = error_key(REFUSED.format(1))


@pytest.fixture(autouse=True)
def _types() -> None:
    job_type("mail", max_attempts=1)
    job_type("bill", max_attempts=1)


def failed(count: int, error: str = REFUSED, type_: str = "mail") -> list[int]:
    numbers = jobs(count, type_)
    for place in range(count):
        # Jobs of a type with one attempt are held one by one.
        (held,) = take(1, types=(type_,))
        end(held, "failed", error=error.format(place), retry="never")
    return numbers


def group(client: Client, name: str, **query: str) -> Any:
    return client.get(f"{LIST}group/{name}/", {"type": "mail", "error_key": KEY, **query})


def send(client: Client, page: Any, **data: str) -> Any:
    """The confirm page as a person sends it."""
    form = form_of(page, "ids")
    return client.post(page.context["url"], {**form, "reason": "Database is back", **data})


def test_list_is_narrowed_to_an_error_of_a_type(admin_client: Client) -> None:
    mails, bills = failed(2), failed(1, type_="bill")
    failed(1, "ValueError: no such shop")
    assert shown(admin_client.get(LIST, {"error_key": KEY})) == [*bills, *reversed(mails)]
    narrowed = admin_client.get(LIST, {"error_key": KEY, "type": "mail", "status": "failed"})
    assert shown(narrowed) == mails[::-1]
    assert shown(admin_client.get(LIST, {"error_key": "0" * 32})) == []
    assert "Error: ConnectionRefusedError: [Errno 111] 10.0.0.0:5432" in text_of(narrowed)
    assert KEY not in text_of(narrowed)
    bad = admin_client.get(LIST, {"error_key": "no key"})
    assert shown(bad) == []
    assert "is not a name" in text_of(bad)


def test_group_is_retried_with_a_reason_and_nothing_else_is(role_client: Any) -> None:
    mails, bills = failed(3), failed(1, type_="bill")
    others = failed(1, "ValueError: no such shop")
    client = role_client("operator")
    page = group(client, "retry", back="/admin/jobs/job/?status=failed")
    assert "This concerns 3 jobs" in text_of(page)
    assert "These are all jobs" in text_of(page)
    answer = send(client, page)
    assert (answer.status_code, answer["Location"]) == (302, "/admin/jobs/job/?status=failed")
    assert statuses(mails) == [t.READY] * 3
    assert statuses(bills + others) == [t.FAILED] * 2
    entries = JournalEntry.objects.filter(event="retried").values_list("actor", "reason")
    assert list(entries) == [("admin:operator", "Database is back")] * 3


def test_waiting_retries_of_a_group_are_cancelled_and_failed_ones_are_not(role_client: Any) -> None:
    job_type("mail", max_attempts=9)
    waiting = jobs(2)
    for held in take(2):
        end(held, "failed", error=REFUSED.format(held.id))
    done = failed(1)
    untouched = jobs(1)
    client = role_client("operator")
    send(client, group(client, "cancel"))
    assert statuses(waiting) == [t.CANCELLED] * 2
    assert statuses(done + untouched) == [t.FAILED, t.READY]


@pytest.mark.both
def test_more_than_one_go_takes_the_newest_and_says_that_there_are_more(
    role_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = failed(5)
    monkeypatch.setattr(actions, "MAX_ROWS", 3)
    client = role_client("operator")
    page = group(client, "retry")
    assert "There may be more: repeat the action." in text_of(page)
    send(client, page)
    assert statuses(numbers) == [t.FAILED] * 2 + [t.READY] * 3
    send(client, group(client, "retry"))
    assert statuses(numbers) == [t.READY] * 5


@pytest.mark.both
def test_a_limited_number_of_jobs_is_searched(
    role_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = failed(4)
    Job.objects.filter(pk__in=numbers[2:]).update(status=t.CANCELLED)
    monkeypatch.setattr(job_groups, "MAX_SEARCHED", 3)
    page = group(role_client("operator"), "retry")
    assert page.context["ids"] == str(numbers[1])
    assert "There may be more: repeat the action." in text_of(page)


def test_group_that_cannot_be_leads_back_to_the_list(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    def leads_back(**query: str) -> None:
        with subtests.test(query=query):
            answer = group(admin_client, "retry", **query)
            assert (answer.status_code, answer["Location"]) == (302, LIST)
            said = "Nothing to retry: no job with this error"
            assert said in text_of(admin_client.get(LIST))

    for back in ("https://example.com/", "//example.com/"):
        leads_back(back=back)
    failed(1)
    for type_ in ("", "x" * 500, "unheard-of"):
        leads_back(type=type_)
    for error in ("", "%00'\""):
        leads_back(error_key=error)


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
def test_group_is_found_by_an_index_however_many_other_jobs_there_are(admin_client: Client) -> None:
    numbers = failed(3)
    jobs(3000, status=t.FAILED, error_key="0" * 32)
    jobs(3000)
    analyze(Job)
    page = group(admin_client, "retry")
    assert page.context["ids"] == ",".join(map(str, numbers))

    def find() -> None:
        group(admin_client, "retry")
        assert shown(admin_client.get(LIST, {"error_key": KEY})) == numbers[::-1]

    # The list itself then asks for the keys that were found, and its chip for the error's words.
    found = [sql for sql in sent_by(find) if KEY in sql and " IN (" not in sql]
    assert len(found) == 3
    for sql in found:
        assert "job_error" in explained(sql), sql
