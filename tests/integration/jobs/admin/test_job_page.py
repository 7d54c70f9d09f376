"""The page of a job: its picture, facts, order and every attempt: S1.13, S1.21, S4.6, I28."""

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
from apps.jobs.models import Job
from apps.jobs.rules.explain import CODES
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import LIST, page_of
from tests.job_scenes import fill_yard
from tests.jobs import end, job_type, jobs, row, take
from tests.pages import tables_of, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


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
    assert "+ demotion after 2 attempts + 30000" in text
    assert f"order {job.order_key}" in text
    assert "3 ready jobs of mail are before it" in text


def test_links_to_lists_lead_there_whatever_signs_a_key_has(admin_client: Client) -> None:
    """A plus in an address means a blank."""
    made = job_type("e+mail", paused=True)
    [number] = jobs(1, "e+mail", key="a+b/c")
    links = set()
    for page in (f"{LIST}{number}/change/", LIST, f"/admin/jobs/jobtype/{made.pk}/"):
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
    for role in ("viewer", "operator", "configurer"):
        pages = [page_of(role_client(role), each.id) for each in (held, failed)]
        text = " ".join(map(text_of, pages))
        assert "shop answered 404" in text
        for payload in ("Main Street 5", "line 88", "to Ann", "card 4711"):
            assert (payload in text) is (role == "configurer"), (role, payload)


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
        "in 2 h 0 min",
        "Paused The type mail is paused: CRM <b>down</b>",
        "No worker No live worker runs jobs of type mail",
    ):
        assert expected.lower() in shown.lower(), expected


def test_every_reason_has_a_word() -> None:
    assert set(REASON_WORDS) == set(CODES)
