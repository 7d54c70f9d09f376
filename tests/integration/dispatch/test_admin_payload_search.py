"""Lists of jobs, dispatches and tasks, and of their archives, by what payloads have at a path.

S1.21.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.test import Client

from apps.dispatch.admin import filters
from apps.dispatch.admin.dispatches import DispatchAdmin
from apps.dispatch.models import Executor, OperatorScope
from apps.jobs.admin.jobs import JobAdmin
from tests import factories, history
from tests.integration.common.test_admin_chips import chips
from tests.integration.dispatch import housekeeping
from tests.integration.jobs.admin.pages import shown
from tests.integration.jobs.admin.test_job_export import exported
from tests.jobs import job_type, jobs
from tests.pages import rows_of, text_of
from tests.statements import sent_by

pytestmark = pytest.mark.django_db

BEIJING: dict[str, Any] = {"order": {"city": "北京"}, "items": [{"sku": "S7"}]}
SHANGHAI = {"order": {"city": "上海"}}


def ended(days: int, count: int = 1, **columns: Any) -> list[int]:
    """Live dispatches that ended so many days ago."""
    return housekeeping.ended(count, ago=timedelta(days=days), **columns)


def planned(make: Callable[..., Any], payload: Any) -> int:
    return int(make(factories.member("uid_alice"), params=payload).pk)


class List(NamedTuple):
    """A list of the admin; `make` makes a row with the payload, `no` is a filter that it misses."""

    url: str
    payloads: tuple[str, ...]
    make: Callable[[Any], int]
    no: dict[str, str]

    def where(self, condition: str) -> str:
        return f"{self.payloads[0]}.{condition}"


JOBS = List(
    "/admin/jobs/job/",
    ("context", "result"),
    lambda payload: jobs(1, context=payload, result={"sent": True})[0],
    {"status": "failed"},
)
JOB_ARCHIVE = List(
    "/admin/jobs/archivedjob/",
    ("context", "result"),
    lambda payload: history.archived(context=payload, result={"sent": True})[0],
    {"status": "failed"},
)
DISPATCHES = List(
    "/admin/dispatch/dispatch/",
    ("params", "result"),
    lambda payload: ended(1, params=payload, result={"sent": True})[0],
    {"state": "open"},
)
DISPATCH_ARCHIVE = List(
    "/admin/dispatch/archiveddispatch/",
    ("params", "result"),
    lambda payload: housekeeping.archived(params=payload, result={"sent": True})[0],
    {"state": "failed"},
)
TASKS = [
    List(
        f"/admin/dispatch/{name}/",
        ("params",),
        lambda payload, make=make: planned(make, payload),  # type: ignore[misc]
        {"status": "paused"},
    )
    for name, make in (("oncetask", factories.once_task), ("rotatetask", factories.rotation))
]
LISTS = [JOBS, JOB_ARCHIVE, DISPATCHES, DISPATCH_ARCHIVE, *TASKS]


@pytest.fixture(autouse=True)
def mail(alice: Executor) -> None:
    job_type("mail")


def listed(client: Client, url: str, **query: str) -> list[int]:
    return [row.pk for row in rows_of(client, url, **query)]


def compared_for(client: Client, url: str, typed: str) -> tuple[Any, list[str]]:
    """The page of this search, and the statements that look into payloads for it."""
    pages: list[Any] = []
    sent = sent_by(lambda: pages.append(client.get(url, {"where": typed})))
    return pages[0], [sql for sql in sent if "json_extract" in sql.lower()]


@pytest.mark.both
def test_rows_are_found_by_what_they_have_at_a_path(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    for each in LISTS:
        _other, ours = each.make(SHANGHAI), each.make(BEIJING)
        conditions = [each.where("order.city:北京"), each.where("items[0].sku:S7")]
        if "result" in each.payloads:
            conditions.append("result.sent:true")
        for typed in (conditions[0], conditions[0].replace(":", "："), " ".join(conditions)):
            with subtests.test(url=each.url, typed=typed):
                assert listed(admin_client, each.url, where=typed) == [ours]
        with subtests.test(url=each.url):
            assert listed(admin_client, each.url, where=each.where("order.city:北")) == []
            assert listed(admin_client, each.url, where=conditions[0], **each.no) == []


@pytest.mark.parametrize("live", [JOBS, DISPATCHES], ids=["jobs", "dispatches"])
def test_way_to_the_archive_keeps_the_search(admin_client: Client, live: List) -> None:
    archive = JOB_ARCHIVE if live is JOBS else DISPATCH_ARCHIVE
    old, _other = archive.make(BEIJING), archive.make(SHANGHAI)
    page = admin_client.get(live.url, {"where": live.where("order.city:北京")})
    assert shown(page) == []
    assert shown(admin_client.get(page.context["older_url"])) == [old]


UNSEARCHABLE = (
    ("context.password:x", "Values of password are masked, and nobody can search for them."),
    ("context.order.city:x context.a.api_key:y", "Values of api_key are masked"),
    ("context.url:https://a:b@c", "context.url is compared with a text that has a password"),
    ("北京", "北京 is no search in a payload; write a path, a colon and the value"),
    ("else.city:x", "A path begins with: context, result."),
    ("context.c*:x", ".c* cannot be searched for; parts of a path are .key"),
    (" ".join(f"context.a{n}:x" for n in range(4)), "More than 3 values; give fewer."),
)


def test_what_cannot_be_searched_for_is_said_and_finds_nothing(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    """Nor is it asked of the database."""
    for each in LISTS:
        each.make({**BEIJING, "password": "x"})
        cases = UNSEARCHABLE if each is JOBS else (UNSEARCHABLE[0], UNSEARCHABLE[4])
        for typed, said in cases:
            typed = typed.replace("context", each.payloads[0])
            said = said.replace("context, result", ", ".join(each.payloads))
            with subtests.test(url=each.url, typed=typed):
                page, compared = compared_for(admin_client, each.url, typed)
                assert shown(page) == compared == []
                assert said.replace("context", each.payloads[0]) in text_of(page)


def test_who_may_not_see_payloads_cannot_search_in_them(
    role_client: Callable[[str], Client], subtests: pytest.Subtests
) -> None:
    """A search that finds a row shows what it has."""
    for each in LISTS:
        each.make(BEIJING)
        typed = each.where("order.city:北京")
        for role in ("viewer", "blind") if each is JOBS else ("blind",):
            with subtests.test(url=each.url, role=role):
                client = role_client(role)
                page, compared = compared_for(client, each.url, typed)
                assert shown(page) == compared == []
                assert "You may not see payloads, so you cannot search in them." in text_of(page)
                assert 'name="where"' not in client.get(each.url).content.decode()
                if each in (JOBS, JOB_ARCHIVE):
                    assert exported(client, f"{each.url}export/?where={typed}") == []
    assert 'name="where"' in role_client("operator").get(JOBS.url).content.decode()


def test_limited_person_finds_nothing_of_others(
    role_client: Callable[[str], Client], role_user: Callable[[str], Any], alice: Executor
) -> None:
    bob = factories.user("uid_bob")
    for each in LISTS[2:]:
        each.make(BEIJING)
    scope = OperatorScope.objects.create(operator=role_user("configurer"), executor=bob)
    client = role_client("configurer")
    for executor, count in ((bob, 0), (alice, 1)):
        OperatorScope.objects.filter(pk=scope.pk).update(executor=executor)
        for each in LISTS[2:]:
            found = listed(client, each.url, where=each.where("order.city:北京"))
            assert len(found) == count, each.url


# --- step by step ---------------------------------------------------------------------------------
@pytest.mark.both
def test_rare_job_is_found_step_by_step_by_one_comparison_a_page(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobAdmin, "max_examined", 4)
    jobs(3)
    rare = JOBS.make(BEIJING)
    jobs(6)
    page, compared = compared_for(admin_client, JOBS.url, "context.order.city:北京")
    assert len(compared) == 1

    assert "These were found among 4 rows" in text_of(page)
    page = admin_client.get(JOBS.url + page.context["cl"].older_url)

    assert shown(page) == [rare]


@pytest.mark.both
def test_dispatches_are_compared_some_at_a_time(
    admin_client: Client, alice: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an index has them in order; of one executor, only its own are counted."""
    monkeypatch.setattr(DispatchAdmin, "max_examined", 3)
    ended(9, 2, executor_id=alice.pk)
    [rare] = ended(8, executor_id=alice.pk, params=BEIJING)
    ended(7, 4, executor_id=alice.pk)
    ended(6, 5, executor_id=factories.user("uid_bob").pk)

    queries: list[dict[str, str]] = [{"executor": "uid_alice"}, {"q": "uid_alice"}, {}]
    for query in queries:
        where = {"where": "params.order.city:北京"}
        page, pages = admin_client.get(DISPATCHES.url, {**query, **where}), 1
        while not shown(page):
            page, pages = admin_client.get(DISPATCHES.url + page.context["cl"].older_url), pages + 1

        assert (shown(page), pages) == ([rare], 2 if query else 4)


