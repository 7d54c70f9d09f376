"""The archive of tasks in the admin: its list and pages, links that hold, restoring."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.dispatch.models import ArchivedTask, OnceTask
from apps.journal.models import JournalEntry
from tests import factories
from tests.pages import text_of

pytestmark = [pytest.mark.django_db]

ARCHIVE = "/admin/dispatch/archiveddispatch/"
TASKS = "/admin/dispatch/archivedtask/"


@pytest.fixture(autouse=True)
def ann(frozen_clock: Any) -> Any:
    return factories.user("uid_ann")


@pytest.fixture
def old_task(ann: Any) -> ArchivedTask:
    factories.archived_task("once", ann)
    return ArchivedTask.objects.get()


def test_search_finds_it_by_its_number(admin_client: Client, old_task: ArchivedTask) -> None:
    found = admin_client.get(f"/admin/search/?term={old_task.task}", follow=True)
    assert f"{TASKS}{old_task.pk}/change/" in found.content.decode() + str(found.redirect_chain)


def test_link_to_a_task_holds_when_it_has_gone(
    admin_client: Client, old_task: ArchivedTask
) -> None:
    url = reverse("admin:dispatch_oncetask_change", args=[old_task.task])
    answer: Any = admin_client.get(url)
    assert answer["Location"] == f"{TASKS}{old_task.pk}/change/"
    text = text_of(admin_client.get(answer["Location"]))
    assert "Check the old shelf" in text
    assert "Task created" in text


def test_task_is_restored_with_a_reason(admin_client: Client, old_task: ArchivedTask) -> None:
    """S0.8: under its number, and paused."""
    url = f"{TASKS}act/restore/"
    assert "and paused" in text_of(admin_client.get(f"{url}?ids={old_task.pk}"))
    refused = admin_client.post(url, {"ids": old_task.pk, "reason": " "})
    assert refused.status_code == 200
    assert not OnceTask.objects.exists()

    done: Any = admin_client.post(url, {"ids": old_task.pk, "reason": "The shop asks again"})

    assert "1 task restored; it is paused." in text_of(
        admin_client.get(done["Location"], follow=True)
    )
    task = OnceTask.objects.get()
    assert (task.pk, task.status) == (old_task.task, "paused")
    assert not ArchivedTask.objects.exists()
    entry = JournalEntry.objects.get(event="restored")
    assert (entry.actor, entry.reason) == ("admin:admin", "The shop asks again")
