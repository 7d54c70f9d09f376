"""Who is offered a run may plan it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.bulk.models import BulkRun
from apps.dispatch.models import OperatorScope
from apps.jobs.models import JobScope
from tests import callback, factories
from tests.archives import ARCHIVES
from tests.emptying import undone
from tests.integration.bulk.conftest import carry_out
from tests.jobs import job_type, jobs
from tests.pages import nothing_drawn, text_of

pytestmark = pytest.mark.django_db
Start = Callable[..., BulkRun]
# What each list is asked for, by its address.
Lists = dict[str, list[dict[str, str]]]
CITY = {"order": {"city": "北京"}}
LISTS: Lists = {
    "/admin/jobs/job/": [
        {},
        {"type": " mail ", "status": "ready", "_cols": "type,key", "o": "1"},
        {"type": "web"},
        {"where": "context.order.city:北京"},
        {"where": "context.password:x"},
        {"q": "mail-1", "lane": "fast", "from_day": "2020-01-01", "since": "2020-01-01T00:00:00Z"},
    ],
    "/admin/jobs/archivedjob/": [{}],
    "/admin/dispatch/dispatch/": [
        {},
        {"executor": "uid_ann", "state": "open"},
        {"q": "uid_ann"},
        {"where": "params.order.city:北京"},
    ],
    "/admin/dispatch/archiveddispatch/": [{}],
    "/admin/dispatch/oncetask/": [
        {},
        {"q": "check", "mode": "single"},
        {"status": "active", "executor": "uid_ann"},
        {"status": "open"},
        {"where": "params.order.city:北京"},
    ],
    "/admin/dispatch/rotatetask/": [{}, {"status": "paused"}, {"from_day": "2020-01-01"}],
}


def test_each_link_leads_to_a_plan(
    role_client: Callable[[str], Client],
    role_user: Callable[[str], User],
    subtests: pytest.Subtests,
) -> None:
    """For each role, with limits and without; the lists are drawn for those without, and all lists
    and each kind of plan for who is offered all of them."""
    job_type("mail")
    job_type("web")
    jobs(2, context=CITY)
    jobs(1, "web", user_id="uid_ann")
    ann = factories.user("uid_ann")
    factories.once_task(ann, "Check", params=CITY)
    factories.rotation(ann, params=CITY)
    factories.rotation(ann, status="paused")
    callback.take_next(ann)
    roles = ("viewer", "operator", "configurer")
    for role, limit in product(roles, ("", "type", "executor")):
        with subtests.test(role=role, limit=limit), undone():
            client, person = role_client(role), role_user(role)
            if limit == "type":
                JobScope.objects.create(operator=person, type="mail")
            if limit == "executor":
                OperatorScope.objects.create(operator=person, executor=ann)
            is_whole = (role, limit) == ("configurer", "")
            with nothing_drawn() if limit else nullcontext():
                offered = offers(client, LISTS if is_whole else some_of_each())
            drawn = set[str]()
            for link in offered:
                path = link.partition("?")[0]
                with nullcontext() if is_whole and path not in drawn else nothing_drawn():
                    assert client.get(link).status_code == 200, link
                drawn.add(path)
            assert ("Cancel" in offered.values()) == (role != "viewer")
            assert ("Mark done" in offered.values()) == (role == "configurer")
            assert any("where" in link for link in offered) == (role != "viewer")


def some_of_each() -> Lists:
    """Each list as it is, and narrowed to what is in payloads."""
    return {url: [{}, *(each for each in asked if "where" in each)] for url, asked in LISTS.items()}


def offers(client: Client, lists: Lists) -> dict[str, str]:
    """The words of each link of these lists, by where it leads."""
    offered: dict[str, str] = {}
    for url, asked in ((url, asked) for url, each in lists.items() for asked in each):
        listed: Any = client.get(url, asked)
        links = listed.context_data.get("bulk_links", [])
        if page := listed.content.decode():
            assert ('class="bulk-bar"' in page) == bool(links)
        offered |= {link: str(words) for words, link in links}
    return offered


def test_way_back_is_offered_to_who_may_take_it(
    start: Start, role_client: Callable[[str], Client]
) -> None:
    job_type("mail")
    jobs(2)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    page = f"/admin/bulk/bulkrun/{run.pk}/change/"
    assert "Undo…" in text_of(role_client("operator").get(page))
    seen = text_of(role_client("viewer").get(page))
    assert "Done 2" in seen
    assert "Undo…" not in seen


def test_archives_offer_nothing_to_be_done_with_all_that_match(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    """A run is about the live rows, whatever list it was planned from."""
    for name, archive in ARCHIVES.items():
        with subtests.test(archive=name):
            archive.begin()
            archive.archived(1)
            address = f"admin:{archive.there._meta.label_lower.replace('.', '_')}_changelist"
            listed: Any = admin_client.get(reverse(address))
            assert listed.context["cl"].result_count == 1
            assert not listed.context.get("bulk_links")
