"""What people did: in sentences, by name, many alike as one; and its undo."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from apps.bulk.services import runs
from apps.bulk.services.selection import stored
from apps.bulk.services.targets import target_of
from apps.common import clock
from apps.common.acting import acting
from apps.common.admin.html import page_url
from apps.dispatch.models import OnceTask, OperatorScope
from apps.dispatch.services import bulk, queue, tasks
from apps.jobs.models import Job, JobType, bounds_of
from apps.jobs.services import control, types
from apps.journal.models import JournalEntry
from apps.journal.services.edit import record_edit
from tests import factories
from tests.alerts import channel
from tests.frozen import FrozenClock
from tests.integration.bulk.conftest import carry_out
from tests.jobs import job_type, jobs
from tests.pages import text_of

pytestmark = pytest.mark.django_db


def seen(client: Client, **asked: str) -> str:
    return " ".join(text_of(client.get(reverse("activity"), asked)).split())


def told(client: Client) -> list[str]:
    """The sentences of today, without who did it, newest first."""
    [(_day, lines)] = client.get(reverse("activity")).context["days"]
    return [html.unescape(strip_tags(line["sentence"])) for line in lines]


def test_what_changed_and_by_whom_is_a_sentence(admin_client: Client) -> None:
    task = factories.once_task(factories.user(), title="Count % “the till”")
    tasks.update_task(task=task, changes={"priority": 55}, actor="admin:admin")

    text = seen(admin_client)

    assert "admin changed priority of once task Count % “the till” from 0 to 55" in text


def test_each_act_is_a_sentence_with_the_kinds_and_names(admin_client: Client) -> None:
    actor = "admin:admin"
    group = factories.group("gid_shops")
    bob = User.objects.create_user("bob")
    task = factories.once_task(factories.user("uid_ann"), title="Count {all} <b>")
    tasks.update_task(task=task, changes={"priority": 5, "title": "Count"}, actor=actor)
    others = OnceTask.objects.exclude(pk=task.pk)
    for name in ("北店", "南店", "东店", "西店"):
        factories.once_task(factories.user(f"uid_{ord(name[0])}"), title=name)
    bulk.change(others, "pause", actor=actor, reason="x")
    queue.rebuilt(executor=group, now=clock.now(), actor=actor)
    types.pause_type(job_type=job_type("mail"), actor=actor, reason="Storm")
    with acting(actor):
        bob.groups.add(Group.objects.create(name="Readers"), Group.objects.create(name="Writers"))
    for number in jobs(2, key="k-1"):
        control.cancel(job=Job.objects.get(pk=number), actor=actor, reason="Twice")

    assert told(admin_client) == [
        "cancelled jobs mail · k-1 and 1 more",
        "gave account bob the roles Readers, Writers",
        "created roles Readers, Writers",
        "paused job type mail",
        "rebuilt the queue of group gid_shops",
        "changed status of once tasks 北店, 南店, 东店 and 1 more from active to paused",
        "changed priority and title of once task Count",
    ]
    text = seen(admin_client)
    assert "admin paused job type mail “Storm”" in text
    assert "Count priority: 0 → 5 title: Count {all} <b> → Count" in text
    admin_client.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    assert told(admin_client) == [
        "取消了作业 mail · k-1 及另外 1 个",
        "授予账号 bob 角色 Readers、Writers",
        "创建了角色 Readers、Writers",
        "暂停了作业类型 mail",
        "重建了组 gid_shops 的队列",
        "把一次性任务 北店、南店、东店及另外 1 个的状态从有效改为已暂停",
        "修改了一次性任务 Count 的优先级和标题",
    ]
    assert "优先级： 0 → 5" in seen(admin_client)


def test_one_role_and_one_permission_are_told_as_one(admin_client: Client) -> None:
    bob = User.objects.create_user("bob")
    operator = Group.objects.get(name="operator")
    names = ["view_job", "view_jobtype"]
    rights = Permission.objects.filter(codename__in=names).order_by("codename")
    with acting("admin:admin"):
        bob.groups.add(operator)
        bob.groups.remove(operator)
        bob.user_permissions.add(rights[0])
        bob.user_permissions.add(*rights)

    assert told(admin_client) == [
        "gave account bob the permission jobs.view_jobtype",
        "gave account bob the permission jobs.view_job",
        "took the role operator from account bob",
        "gave account bob the role operator",
    ]
    admin_client.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    assert told(admin_client)[2:] == ["收回了账号 bob 的角色操作员", "授予账号 bob 角色操作员"]


def test_files_are_told_by_what_they_have(admin_client: Client, admin_user: User) -> None:
    job_type()
    jobs(2)
    factories.user("uid_ann")
    run = runs.start(
        selection=stored(target_of("jobs"), {"type": "mail"}),
        verb="cancel",
        params={},
        at_most=None,
        actor="admin:admin",
        reason="x",
        bounds=bounds_of(admin_user),
    )
    carry_out(run)
    for url in (
        "/admin/jobs/job/export/?type=mail",
        "/admin/dispatch/executor/export/",
        "/admin/reports/csv/?source=job&by=type",
        reverse("admin:bulk_bulkrun_csv", args=[run.pk]),
    ):
        assert admin_client.get(url).status_code == 200

    files = [
        f"2 rows of bulk run {run.pk} as CSV",
        "the report “Jobs · By type” as CSV",
        "1 person or group as CSV",
        "2 jobs as CSV",
    ]
    assert told(admin_client)[:4] == [f"exported {file}" for file in files]
    everything = text_of(admin_client.get(reverse("admin:journal_journalentry_changelist")))
    assert [file for file in files if file not in everything] == []
    assert "/export/" not in seen(admin_client) + everything
    admin_client.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    assert told(admin_client)[3] == "导出了 2 条作业（CSV）"
    # As earlier releases have told it.
    JournalEntry.objects.filter(event="exported").update(data=None)
    assert told(admin_client)[0] == "已导出：账号 admin"


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

    response = admin_client.get(reverse(tab))
    page = response.content.decode()

    for row in (*made.values(), JobType.objects.get()):
        assert f'href="{page_url(type(row), row.pk)}"' in page
    assert "ops" in page and "channel:" not in page
    assert f"channel {number}" in " ".join(text_of(response).split()).casefold()
    assert reverse("admin:alerts_channel_change", args=[number]) not in page


def test_many_alike_in_a_row_are_one_and_undone_from_there(admin_client: Client) -> None:
    job_type()
    numbers = jobs(5)
    for number in numbers:
        job = Job.objects.get(pk=number)
        control.cancel(job=job, actor="admin:admin", reason="Wrong list")

    page = admin_client.get(reverse("activity"))
    [(_day, [line])] = page.context["days"]
    told = strip_tags(line["sentence"])
    assert re.fullmatch(r"cancelled jobs \d+ · mail, \d+ · mail, \d+ · mail and 2 more", told)

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
