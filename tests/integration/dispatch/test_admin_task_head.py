"""The page of a task begins with its quota, who got it, and how that went."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.dispatch.admin import task_head
from apps.dispatch.models import OnceTask
from apps.dispatch.services import ending
from tests import callback, factories
from tests.pages import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def task(db: None) -> OnceTask:
    """Handed out twice: one dispatch is cancelled, the other open."""
    group = factories.group(members=["uid_a", "uid_b"])
    made = factories.once_task(group, mode="multi", dispatch_times=3)
    first = callback.taken(factories.member("uid_a"))
    ending.cancel(dispatch=first, actor="admin:olga", reason="Closed")
    callback.take_next(factories.member("uid_b"))
    return made


def page_of(client: Client, task: OnceTask) -> str:
    address = reverse("admin:dispatch_oncetask_change", args=[task.pk])
    return client.get(address).content.decode()


def test_quota_and_who_got_it_come_before_the_form(admin_client: Client, task: OnceTask) -> None:
    page = page_of(admin_client, task)
    parts = ("1 of 3 handed out, 2 left", "uid_b", "Cancelled 1", 'name="title"', "Task created")
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "1 / 3" in text_of(admin_client.get("/admin/dispatch/oncetask/"))


def test_each_count_leads_to_those_dispatches(admin_client: Client, task: OnceTask) -> None:
    found = re.findall(
        r'<a class="text-link" href="([^"]*)">(\w+) (\d+)</a>', page_of(admin_client, task)
    )
    assert [(word, number) for _url, word, number in found] == [("Open", "1"), ("Cancelled", "1")]
    for url, _word, number in found:
        rows = admin_client.get(html.unescape(url)).context["cl"].result_list
        assert len(rows) == int(number)


def test_only_the_newest_are_counted(
    admin_client: Client, task: OnceTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_head, "MAX_COUNTED", 1)
    address = reverse("admin:dispatch_oncetask_change", args=[task.pk])
    text = text_of(admin_client.get(address))
    assert "Open 1 among the newest 1 dispatches" in text
    assert "Cancelled 1" not in text


def test_members_of_a_full_task_are_counted(admin_client: Client) -> None:
    names = ["uid_c", "uid_d"]
    group = factories.group("gid_shops", names)
    task = factories.once_task(group, mode="multi", dispatch_times=None)
    for name in names:
        callback.take_next(factories.member(name))
    page = admin_client.get(reverse("admin:dispatch_oncetask_change", args=[task.pk]))
    assert "Full 2 of 2 members" in text_of(page)
