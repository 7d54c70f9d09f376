"""Lists of dispatches and tasks by what payloads have at a path."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.dispatch.admin import filters
from apps.dispatch.admin.dispatches import DispatchAdmin
from apps.dispatch.models import Executor, OperatorScope
from tests import factories
from tests.integration.dispatch import housekeeping
from tests.pages import nothing_drawn, text_of

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("frozen_clock"),
    pytest.mark.both,
]
DISPATCHES = "admin:dispatch_dispatch_changelist"
ARCHIVE = "admin:dispatch_archiveddispatch_changelist"
TASKS = {
    "admin:dispatch_oncetask_changelist": factories.once_task,
    "admin:dispatch_rotatetask_changelist": factories.rotation,
}
BEIJING: dict[str, Any] = {"order": {"city": "北京"}}
WHERE = "params.order.city:北京"


def ended(days: int, count: int = 1, **columns: Any) -> list[int]:
    """Live dispatches that ended so many days ago."""
    return housekeeping.ended(count, ago=timedelta(days=days), **columns)


def listed(client: Client, url: str, **query: str) -> list[int]:
    """The rows of the list, which is not drawn."""
    with nothing_drawn():
        page: Any = client.get(reverse(url), query)
    return [row.pk for row in page.context_data["cl"].result_list]


def test_dispatches_are_found_by_params_and_result(admin_client: Client, alice: Executor) -> None:
    [ours] = ended(2, params=BEIJING, result={"photos": 3})
    [other] = ended(1, params={"order": {"city": "上海"}}, result=None)
    assert listed(admin_client, DISPATCHES, where=WHERE) == [ours]
    assert listed(admin_client, DISPATCHES, where=f"{WHERE} result.photos:3") == [ours]
    assert listed(admin_client, DISPATCHES, where=f"{WHERE} result.photos:4") == []
    assert listed(admin_client, DISPATCHES, where="params.order.city:上海") == [other]


def test_way_to_the_archive_keeps_the_search(admin_client: Client, alice: Executor) -> None:
    [old] = housekeeping.archived(params=BEIJING)
    housekeeping.archived(ago=timedelta(days=40), params={"order": {"city": "上海"}})
    page = admin_client.get(reverse(DISPATCHES), {"where": WHERE})
    found = admin_client.get(page.context["older_url"])
    assert [row.pk for row in found.context["cl"].result_list] == [old]
    assert listed(admin_client, ARCHIVE, where=WHERE, executor="uid_alice") == [old]


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
        page, pages = admin_client.get(reverse(DISPATCHES), {**query, "where": WHERE}), 1
        while not page.context["cl"].result_list:
            older = page.context["cl"].older_url
            page, pages = admin_client.get(reverse(DISPATCHES) + older), pages + 1

        assert [row.pk for row in page.context["cl"].result_list] == [rare]
        assert pages == (2 if query else 4)


@pytest.mark.parametrize("url", TASKS)
def test_tasks_are_found_by_params(admin_client: Client, alice: Executor, url: str) -> None:
    make: Any = TASKS[url]
    ours = make(alice, params=BEIJING)
    make(alice, params={"order": {"city": "上海"}})
    assert listed(admin_client, url, where=WHERE) == [ours.pk]
    assert listed(admin_client, url, where=WHERE, status="paused") == []
    said = text_of(admin_client.get(reverse(url), {"where": "result.a:x"}))
    assert "A path begins with: params." in said


@pytest.mark.parametrize("url", TASKS)
def test_only_the_newest_tasks_are_looked_at(
    admin_client: Client, alice: Executor, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    make: Any = TASKS[url]
    made = [make(alice, params=BEIJING).pk for _ in range(4)]
    monkeypatch.setattr(filters, "MAX_ONCE", 3)
    page = admin_client.get(reverse(url), {"where": WHERE})
    assert [row.pk for row in page.context["cl"].result_list] == made[:0:-1]
    assert "Only the newest 3 tasks were looked at; choose fewer days." in text_of(page)


def test_what_is_masked_and_what_one_may_not_see_is_not_searched(
    admin_client: Client, role_client: Callable[[str], Client], alice: Executor
) -> None:
    for make in TASKS.values():
        make(alice, params={**BEIJING, "password": "x"})
    housekeeping.archived(params={**BEIJING, "password": "x"})
    ended(1, params={**BEIJING, "password": "x"})
    operator = role_client("operator")
    for url in (DISPATCHES, ARCHIVE, *TASKS):
        assert len(listed(admin_client, url, where=WHERE)) == 1

        masked = admin_client.get(reverse(url), {"where": "params.password:x"})
        hidden = operator.get(reverse(url), {"where": WHERE})

        assert "Values of password are masked" in text_of(masked)
        assert "You may not see payloads" in text_of(hidden)
        assert [*masked.context["cl"].result_list, *hidden.context["cl"].result_list] == []
        assert 'name="where"' not in operator.get(reverse(url)).content.decode()


def test_limited_person_finds_nothing_of_others(
    role_client: Callable[[str], Client], role_user: Callable[[str], Any], alice: Executor
) -> None:
    bob = factories.user("uid_bob")
    for make in TASKS.values():
        make(alice, params=BEIJING)
    housekeeping.archived(executor_id=alice.pk, params=BEIJING)
    ended(1, executor_id=alice.pk, params=BEIJING)
    scope = OperatorScope.objects.create(operator=role_user("configurer"), executor=bob)
    client = role_client("configurer")
    for executor, count in ((bob, 0), (alice, 1)):
        OperatorScope.objects.filter(pk=scope.pk).update(executor=executor)
        for url in (DISPATCHES, ARCHIVE, *TASKS):
            assert len(listed(client, url, where=WHERE)) == count, url
