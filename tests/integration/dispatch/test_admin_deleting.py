"""Deleting in the admin: what keeps a row is shown before it is tried, with what to do first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.common.errors import Conflict
from apps.dispatch.models import Dispatch, Executor, OperatorScope
from apps.dispatch.services import executors, tasks
from tests import factories
from tests.callback import take_next
from tests.pages import text_of

pytestmark = pytest.mark.django_db

ONCE = "/admin/dispatch/oncetask/"


def delete_url(row: Any) -> str:
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_delete"
    return reverse(name, args=[row.pk])


def once(executor: Executor) -> None:
    factories.once_task(executor)


def deleted_rotation(executor: Executor) -> None:
    tasks.delete_task(task=factories.rotation(executor), actor="admin:olga")


def dispatch(executor: Executor) -> None:
    once(factories.group("gid_other", members=[executor.name]))
    assert isinstance(take_next(executor), Dispatch)


@pytest.mark.parametrize(
    ("refer", "reason", "link"),
    [
        (
            once,
            "1 once task is addressed to it; address it to another executor first.",
            f"{ONCE}?executor=uid_alice&amp;from_day=1970-01-01",
        ),
        (
            factories.rotation,
            "1 rotation is addressed to it; address it to another executor first.",
            "/admin/dispatch/rotatetask/?executor=uid_alice",
        ),
        (
            deleted_rotation,
            "1 deleted task was addressed to it, which stays for TASK_RETENTION.",
            "/admin/dispatch/rotatetask/?executor=uid_alice&amp;status=deleted",
        ),
        (
            dispatch,
            "1 dispatch was made to it, which stays for DISPATCH_RETENTION.",
            "/admin/dispatch/dispatch/?executor=uid_alice",
        ),
    ],
)
def test_what_refers_to_an_executor_is_shown_with_a_way_to_it(
    admin_client: Client, refer: Callable[[Executor], object], reason: str, link: str
) -> None:
    alice = factories.user("uid_alice")
    refer(alice)
    for send in (admin_client.get, admin_client.post):
        with CaptureQueriesContext(connection) as made:
            page = send(delete_url(alice), {"post": "yes"})
        assert page.status_code == 200
        text = text_of(page)
        assert "uid_alice cannot be deleted yet:" in text
        assert reason in text
        assert "Or disable it: it then gets no new tasks." in text
        assert f'href="{link}"' in page.content.decode()
        assert "permission" not in text
        # A busy executor has a million of them.
        assert not [each for each in made if "`params`" in each["sql"] or '"params"' in each["sql"]]
    assert admin_client.get(link.replace("&amp;", "&")).status_code == 200
    assert Executor.objects.filter(pk=alice.pk).exists()


def test_members_are_counted_up_to_a_bound(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = factories.group("gid_a", members=["uid_a", "uid_b", "uid_c"])
    assert "3 users are its members; remove them from" in text_of(
        admin_client.get(delete_url(group))
    )
    monkeypatch.setattr(executors, "MAX_COUNTED", 2)
    assert "2+ users are its members" in text_of(admin_client.get(delete_url(group)))


def test_executor_that_an_operator_is_limited_to_stays(
    admin_client: Client, role_user: Callable[[str], User]
) -> None:
    """Without its last limit the operator would see all executors."""
    shop = factories.group("gid_shop")
    OperatorScope.objects.create(operator=role_user("operator"), executor=shop)
    page = text_of(admin_client.get(delete_url(shop)))
    assert "1 operator is limited to it and would then see everything" in page
    with pytest.raises(Conflict, match="operators are limited to it"):
        executors.remove_executor(executor=shop, actor="admin:olga")


def test_reason_is_shown_in_chinese(admin_client: Client) -> None:
    alice = factories.user("uid_alice")
    once(alice)
    page = text_of(admin_client.get(delete_url(alice), headers={"Accept-Language": "zh-hans"}))
    assert "暂时无法删除 uid_alice：" in page
    assert "有 1 个一次性任务派给它；请先改派给其他执行者。" in page


def test_what_nothing_refers_to_is_asked_for_once_more(admin_client: Client) -> None:
    alice = factories.user("uid_alice")
    page = text_of(admin_client.get(delete_url(alice)))
    assert "Are you sure you want to delete" in page
    assert "uid_alice" in page
    assert admin_client.post(delete_url(alice), {"post": "yes"}).status_code == 302
    assert not Executor.objects.exists()


def test_what_came_between_page_and_deletion_is_shown(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = factories.group("gid_a", members=["uid_a"])
    monkeypatch.setattr("apps.dispatch.admin.executors.blocker_sentences", lambda row: [])
    answer = admin_client.post(delete_url(group), {"post": "yes"})
    assert answer.status_code == 302
    text = text_of(admin_client.get(answer["Location"]))
    assert "cannot be deleted, because users are its members" in text
    assert Executor.objects.filter(pk=group.pk).exists()


def test_what_came_while_it_was_being_deleted_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alice = factories.user("uid_alice")
    once(alice)
    monkeypatch.setattr(executors, "blockers", lambda executor: {})
    with pytest.raises(Conflict, match="Somebody else has just assigned something to uid_alice"):
        executors.remove_executor(executor=alice, actor="admin:olga")
    assert Executor.objects.filter(pk=alice.pk).exists()
