"""What people did: in sentences, by name, many alike as one; and its undo."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.common.admin.html import page_url
from apps.dispatch.models import OnceTask, OperatorScope
from apps.dispatch.services import bulk, tasks
from apps.jobs.models import Job, JobType
from apps.jobs.services import control
from apps.journal.services.edit import record_edit
from tests import factories
from tests.alerts import channel
from tests.frozen import FrozenClock
from tests.jobs import job_type, jobs
from tests.pages import text_of

pytestmark = pytest.mark.django_db


def seen(client: Client, **asked: str) -> str:
    return " ".join(text_of(client.get(reverse("activity"), asked)).split())


def test_what_changed_and_by_whom_is_a_sentence(admin_client: Client) -> None:
    task = factories.once_task(factories.user(), title="Count % “the till”")
    tasks.update_task(task=task, changes={"priority": 55}, actor="admin:admin")

    text = seen(admin_client)

    assert "admin changed priority from 0 to 55 : Count % “the till”" in text


@pytest.mark.both
@pytest.mark.parametrize("tab", ["activity", "admin:journal_journalentry_changelist"])
def test_what_was_changed_has_its_name_and_leads_there(admin_client: Client, tab: str) -> None:
    made = {"channel:1": channel("ops"), "executor": factories.group("gid_shops")}
    job_type("mail")
    for row in made.values():
        record_edit(
            row,
            f"{row.journal_name.partition(':')[0]}_changed",
            now=clock.now(),
            actor="admin:admin",
        )
    record_edit(JobType.objects.get(), "type_changed", now=clock.now(), actor="admin:admin")
    gone = channel("old")
    record_edit(gone, "channel_deleted", now=clock.now(), actor="admin:admin")
    number = gone.pk
    gone.delete()

    page = admin_client.get(reverse(tab)).content.decode()

    for row in (*made.values(), JobType.objects.get()):
        assert f'href="{page_url(type(row), row.pk)}"' in page
    assert "ops" in page and "channel:" not in page
    assert f"Channel {number}" in page
    assert reverse("admin:alerts_channel_change", args=[number]) not in page


def test_many_alike_in_a_row_are_one_and_undone_from_there(admin_client: Client) -> None:
    job_type()
    numbers = jobs(5)
    for number in numbers:
        job = Job.objects.get(pk=number)
        control.cancel(job=job, actor="admin:admin", reason="Wrong list")

    page = admin_client.get(reverse("activity"))
    [(_day, [line])] = page.context["days"]
    assert line["count"] == 5 and line["more"] == 2

    admin_client.post(line["undo"])
    assert {*Job.objects.filter(pk__in=numbers).values_list("status", flat=True)} == {"ready"}


def test_day_and_person_narrow_it(
    admin_client: Client, role_user: Callable[[str], User], frozen_clock: FrozenClock
) -> None:
    other = role_user("operator").username
    first = factories.once_task(factories.user(), title="Aa")
    second = factories.once_task(factories.user("uid_bob"), title="Bb")
    bulk.change(OnceTask.objects.filter(pk=first.pk), "pause", actor=f"admin:{other}", reason="x")
    yesterday = clock.now().date().isoformat()
    frozen_clock.advance(days=1)
    bulk.change(OnceTask.objects.filter(pk=second.pk), "pause", actor="admin:admin", reason="x")

    assert "Aa" in seen(admin_client) and "Bb" in seen(admin_client)
    assert "Bb" not in seen(admin_client, by=other)
    assert "Bb" not in seen(admin_client, day=yesterday)
    assert "Aa" in seen(admin_client, day="no day")


def test_limited_people_read_only_of_their_own(role_client: Callable[[str], Client]) -> None:
    mine, other = factories.user("uid_mine"), factories.user("uid_other")
    for executor, title in ((mine, "Mine"), (other, "Foreign")):
        task = factories.once_task(executor, title=title)
        tasks.update_task(task=task, changes={"priority": 1}, actor="admin:operator")
    client = role_client("operator")
    person = User.objects.get(pk=client.session["_auth_user_id"])
    OperatorScope.objects.create(operator=person, executor=mine)

    text = seen(client, by="operator")

    assert "Mine" in text and "Foreign" not in text and "uid_other" not in text