@pytest.mark.parametrize("tasks", TASKS, ids=["once", "rotations"])
def test_only_the_newest_tasks_are_looked_at(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, tasks: List
) -> None:
    made = [tasks.make(BEIJING) for _ in range(4)]
    monkeypatch.setattr(filters, "MAX_ONCE", 3)
    page = admin_client.get(tasks.url, {"where": "params.order.city:北京"})
    assert shown(page) == made[:0:-1]
    assert "Only the newest 3 tasks were looked at; choose fewer days." in text_of(page)


def test_condition_typed_into_the_search_box_becomes_the_filter(admin_client: Client) -> None:
    long = "x" * 150
    ours, _other = JOBS.make({**BEIJING, "note": long}), JOBS.make(SHANGHAI)
    for typed in ("context.order.city:北京", " context.order.city：北京", f"context.note:{long}"):
        page = admin_client.get(JOBS.url, {"q": typed, "status": "ready"}, follow=True)
        assert shown(page) == [ours], typed
        kept = chips(admin_client, f"{JOBS.url}?{page.request['QUERY_STRING']}")
        assert [name[:80] for name in kept] == ["Status: ready", f"Payload: {typed.strip()}"[:80]]
    both = {"q": "result.a:b", "where": "context.order.city:北京"}
    assert shown(admin_client.get(JOBS.url, both, follow=True)) == []
    # A sentence of an error is one, and other lists have no such filter.
    assert admin_client.get(JOBS.url, {"q": "context.to: required"}).status_code == 200
    assert admin_client.get("/admin/jobs/worker/", {"q": "context.to:x"}).status_code == 200
