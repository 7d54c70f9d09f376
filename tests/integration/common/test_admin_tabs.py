"""The states of a list are tabs: one click, and a number where it is cheap to count."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.common.admin import list_head
from apps.dispatch.models import Dispatch, OperatorScope
from apps.dispatch.services import pull
from apps.jobs.models import JobScope
from apps.jobs.services import counts
from tests import factories
from tests.jobs import job_type, jobs
from tests.statements import sent_by

pytestmark = pytest.mark.django_db

JOBS = "/admin/jobs/job/"
DISPATCHES = "/admin/dispatch/dispatch/"
_TAB = re.compile(r'<a class="tab[^"]*" href="([^"]*)"( aria-current="true")?>(.*?)</a>')


def tabs(client: Client, address: str) -> dict[str, str]:
    """The tabs by what they say, each with where it leads; the chosen one begins with a star."""
    page = client.get(address).content.decode()
    return {
        ("*" if chosen else "") + re.sub("<[^>]*>", "", text): unescape(url)
        for url, chosen, text in _TAB.findall(page)
    }


@pytest.fixture(autouse=True)
def yard() -> None:
    for name, ready in (("mail", 3), ("web", 2)):
        job_type(name)
        jobs(ready, name)
        jobs(1, name, status="failed", finished_at=clock.now())
        jobs(1, name, status="running", held_at=clock.now(), lease_until=clock.now())
    jobs(4, "mail", status="scheduled")


def test_tabs_of_jobs_have_the_numbers_of_all_types_or_of_one(admin_client: Client) -> None:
    assert [*tabs(admin_client, JOBS)] == [
        *("*All", "Scheduled 4", "Ready 5", "Running 2", "Failed 2", "Succeeded", "Cancelled")
    ]
    of_web = tabs(admin_client, f"{JOBS}?type=web&status=ready")
    assert [*of_web] == [
        *("All", "Scheduled 0", "*Ready 2", "Running 1", "Failed 1", "Succeeded", "Cancelled")
    ]
    assert of_web["Failed 1"] == "?status=failed&type=web"
    assert of_web["All"] == "?type=web"


def test_number_of_a_tab_is_that_of_the_rows_behind_it(admin_client: Client) -> None:
    for text, url in tabs(admin_client, JOBS).items():
        if number := re.search(r"\d+", text):
            rows = admin_client.get(JOBS + url).context["cl"].result_list
            assert len(rows) == int(number[0]), text


def test_further_filters_leave_the_tabs_without_numbers(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    for query in ["user=uid_ann", "q=mail-1", "from_day=2026-01-01", "lane=fast"]:
        with subtests.test(query=query):
            found = tabs(admin_client, f"{JOBS}?{query}")
            assert not re.search(r"\d", "".join(found))
            url = found["Failed"]
            assert url.endswith("status=failed") or f"&{query}" in f"&{url[1:]}"


def test_many_rows_are_not_counted_to_the_end(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_head, "MAX_COUNTED", 3)
    for address in (JOBS, f"{JOBS}?type=mail"):
        found = tabs(admin_client, address)
        assert "Scheduled 3+" in found, address
    assert "Ready 3" in found


def test_numbers_are_those_of_the_types_that_a_person_sees(
    role_client: Client, role_user: User
) -> None:
    viewer = role_user("viewer")
    JobScope.objects.create(operator=viewer, type="web")
    mine = role_client("viewer")
    for address in (JOBS, f"{JOBS}?type=web"):
        assert "Ready 2" in tabs(mine, address), address
    assert "Ready 0" in tabs(mine, f"{JOBS}?type=mail")


def test_person_limited_to_users_gets_no_numbers_of_jobs(
    role_client: Client, role_user: User
) -> None:
    OperatorScope.objects.create(operator=role_user("viewer"), executor=factories.user("uid_al"))
    assert "Ready" in tabs(role_client("viewer"), JOBS)


def test_numbers_of_all_types_take_one_statement(admin_client: Client) -> None:
    sent = sent_by(lambda: admin_client.get(JOBS))
    assert len([sql for sql in sent if "COUNT(*)" in sql and "jobs_job" in sql]) == 1


def test_totals_of_types_are_those_of_all_when_they_are_all() -> None:
    for limit in (100, 3):
        assert counts.totals_of(["mail", "web"], limit) == counts.totals(limit)._asdict()
    assert {*counts.totals_of([], 3).values()} == {0}


@pytest.mark.sqlite
def test_states_with_too_many_jobs_to_sort_have_no_number_unless_it_is_known_to_be_large(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "_MAX_SORTED", 4)
    jobs(1, "web", status="scheduled")
    found = counts.totals_of(["web"], 100)
    assert found == {"ready": 2, "blocked": 0, "running": 1, "failed": 1}
    assert counts.totals_of(["mail"], 3)["scheduled"] == 3
    assert "Scheduled" in tabs(admin_client, f"{JOBS}?type=web")


def test_dispatches_count_those_in_flight_within_the_limits(
    admin_client: Client, role_client: Client, role_user: User
) -> None:
    for uid in ("uid_ann", "uid_bob"):
        factories.once_task(factories.user(uid))
        assert isinstance(pull.answer_pull(uid), Dispatch)
    assert [*tabs(admin_client, DISPATCHES)] == [
        *("*All", "Open 2", "Overdue 0", "Succeeded", "Failed", "Expired", "Released", "Cancelled")
    ]
    assert "*Open" in tabs(admin_client, f"{DISPATCHES}?state=open&executor=uid_ann")
    viewer = role_user("viewer")
    OperatorScope.objects.create(operator=viewer, executor=factories.member("uid_ann"))
    assert "Open 1" in tabs(role_client("viewer"), DISPATCHES)


def test_other_lists_of_states_have_tabs_too(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    for name, first in [
        ("jobs_archivedjob", "Failed"),
        ("dispatch_archiveddispatch", "Succeeded"),
        ("dispatch_oncetask", "Waiting"),
        ("dispatch_rotatetask", "Waiting"),
        ("jobs_worker", "Active"),
        ("schedules_schedule", "Active"),
        ("alerts_alert", "Pending"),
    ]:
        with subtests.test(name=name):
            assert [*tabs(admin_client, reverse(f"admin:{name}_changelist"))][:2] == ["*All", first]
    assert tabs(admin_client, "/admin/access/apiclient/?_popup=1") == {}
