"""S4.10, S4.12, S4.19: who owns which shards, on a page of its own and on that of a worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.dispatch.models import OperatorScope
from apps.jobs.models import JobScope, Worker
from apps.jobs.services import register
from apps.jobs.services.slices import slice_map
from apps.jobs.sweeps import follow_workers
from tests import factories
from tests.frozen import FrozenClock
from tests.jobs import Holder, job_type, jobs, share
from tests.pages import tables_of, text_of

pytestmark = pytest.mark.django_db

URL = "/admin/jobs/worker/slices/"


@pytest.fixture(autouse=True)
def pair(frozen_clock: FrozenClock) -> FrozenClock:
    """Two workers that share mail; web is served by one of them, scan by nobody."""
    for name in ("mail", "scan", "web"):
        job_type(name)
    register.register(name="a", host="host-a", types=["mail"])
    register.register(name="b", host="host-b", types=["mail", "web"], client="shop")
    frozen_clock.advance(seconds=5)
    register.beat(name="a", drains={}, running=0)
    register.beat(name="b", drains={}, running=0, client="shop")
    follow_workers()
    return frozen_clock


def shown(client: Client, **query: str) -> list[list[str]]:
    """The cells of the only table of the page, without its head."""
    [table] = tables_of(client.get(URL, query))
    return [[cell.text for cell in row] for row in table[1:]]


def worker_page(client: Client, name: str) -> Any:
    row = Worker.objects.get(name=name)
    return client.get(reverse("admin:jobs_worker_change", args=[row.pk]))


def test_owners_are_shown_with_their_shards_and_share_and_lead_to_their_pages(
    admin_client: Client,
) -> None:
    slices = slice_map().slices_of("mail")
    members = {"a": "/a", "b shop": "shop/b"}
    expected = [(name, len(slices.shards_of(member))) for name, member in members.items()]

    [table] = tables_of(admin_client.get(URL, {"type": "mail"}))

    lines = [[cell.text for cell in row] for row in table[1:]]
    assert lines == [[who, str(n), f"{100 * n / 1024:.1f} %", "–"] for who, n in expected]
    assert sum(n for _, n in expected) == 1024
    assert [admin_client.get(row[0].url).status_code for row in table[1:]] == [200, 200]


def test_oldest_due_job_of_each_owner_is_shown(admin_client: Client, pair: FrozenClock) -> None:
    slices = slice_map().slices_of("mail")
    own = slices.shards_of("/a")
    jobs(1, shard=own[0], run_at=pair.instant - timedelta(seconds=7), priority=-1)
    [oldest] = jobs(1, shard=own[1], run_at=pair.instant - timedelta(minutes=2))
    jobs(1, "web", shard=slices.shards_of("shop/b")[0])

    first, second = shown(admin_client, type="mail")

    assert first[3] == f"{oldest} due for 2 min"
    assert second[3] == "–"


def test_first_served_type_is_chosen_and_an_unknown_one_named(admin_client: Client) -> None:
    assert len(shown(admin_client)) == 2
    page = admin_client.get(URL, {"type": "<b>"})
    assert "There is no job type <b>." in text_of(page)
    assert "No worker has shards of type scan" in text_of(admin_client.get(URL, {"type": "scan"}))
    assert "One worker alone takes the jobs in order" in text_of(
        admin_client.get(URL, {"type": "web"})
    )


def test_spares_are_named(admin_client: Client) -> None:
    crowd = [Holder(f"w{n:02}", "host") for n in range(90)]
    spares = share(*crowd).slices_of("mail").spares

    page = admin_client.get(URL, {"type": "mail"})

    [table] = tables_of(page)
    assert len(table) == 1 + 64
    text = text_of(page)
    assert f"{spares[0][1:]}, {spares[1][1:]}" in text
    assert "and 6 more" in text


# --- the page of a worker -------------------------------------------------------------------------
def test_page_of_a_worker_shows_its_share_of_each_type(admin_client: Client) -> None:
    mail = len(slice_map().slices_of("mail").shards_of("shop/b"))

    page = worker_page(admin_client, "b")

    [table] = [each for each in tables_of(page) if each[0][0].text == "Type"]
    assert [[cell.text for cell in row] for row in table[1:]] == [
        ["mail", str(mail), f"{100 * mail / 1024:.1f} %"],
        ["web", "1024", "100.0 %"],
    ]
    assert table[1][0].url == f"{URL}?type=mail"


# --- who sees what --------------------------------------------------------------------------------
def test_limited_person_sees_only_the_own_types(role_client: Any, role_user: Any) -> None:
    olga, page = role_user("operator"), role_client("operator")
    JobScope.objects.create(operator=olga, type="web")

    assert [line[0] for line in shown(page)] == ["b shop"]
    refused = text_of(page.get(URL, {"type": "mail"}))
    assert "There is no job type mail." in refused
    [table] = [each for each in tables_of(worker_page(page, "b")) if each[0][0].text == "Type"]
    assert [row[0].text for row in table[1:]] == ["web"]
    assert "It has shards of no type that you see" in text_of(worker_page(page, "a"))


def test_person_with_limits_to_users_gets_no_numbers_of_jobs(
    role_client: Any, role_user: Any, pair: FrozenClock
) -> None:
    OperatorScope.objects.create(operator=role_user("operator"), executor=factories.user("uid_ann"))
    [number] = jobs(1, shard=slice_map().slices_of("mail").shards_of("/a")[0])

    text = text_of(role_client("operator").get(URL, {"type": "mail"}))

    assert "due for 0 s" in text
    assert str(number) not in text
