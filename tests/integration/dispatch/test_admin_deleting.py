"""Deleting in the admin: what keeps a row is shown before it is tried, with what to do first."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.common.errors import Conflict
from apps.dispatch.models import Dispatch, Executor, Membership, OperatorScope
from apps.dispatch.services import blockers, executors, tasks
from tests import factories
from tests.callback import take_next
from tests.integration.dispatch.housekeeping import archived
from tests.pages import text_of

pytestmark = pytest.mark.django_db

OLGA = factories.OPERATOR


def delete_url(row: Any) -> str:
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_delete"
    return reverse(name, args=[row.pk])


def once(executor: Executor) -> None:
    factories.once_task(executor)


def dispatch(executor: Executor) -> None:
    once(factories.group("gid_other", members=[executor.name]))
    assert isinstance(take_next(executor), Dispatch)


def limited_operator(executor: Executor) -> None:
    operator = User.objects.create(username="oscar", is_staff=True)
    OperatorScope.objects.create(operator=operator, executor=executor)


# What refers to an executor, what is said of it, and whether a list shows it.
BLOCKERS: list[tuple[Callable[[Executor], object], str, bool]] = [
    (once, "Once tasks addressed to it: 1; address them to somebody else first.", True),
    (
        factories.rotation,
        "Repeating tasks addressed to it: 1; address them to somebody else first.",
        True,
    ),
    (
        lambda executor: tasks.delete_task(task=factories.once_task(executor), actor=OLGA),
        "Deleted once tasks that were addressed to it: 1; they stay for TASK_RETENTION.",
        True,
    ),
    (
        lambda executor: tasks.delete_task(task=factories.rotation(executor), actor=OLGA),
        "Deleted repeating tasks that were addressed to it: 1; they stay for TASK_RETENTION.",
        True,
    ),
    (
        lambda executor: factories.archived_task("once", executor),
        "Older tasks that were addressed to it: 1; they stay for TASK_RETENTION.",
        True,
    ),
    (
        dispatch,
        "Dispatches that were made to it: 1; they stay for DISPATCH_RETENTION.",
        True,
    ),
    (
        lambda executor: archived(executor_id=executor.pk),
        "Older dispatches that were made to it: 1; they stay for DISPATCH_RETENTION.",
        True,
    ),
    (
        lambda group: executors.change_members(group=group, add=["uid_ben"], actor=OLGA),
        "Users that are its members: 1; remove them from the group first.",
        True,
    ),
    (
        limited_operator,
        "Operators that are limited to it: 1; change their limits first.",
        False,
    ),
]


def test_each_kind_that_names_an_executor_keeps_it_and_is_shown(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    """On the page with a way to it, and to whoever asks the service."""
    for refer, reason, is_listed in BLOCKERS:
        with subtests.test(reason), transaction.atomic():
            kept = factories.group("gid_a") if "members" in reason else factories.user("uid_a")
            refer(kept)
            for send in (admin_client.get, admin_client.post):
                with CaptureQueriesContext(connection) as made:
                    page = send(delete_url(kept), {"post": "yes"})
                assert page.status_code == 200
                text = text_of(page)
                assert f"{kept} cannot be deleted yet:" in text
                assert reason in text
                assert "Or disable it: it then gets no new tasks." in text
                assert "permission" not in text
                # A busy executor has a million of them.
                assert not [each for each in made if re.search('[`"]params[`"]', each["sql"])]
            links = re.findall(r'class="text-link" href="([^"]+)">Show them', page.content.decode())
            assert bool(links) == is_listed
            for link in links:
                shown = admin_client.get(html.unescape(link))
                assert shown.context["cl"].result_count == 1
            refused = f"{kept} cannot be deleted yet: {reason} Or disable it"
            with pytest.raises(Conflict, match=re.escape(refused)):
                executors.remove_executor(executor=kept, actor=OLGA)
            transaction.set_rollback(True)


def test_every_column_that_names_an_executor_blocks_or_goes_along() -> None:
    naming = {(each.related_model, each.field.name) for each in Executor._meta.related_objects}
    counted = {(kind.model, kind.column) for kind in blockers.KINDS}
    assert naming - counted == {(Membership, "user")}
    assert len(BLOCKERS) == len(blockers.KINDS)


def test_members_are_counted_up_to_a_bound(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = factories.group("gid_a", members=["uid_a", "uid_b", "uid_c"])
    monkeypatch.setattr(blockers, "MAX_COUNTED", 2)
    assert "Users that are its members: 2+; remove" in text_of(admin_client.get(delete_url(group)))


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
    assert "cannot be deleted yet: Users that are its members: 1" in text
    assert Executor.objects.filter(pk=group.pk).exists()


def test_what_came_while_it_was_being_deleted_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alice = factories.user("uid_alice")
    once(alice)
    monkeypatch.setattr(executors, "blockers", lambda executor: [])
    with pytest.raises(Conflict, match="Somebody else has just assigned something to uid_alice"):
        executors.remove_executor(executor=alice, actor=OLGA)
    assert Executor.objects.filter(pk=alice.pk).exists()
