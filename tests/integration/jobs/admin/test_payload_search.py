"""The lists of jobs and of their archive by what payloads have at a path. S1.21."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.jobs.admin.jobs import JobAdmin
from tests.history import archived
from tests.integration.common.test_admin_chips import chips
from tests.integration.jobs.admin.pages import LIST, shown
from tests.integration.jobs.admin.test_job_export import exported
from tests.jobs import job_type, jobs
from tests.pages import text_of
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]
ARCHIVE = "/admin/jobs/archivedjob/"
BEIJING: dict[str, Any] = {"order": {"city": "北京"}, "items": [{"sku": "S7"}]}


@pytest.fixture(autouse=True)
def mail(frozen_clock: Any) -> None:
    job_type("mail")


def compared_for(client: Client, url: str, typed: str) -> tuple[Any, list[str]]:
    """The page of this search, and the statements that look into payloads for it."""
    pages: list[Any] = []
    sent = sent_by(lambda: pages.append(client.get(url, {"where": typed})))
    return pages[0], [sql for sql in sent if "json_extract" in sql.lower()]


def test_jobs_are_found_by_context_and_result(admin_client: Client) -> None:
    [ours] = jobs(1, context=BEIJING, result={"sent": True})
    jobs(2, context={"order": {"city": "上海"}})
    for typed in (
        "context.order.city:北京",
        "context.items[0].sku:S7",
        "result.sent:true",
        "context.order.city:北京 context.items[0].sku:S7 result.sent:true",
        "context.order.city：北京",
    ):
        assert shown(admin_client.get(LIST, {"where": typed})) == [ours], typed
    assert shown(admin_client.get(LIST, {"where": "context.order.city:北"})) == []
    both = {"where": "context.order.city:北京", "status": "failed"}
    assert shown(admin_client.get(LIST, both)) == []


def test_archive_is_searched_too_and_the_way_there_keeps_the_search(admin_client: Client) -> None:
    [old] = archived(context=BEIJING)
    archived(context={"order": {"city": "上海"}})
    live = admin_client.get(LIST, {"where": "context.order.city:北京"})
    assert shown(live) == []
    assert shown(admin_client.get(live.context["older_url"])) == [old]


UNSEARCHABLE = (
    ("context.password:x", "Values of password are masked, and nobody can search for them."),
    ("context.order.city:x context.a.api_key:y", "Values of api_key are masked"),
    ("context.url:https://a:b@c", "context.url is compared with a text that has a password"),
    ("北京", "北京 is no search in a payload; write a path, a colon and the value"),
    ("params.city:x", "A path begins with: context, result."),
    ("context.c*:x", ".c* cannot be searched for; parts of a path are .key"),
    (" ".join(f"context.a{n}:x" for n in range(4)), "More than 3 values; give fewer."),
)


@pytest.mark.parametrize("url", [LIST, ARCHIVE])
def test_what_cannot_be_searched_for_is_said_and_finds_nothing(
    admin_client: Client, url: str, subtests: pytest.Subtests
) -> None:
    jobs(2)
    for typed, said in UNSEARCHABLE:
        with subtests.test(typed=typed):
            page, compared = compared_for(admin_client, url, typed)
            assert shown(page) == []
            assert said in text_of(page)
            # Nor is it asked of the database.
            assert compared == []


def test_who_may_not_see_payloads_cannot_search_in_them(
    role_client: Callable[[str], Client],
) -> None:
    """A search that finds a job shows what it has."""
    jobs(1, context=BEIJING)
    archived(context=BEIJING)
    for role in ("viewer", "operator"):
        client = role_client(role)
        for url in (LIST, ARCHIVE):
            assert 'name="where"' not in client.get(url).content.decode()
            page, compared = compared_for(client, url, "context.order.city:北京")
            assert shown(page) == compared == []
            assert "You may not see payloads, so you cannot search in them." in text_of(page)
            assert exported(client, f"{url}export/?where=context.order.city:北京") == []
    page = role_client("configurer").get(LIST, {"where": "context.order.city:北京"})
    assert len(shown(page)) == 1
    assert 'name="where"' in page.content.decode()


def test_rare_payload_is_found_step_by_step_by_one_comparison_a_page(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobAdmin, "max_examined", 4)
    numbers = jobs(3)
    [rare] = jobs(1, context=BEIJING)
    jobs(6)
    page, compared = compared_for(admin_client, LIST, "context.order.city:北京")
    assert len(compared) == 1

    pages = 1
    while not shown(page):
        assert "These were found among 4 rows" in text_of(page)
        page, pages = admin_client.get(LIST + page.context["cl"].older_url), pages + 1

    assert (shown(page), pages) == ([rare], 2)
    assert numbers[0] < rare


def test_condition_typed_into_the_search_box_becomes_the_filter(admin_client: Client) -> None:
    long = "x" * 150
    [ours] = jobs(1, context={**BEIJING, "note": long})
    jobs(2, context={"order": {"city": "上海"}})
    for typed in ("context.order.city:北京", " context.order.city：北京", f"context.note:{long}"):
        page = admin_client.get(LIST, {"q": typed, "status": "ready"}, follow=True)
        assert shown(page) == [ours], typed
        kept = chips(admin_client, f"{LIST}?{page.request['QUERY_STRING']}")
        assert [name[:80] for name in kept] == ["Status: ready", f"Payload: {typed.strip()}"[:80]]
    both = {"q": "result.a:b", "where": "context.order.city:北京"}
    assert shown(admin_client.get(LIST, both, follow=True)) == []
    # A sentence of an error is one, and other lists have no such filter.
    assert admin_client.get(LIST, {"q": "context.to: required"}).status_code == 200
    assert admin_client.get("/admin/jobs/worker/", {"q": "context.to:x"}).status_code == 200
