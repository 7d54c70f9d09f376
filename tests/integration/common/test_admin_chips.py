"""A filter that is on is seen above its list and taken off alone; the list says how many fit."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.common.admin import list_head
from tests import factories
from tests.jobs import job_type, jobs
from tests.statements import sent_by

pytestmark = pytest.mark.django_db

JOBS = "/admin/jobs/job/"


def chips(client: Client, address: str) -> dict[str, str]:
    """The chips of the list by their words, each with where it leads."""
    page = client.get(address).content.decode()
    found = re.findall(r'<a class="chip" href="([^"]*)"[^>]*><bdi>(.*?)</bdi>', page)
    return {unescape(text): unescape(url) for url, text in found}


def count(client: Client, address: str) -> str:
    page = client.get(address).content.decode()
    return "".join(re.findall(r'<span class="chips-count">(.*?)</span>', page))


def test_each_filter_is_taken_off_alone(admin_client: Client) -> None:
    job_type()
    jobs(3)
    query = "?status=ready&type=mail&from_day=2026-01-01&q=mail-1"
    found = chips(admin_client, JOBS + query)
    assert list(found) == [
        *("Search: mail-1", "Type: mail", "Status: ready"),
        "Created From: 2026-01-01",
    ]
    assert set(re.findall(r"\w+(?==)", found["Status: ready"])) == {"type", "from_day", "q"}
    left = chips(admin_client, JOBS + found["Status: ready"])
    assert list(left) == [text for text in found if text != "Status: ready"]


def test_last_filter_leads_to_the_plain_list(admin_client: Client) -> None:
    job_type()
    [url] = chips(admin_client, f"{JOBS}?type=mail").values()
    assert url == "?_view=none"


def test_rows_are_counted_up_to_a_limit(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_head, "MAX_COUNTED", 100)
    job_type()
    for more, said in ((1, "1 row"), (69, "70 rows"), (60, "100+ rows")):
        jobs(more)
        assert count(admin_client, f"{JOBS}?type=mail") == said


def test_no_list_counts_all_that_fits(admin_client: Client) -> None:
    job_type()
    jobs(60)
    sent = sent_by(lambda: admin_client.get(f"{JOBS}?type=mail"))
    counted = [sql for sql in sent if "COUNT(" in sql.upper() and "jobs_job" in sql]
    assert not [sql for sql in counted if sql.count("COUNT(") != sql.count("LIMIT ")]


def test_lists_of_tasks_and_people_have_chips_too(admin_client: Client) -> None:
    factories.once_task(factories.user("uid_ann"))
    tasks = reverse("admin:dispatch_oncetask_changelist")
    assert list(chips(admin_client, f"{tasks}?status=paused&executor=uid_ann")) == [
        "Reaches: uid_ann",
        "State: paused",
    ]
    assert count(admin_client, f"{tasks}?status=active") == "1 row"
    people: dict[str, Any] = chips(admin_client, f"{reverse('admin:auth_user_changelist')}?q=adm")
    assert list(people) == ["Search: adm"]
