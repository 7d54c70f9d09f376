"""The page of a job: its picture, facts, order and every attempt: S1.13, S1.21, S4.6, I28."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.common import clock
from apps.dispatch.models import OperatorScope
from apps.jobs.admin.job_head import head
from apps.jobs.admin.job_panels import REASON_WORDS
from apps.jobs.models import Job
from apps.jobs.rules.explain import CODES
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import LIST, page_of
from tests.job_scenes import TRACEBACK, fill_yard
from tests.jobs import HERE, THERE, end, job_type, jobs, row, take
from tests.pages import inline_code_of, tables_of, text_of

pytestmark = pytest.mark.django_db


def test_page_shows_every_attempt_with_host_wait_run_time_and_error(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    yard = fill_yard(frozen_clock, many=2)
    page = page_of(admin_client, yard.failed.pk)
    text = text_of(page)

    story = ["Submitted", "Failed", "Worker lost", "Stale result", "Failed"]
    position = text.index("History")
    for event in story:
        position = text.index(event, position) + 1
    for expected in ("attempt 1", "attempt 4", "host host-a", "host host-b", "took 2 min 0 s"):
        assert expected in text, expected
    assert "sent after all" in text
    assert "attempt 4 of 4 was the last" in text
    assert "4 of 4; held 4 times in total" in text
    # The traceback is there, folded up: at the top, and at each of the failures.
    assert page.content.decode().count('<details class="moment-details">') == 1 + 3
    assert 'File "/srv/shop/handlers.py", line 41, in send' in text


def test_page_begins_with_how_it_stands_the_error_and_the_attempts(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    yard = fill_yard(frozen_clock, many=2)
    frozen_clock.advance(minutes=3)
    page = page_of(admin_client, yard.failed.pk)
    text = text_of(page)
    line = "Failed mail · order-17 · attempt 4 of 4 · ended 4 min 51 s ago · on host-a · took 3.0 s"
    parts = [line, "mailbox busy", "Attempts", "Number", "Submitted"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    [attempts, *_] = tables_of(page)
    assert [[cell.text for cell in row][::5] for row in attempts[1:]] == [
        ["4", "Failed"],
        ["3", "Failed"],
        ["2", "Worker lost"],
        ["1", "Failed"],
    ]
    assert "mailbox busy" in attempts[1][-1].text
    way = "Ready → Running → Ready → Running → Scheduled → Ready → Running → Failed"
    assert way in text


def test_running_attempt_is_the_first_of_the_attempts(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    yard = fill_yard(frozen_clock, many=2)
    page = page_of(admin_client, yard.running.pk)
    [attempts, *_] = tables_of(page)
    assert "Running" in attempts[1][5].text
    assert re.search(r"attempt \d+ of \d+ · running for \d+", text_of(page))


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
    assert "Failed" in made.attempts.body
    assert "Running" not in made.attempts.body


def test_head_of_a_running_job_renews_itself_until_it_has_ended(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    job_type()
    [number] = jobs()
    live = f"{LIST}{number}/live/"
    # Ready jobs start soon; what is not due for long can wait.
    assert 'data-seconds="2"' in page_of(admin_client, number).content.decode()
    Job.objects.filter(pk=number).update(
        status="scheduled", run_at=clock.now() + timedelta(hours=1)
    )
    assert 'data-seconds="15"' in admin_client.get(live).content.decode()
    Job.objects.filter(pk=number).update(status="ready", run_at=clock.now())
    [held] = take(1)
    frozen_clock.advance(seconds=5)
    part = admin_client.get(live)
    assert "running for 5 s · lease ends in 25 s" in text_of(part)
    assert "<html" not in part.content.decode() and "data-final" not in part.content.decode()
    end(held, "failed", error="ValueError: no", retry="never")
    part = admin_client.get(live)
    assert "data-final" in part.content.decode() and "ValueError: no" in text_of(part)
    assert "live.js" not in page_of(admin_client, number).content.decode()


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


def test_context_and_result_come_before_the_facts(admin_client: Client) -> None:
    job_type()
    [number] = jobs(key="order-7", user_id="uid_ann")
    text = text_of(page_of(admin_client, number))
    places = [text.index(part) for part in ("Context and result", "Facts", "Times")]
    assert places == sorted(places)
    assert f'{LIST}?user=uid_ann"' in page_of(admin_client, number).content.decode()


def test_job_of_another_app_leads_to_what_it_is_for(admin_client: Client) -> None:
    job_type("bulk")
    job_type("mail")
    [run], [mine] = jobs(1, "bulk", key="bulk:7"), jobs(1, key="bulk:7")
    link = reverse("admin:bulk_bulkrun_change", args=[7])
    assert link in page_of(admin_client, run).content.decode()
    assert link not in page_of(admin_client, mine).content.decode()


def test_job_without_attempts_has_no_table_of_them(admin_client: Client) -> None:
    job_type()
    [number] = jobs()
    text = text_of(page_of(admin_client, number))
    assert "Attempts" not in text.partition("Number")[0]
    assert "due for" in text


def test_picture_marks_the_state_and_the_arrows_taken(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    yard = fill_yard(frozen_clock, many=2)
    html = page_of(admin_client, yard.failed.pk).content.decode()
    taken = re.findall(r'<g class="arrow arrow-taken"><title>(\w+) → (\w+):', html)
    ends = "ready", "scheduled", "failed"
    assert set(taken) == {("ready", "running"), *(("running", end) for end in ends)}
    assert re.search(r'<g class="state state-here"[^>]*><rect[^>]*></rect><text[^>]*>Failed', html)


def test_order_is_shown_as_a_formula_with_its_numbers(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """S4.6: the effective priority of a row, and how it comes about."""
    job_type()
    jobs(3)
    (number,) = jobs(priority=-2, attempts=2)
    job = row(number)
    text = text_of(page_of(admin_client, number))
    base = job.order_key - 2 * 60_000 - 30_000
    assert f"waiting since {base} 2026-03-02 08:59:59" in text
    assert "− priority -2 × 60000 ms + 120000" in text
    assert "+ demotion after 2 attempts + 30000" in text
    assert f"order {job.order_key}" in text
    assert "3 ready jobs of mail are before it" in text


def test_a_page_says_the_same_number_of_jobs_before_it_everywhere(admin_client: Client) -> None:
    job_type()
    factories.worker("host-a:1", types=["mail"])
    numbers = jobs(300)

    text = text_of(page_of(admin_client, numbers[-1]))

    assert "299 jobs of its type are before it." in text
    assert "299 ready jobs of mail are before it." in text
    assert "No ready job of its type is before it." not in text


def test_strict_priority_says_that_age_does_not_count(admin_client: Client, settings: Any) -> None:
    settings.JOB_PRIORITY_WEIGHT_MS = 10**12
    job_type()
    (number,) = jobs(priority=3)
    assert "Only the priority counts" in text_of(page_of(admin_client, number))
    assert "priority 3" in text_of(admin_client.get(LIST))


@pytest.mark.parametrize("page", ["/admin/jobs/job/{}/change/", LIST, "/admin/jobs/jobtype/{}/"])
def test_links_to_lists_lead_there_whatever_signs_a_key_has(
    admin_client: Client, page: str
) -> None:
    """A plus in an address means a blank."""
    made = job_type("e+mail", paused=True)
    [number] = jobs(1, "e+mail", key="a+b/c")
    shown = admin_client.get(page.format(made.pk if "jobtype" in page else number), follow=True)

    links = set(re.findall(r'href="(/admin/jobs/job/\?type=[^"]*)"', shown.content.decode()))

    assert links
    for link in links:
        found = admin_client.get(html.unescape(link)).context["cl"].result_list
        is_other = "status=scheduled" in link or "status=running" in link
        assert [job.pk for job in found] == ([] if is_other else [number]), link


def test_checkpoint_and_progress_of_a_running_job_are_shown(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    yard = fill_yard(frozen_clock, many=2)
    text = text_of(page_of(admin_client, yard.running.pk))
    assert '"shop": 117' in text
    assert "Checkpoint number 9" in text
    assert "42 %" in text
    assert "Lease until" in text


def test_contexts_checkpoints_and_results_are_for_those_who_may_see_them(role_client: Any) -> None:
    job_type()
    jobs(context={"to": "Main Street 5"}, checkpoint={"at": "line 88"})
    held = take(1)[0]
    end(held, "succeeded", result={"sent": "to Ann"})
    for role in ("viewer", "operator", "configurer"):
        text = text_of(page_of(role_client(role), held.id))
        for payload in ("Main Street 5", "line 88", "to Ann"):
            assert (payload in text) is (role == "configurer"), (role, payload)


def test_detail_of_a_failure_is_a_payload(role_client: Callable[[str], Client]) -> None:
    """The body that a foreign server answers may hold anything."""
    job_type()
    jobs()
    held = take(1)[0]
    end(held, "failed", error="shop answered 404", detail={"body": "card 4711"})
    for role in ("viewer", "configurer"):
        text = text_of(page_of(role_client(role), held.id))
        assert "shop answered 404" in text
        assert ("card 4711" in text) is (role == "configurer"), role


def test_secrets_in_an_error_are_masked(
    role_client: Callable[[str], Client], frozen_clock: object
) -> None:
    """On its page, in the list, in the journal and in the search."""
    job_type()
    jobs()
    held = take(1)[0]
    end(held, "failed", error="https://ann:hunter2@shop/?token=hunter3 broke off", retry="never")
    viewer = role_client("viewer")
    [entry] = JournalEntry.objects.filter(event="failed")
    pages = [
        f"{LIST}{held.id}/change/",
        f"{LIST}?status=failed",
        f"/admin/journal/journalentry/{entry.pk}/change/",
        "/admin/search/?term=broke",
    ]
    for url in pages:
        answer = viewer.get(url, follow=True)
        assert answer.status_code == 200
        assert "broke off" in answer.content.decode(), url
        assert b"hunter" not in answer.content, url


def test_secrets_are_redacted(admin_client: Client) -> None:
    job_type()
    (number,) = jobs(context={"password": "hunter2", "list": [{"api_key": "hunter3"}]})
    for url in (f"{LIST}{number}/change/", f"{LIST}{number}/edit/"):
        page = admin_client.get(url)
        assert b"hunter" not in page.content
        assert "••••••" in page.content.decode()


@pytest.mark.parametrize(
    "evil", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}"]
)
def test_foreign_text_of_workers_is_shown_as_text(admin_client: Client, evil: str) -> None:
    job_type(max_attempts=2)
    jobs(context={evil: evil}, submitted_by=evil)
    held = take(1)[0]
    end(held, "failed", error=f"{evil}\n{evil}", memo=evil)
    page = page_of(admin_client, held.id)
    assert inline_code_of(page) == []
    assert evil in text_of(page).replace('\\"', '"')


def test_huge_error_is_cut(admin_client: Client) -> None:
    job_type()
    jobs()
    held = take(1)[0]
    end(held, "failed", error="line\n" * 200_000 + TRACEBACK)
    assert len(page_of(admin_client, held.id).content) < 120_000


def test_page_with_many_entries_asks_as_often_as_one_with_two(admin_client: Client) -> None:
    job_type(max_attempts=10_000, retry_delay_seconds=0)
    (number,) = jobs()
    for by in (HERE, THERE):
        end(take(1, by=by)[0], "failed", error="x")
    few = statements_of(admin_client, number)
    for _ in range(12):
        end(take(1)[0], "failed", error="x")

    assert few <= 22
    assert statements_of(admin_client, number) <= few


def statements_of(client: Client, number: int) -> int:
    """How many the page needs while the process knows what it knows for a moment only."""
    counts = []
    for _ in range(3):
        with CaptureQueriesContext(connection) as asked:
            page_of(client, number)
        counts.append(len(asked))
    return min(counts)


def test_type_that_is_gone_does_not_break_the_page(admin_client: Client) -> None:
    made = job_type()
    (number,) = jobs(run_at=clock.now() + timedelta(hours=1))
    made.delete()
    assert "this type no longer exists" in text_of(page_of(admin_client, number))
    assert admin_client.get(LIST).status_code == 200


def test_job_that_is_not_there_is_not_found(admin_client: Client) -> None:
    assert admin_client.get(f"{LIST}17/change/").status_code == 404
    for url in (f"{LIST}17/edit/", f"{LIST}17/history/"):
        assert admin_client.get(url)["Location"] == LIST


def test_nobody_deletes_jobs(admin_client: Client) -> None:
    job_type()
    (number,) = jobs()
    assert admin_client.post(f"{LIST}{number}/delete/", {"post": "yes"}).status_code == 403
    assert Job.objects.count() == 1


# --- why it is not running ------------------------------------------------------------------------
def test_waiting_job_shows_all_that_stands_in_its_way(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """S1.2, S4.19: and when each could change."""
    job_type(
        paused=True, pause_reason="CRM <b>down</b>", paused_until=clock.now() + timedelta(days=1)
    )
    (number,) = jobs(run_at=clock.now() + timedelta(hours=2))
    text = text_of(page_of(admin_client, number))
    shown = text[text.index("Why is it not running?") :]
    for expected in (
        "Not due The job is scheduled for 2026-03-02 11:00",
        "in 2 h 0 min",
        "Paused The type mail is paused: CRM <b>down</b>",
        "No worker No live worker runs jobs of type mail",
    ):
        assert expected.lower() in shown.lower(), expected


def test_job_that_is_next_says_so_and_a_running_one_asks_nothing(admin_client: Client) -> None:
    job_type()
    factories.worker("host-a:1", types=["mail"])
    (number,) = jobs()
    assert "The next free worker runs it." in text_of(page_of(admin_client, number))
    take(1)
    assert "Why is it not running?" not in text_of(page_of(admin_client, number))


def test_every_reason_has_a_word() -> None:
    assert set(REASON_WORDS) == set(CODES)
