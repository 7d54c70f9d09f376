"""Jobs that went wrong in the same way: found in the list, retried and cancelled together."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.common.admin import actions
from apps.jobs.admin import job_groups
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.journal.models import JournalEntry
from apps.journal.services import error_key
from tests.integration.jobs.admin.pages import LIST, shown, statuses
from tests.jobs import end, job_type, jobs, take
from tests.pages import form_of, text_of
from tests.statements import analyze, explained, sent_by

pytestmark = pytest.mark.django_db

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
