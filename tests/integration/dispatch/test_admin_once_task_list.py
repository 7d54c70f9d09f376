"""Once tasks in the admin: S0.31, I7, I55, I58: the list, the head of a page, the actions, and who
may do what."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from apps.dispatch.admin import task_head
from apps.dispatch.models import OnceTask
from apps.dispatch.services import ending, tasks, templates
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.integration.dispatch.test_admin_once_tasks import LIST, plan, save
from tests.pages import form_of, page_of, rows_of, text_of


# --- the list ---------------------------------------------------------------------------------
def test_list_shows_seven_days_back_and_ahead(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """S0.31: seven days by default, a period when one is chosen, and the whole of a first and
    last day."""
    group = factories.group()
    midnight = frozen_clock.instant.replace(hour=0)
    second = timedelta(seconds=1)
    for title, start_at in (
        ("long ago", midnight - timedelta(days=30)),
        ("too early", midnight - timedelta(days=7) - second),
        ("first", midnight - timedelta(days=7)),
        ("now", frozen_clock.instant),
        ("last", midnight + timedelta(days=8) - second),
        ("too late", midnight + timedelta(days=8)),
    ):
        factories.once_task(group, title=title, start_at=start_at)
    assert titles(admin_client) == ["last", "now", "first"]
    shown = form_of(admin_client.get(LIST), "from_day")
    assert (shown["from_day"], shown["to_day"]) == ("2026-02-23", "2026-03-09")
    period = {"from_day": "2026-01-01", "to_day": "2026-02-22"}
    assert titles(admin_client, **period) == ["too early", "long ago"]
    assert titles(admin_client, from_day="2026-03-10") == ["too late"]
    assert titles(admin_client, to_day="2026-02-01") == ["long ago"]


def test_search_for_a_title_covers_all_times_unless_days_are_given(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    group, long_ago = factories.group(), frozen_clock.instant - timedelta(days=30)
    factories.once_task(group, title="Old count", start_at=long_ago)
    factories.once_task(group, title="New count")
    assert titles(admin_client) == ["New count"]
    assert titles(admin_client, q=" ") == ["New count"]
    assert titles(admin_client, q="count") == ["New count", "Old count"]
    assert titles(admin_client, q="count", from_day="2026-03-01") == ["New count"]


def titles(client: Client, **query: str) -> list[str]:
    return [task.title for task in rows_of(client, LIST, **query)]


def test_filters_and_search(admin_client: Client, subtests: pytest.Subtests) -> None:
    """S0.31: of a group, or of whatever can reach a user."""
    group = factories.group("gid_a", members=["uid_a"])
    factories.user("uid_b")
    factories.once_task(group, title="one")
    factories.once_task(
        factories.member("uid_a"), title="two", mode="blocking", dispatch_times=2, status="paused"
    )
    gone = factories.once_task(group, title="gone")
    tasks.delete_task(task=gone, actor="admin:vera")
    cases: list[tuple[dict[str, str], list[str]]] = [
        ({}, ["two", "one"]),
        ({"status": "deleted"}, ["gone"]),
        ({"status": "paused"}, ["two"]),
        ({"mode": "blocking"}, ["two"]),
        ({"executor": "gid_a"}, ["one"]),
        ({"executor": "uid_a"}, ["two", "one"]),
        ({"executor": "uid_b"}, []),
        ({"q": "tw"}, ["two"]),
    ]
    for query, found in cases:
        with subtests.test(query=query):
            rows = admin_client.get(LIST, query).context["cl"].result_list
            assert [row.title for row in rows] == found


# --- pause, resume, delete ----------------------------------------------------------------------
def test_action_sets_the_status_with_its_reason_once(role_client: Any) -> None:
    """I55, I58: done once, skipped when repeated."""
    operator, group = role_client("operator"), factories.group()
    for name, before, after in (
        ("pause", "active", "paused"),
        ("resume", "paused", "active"),
        ("delete_task", "active", "deleted"),
        ("delete_task", "paused", "deleted"),
    ):
        task = factories.once_task(group, status=before)
        entries = JournalEntry.objects.count()
        data = {"ids": str(task.pk), "reason": "Storm"}
        assert operator.post(f"{LIST}act/{name}/", data).status_code == 302
        task.refresh_from_db()
        assert task.status == after
        entry = JournalEntry.objects.latest("id")
        assert (entry.reason, entry.actor) == ("Storm", "admin:operator")
        assert entry.data["after"] == {"status": after}
        again = operator.post(f"{LIST}act/{name}/", data, follow=True)
        assert "Nothing was left to do." in text_of(again)
        assert JournalEntry.objects.count() == entries + 1


# --- roles and limits ---------------------------------------------------------------------------
def test_who_sees_no_params_plans_some_all_the_same(role_client: Any) -> None:
    factories.group()
    operator = role_client("blind")
    answer = plan(operator, factories.template(), **{"params-value/shop": "Main Street 5"})
    assert answer.status_code == 302
    task = OnceTask.objects.get()
    assert task.params == {"shop": "Main Street 5"}
    page = page_of(operator, task)
    assert "Main Street" not in page.content.decode()
    assert save(operator, task, title="New").status_code == 302
    task.refresh_from_db()
    assert (task.title, task.params) == ("New", {"shop": "Main Street 5"})


def test_operator_with_limits_plans_for_those_executors_only(limited: Any) -> None:
    mine, other = factories.group("gid_mine"), factories.group("gid_other")
    shown = factories.once_task(mine, title="Mine")
    hidden = factories.once_task(other, title="Hidden")
    operator = limited(mine)
    assert titles(operator) == ["Mine"]
    assert page_of(operator, hidden).status_code == 404
    page = save(operator, shown, executor="gid_other")
    assert "There is no person or group 'gid_other'" in text_of(page)
    report = operator.post(f"{LIST}act/pause/", {"ids": f"{shown.pk},{hidden.pk}", "reason": "x"})
    assert "1 row done. 1 row skipped." in text_of(report)
    hidden.refresh_from_db()
    assert hidden.status == "active"


def test_message_about_params_quotes_none_to_an_operator_who_may_not_see_them(
    role_client: Any,
) -> None:
    template = factories.template()
    task = factories.once_task(factories.group(), template=template, params={"shop": "Main St"})
    numbers = {"type": "object", "properties": {"shop": {"type": "integer"}}}
    newer = templates.put_template(name=template.name, schema=numbers, actor="admin:vera")
    page = save(role_client("blind"), task, template=str(newer.pk))
    assert page.status_code == 200
    assert "The stored params do not fit this template" in text_of(page)
    assert "Main St" not in page.content.decode()


# --- the period -----------------------------------------------------------------------------------
def test_bar_shows_the_period_and_leads_to_those_around_it(
    admin_client: Client, frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    """S0.31: each a plain address, that keeps the other filters."""
    day = "2026-03-05"
    cases: list[tuple[str, str, tuple[str, ...] | None, tuple[str, ...] | None, bool]] = [
        ("", "2026-02-23 – 2026-03-09", ("2026-02-08", "2026-02-22"), ("2026-03-10",), False),
        (f"from_day={day}&to_day={day}", f"{day} – {day}", ("2026-03-04",), (), True),
        (f"from_day={day}", f"from {day}", None, None, True),
        (f"to_day={day}", f"until {day}", None, None, True),
    ]
    for query, words, earlier, later, is_chosen in cases:
        with subtests.test(query=query):
            period = admin_client.get(f"{LIST}?{query}&executor=gid_a&p=1").context["period"]
            assert period.words == words
            for address, days in ((period.earlier, earlier), (period.later, later)):
                assert (days is None) == (address == "")
                assert all(day in address for day in days or ())
                assert not address or "executor=gid_a" in address
                assert "p=" not in address
            assert period.usual == ("?executor=gid_a" if is_chosen else "")


def test_days_that_are_none_are_refused_and_no_bar_is_drawn(admin_client: Client) -> None:
    page = admin_client.get(LIST, {"from_day": "soon"})
    assert "soon is not a day" in text_of(page)
    assert page.context["period"] is None


@pytest.fixture
def task(db: None) -> OnceTask:
    """Handed out twice: one dispatch is cancelled, the other open."""
    group = factories.group(members=["uid_a", "uid_b"])
    made = factories.once_task(group, mode="multi", dispatch_times=3)
    first = callback.taken(factories.member("uid_a"))
    ending.cancel(dispatch=first, actor="admin:olga", reason="Closed")
    callback.take_next(factories.member("uid_b"))
    return made


def test_quota_and_who_got_it_come_before_the_form(admin_client: Client, task: OnceTask) -> None:
    page = page_of(admin_client, task).content.decode()
    parts = ("1 of 3 handed out, 2 left", "uid_b", "Cancelled 1", 'name="title"', "Task created")
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "1 / 3" in text_of(admin_client.get("/admin/dispatch/oncetask/"))


COUNT = re.compile(r'<a class="text-link" href="([^"]*)">(\w+) (\d+)</a>')


def counts_of(page: HttpResponse) -> list[tuple[str, str, int]]:
    """The counts of dispatches on a task's page: where each leads to, its state, how many."""
    found = COUNT.findall(page.content.decode())
    return [(html.unescape(url), word, int(number)) for url, word, number in found]


def test_each_count_leads_to_those_dispatches(admin_client: Client, task: OnceTask) -> None:
    found = counts_of(page_of(admin_client, task))
    assert [(word, number) for _url, word, number in found] == [("Open", 1), ("Cancelled", 1)]
    for url, _word, number in found:
        rows = admin_client.get(url).context["cl"].result_list
        assert len(rows) == number


def test_only_the_newest_are_counted(
    admin_client: Client, task: OnceTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_head, "MAX_COUNTED", 1)
    page = page_of(admin_client, task)
    assert "Open 1 among the newest 1 dispatches" in text_of(page)
    assert [(word, number) for _url, word, number in counts_of(page)] == [("Open", 1)]


def test_members_of_a_full_task_are_counted(admin_client: Client) -> None:
    names = ["uid_c", "uid_d"]
    group = factories.group("gid_shops", names)
    task = factories.once_task(group, mode="multi", dispatch_times=None)
    for name in names:
        callback.take_next(factories.member(name))
    page = page_of(admin_client, task)
    assert "Full 2 of 2 members" in text_of(page)
