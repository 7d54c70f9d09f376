"""For whom the overview is: each sees what their permissions and limits let them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.dispatch.models import Dispatch, OperatorScope
from apps.dispatch.services import pull
from apps.jobs.models import Job, JobScope, JobType
from apps.jobs.services.promote import promote_due
from tests import factories
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.integration.reports.home import closed_until, ended, home, tile, tiles

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def person(*permissions: str) -> Client:
    user = User.objects.create_user("pat", is_staff=True)
    for name in permissions:
        app, _, codename = name.partition(".")
        found = Permission.objects.get(content_type__app_label=app, codename=codename)
        user.user_permissions.add(found)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_box_is_there_only_with_its_permission(
    scene: FrozenClock, subtests: pytest.Subtests
) -> None:
    for permission, prefixes in [
        ("jobs.view_job", {"jobs"}),
        ("dispatch.view_dispatch", {"dispatches"}),
        ("jobs.view_worker", {"workers", "slots"}),
        ("common.view_sweeplease", {"beat", "late", "clock"}),
        ("jobs.view_jobtype", set()),
        ("reports.view_rollup", set()),
    ]:
        with subtests.test(permission=permission), undone():
            html = home(person(permission))
            assert {key.partition("-")[0] for key in tiles(html)} == prefixes
            assert "overview-types" not in html


def test_notice_is_for_those_who_see_its_subject_and_offers_what_they_may_do(
    scene: FrozenClock, role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    made = JobType.objects.get(name="mail")
    JobType.objects.filter(pk=made.pk).update(paused=True, pause_reason="New server")
    resume = f'href="{reverse("admin:jobs_jobtype_act", args=["resume"])}?ids={made.pk}"'
    for permission, sees in (("jobs.operate_jobtype", False), ("jobs.view_jobtype", True)):
        with undone():
            html = home(person("jobs.view_job", permission))
            assert ("New server" in html, resume in html) == (sees, False)
    html = home(role_client("operator"))
    assert ("New server" in html, resume in html) == (True, True)
    # Limited to the type, and to another one.
    JobScope.objects.create(operator=role_user("operator"), type="mail")
    html = home(role_client("operator"))
    assert ("New server" in html, resume in html) == (True, True)
    JobScope.objects.update(type="sms")
    assert "New server" not in home(role_client("operator"))


def test_totals_need_their_permission_besides(scene: FrozenClock) -> None:
    html = home(person("jobs.view_job", "reports.view_rollup"))
    assert {key.partition("-")[0] for key in tiles(html)} == {"jobs", "job"}
    assert "overview-types" in html
    assert "overview-groups" not in html


def test_person_without_a_role_gets_nothing(scene: FrozenClock) -> None:
    client = person()
    assert "overview" not in home(client).replace("overview.js", "")
    assert client.get(reverse("overview")).content.decode().strip() == ""


def test_planner_with_limits_counts_their_own_tasks(
    scene: FrozenClock, role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    soon = clock.now() + timedelta(hours=1)
    for name in ("gid_shops", "gid_nights", "gid_nights"):
        factories.once_task(factories.member(name), end_at=soon)
    shown = tiles(home(role_client("operator")))
    assert (shown["tasks-unfilled"], shown["tasks-ending"]) == ("3", "3")
    shops = factories.member("gid_shops")
    OperatorScope.objects.create(operator=role_user("operator"), executor=shops)
    shown = tiles(home(role_client("operator")))
    assert (shown["tasks-unfilled"], shown["tasks-ending"]) == ("1", "1")
    html = home(person("dispatch.view_dispatch", "dispatch.view_executor"))
    assert "executors-silent" in tiles(html)
    assert "tasks-ending" not in tiles(html)


def test_operator_with_scopes_sees_dispatches_of_their_executors_only(
    scene: FrozenClock, role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    user = role_user("operator")
    OperatorScope.objects.create(operator=user, executor=factories.member("uid_ann"))
    factories.once_task(factories.member("uid_ann"), "Mine")
    factories.once_task(factories.member("uid_eve"), "Another's")
    for uid in ("uid_ann", "uid_eve"):
        pull.answer_pull(uid)
    until = closed_until()
    own = [
        each
        for each in ended("dispatch", until - timedelta(hours=1), until)
        if each.executor == "uid_ann"
    ]

    html = home(role_client("operator"))

    assert Dispatch.objects.filter(state="open").count() == 2
    assert tile(html, "dispatches-open") == "1"
    assert own
    assert tile(html, "dispatch-ended") == str(len(own))
    assert "dispatch-in" not in tiles(html)
    assert "gid_nights" not in html
    # They count the jobs of other users as well.
    assert "overview-tile-job-ended" not in html


def test_operator_with_job_types_sees_their_jobs_and_nothing_of_dispatch(
    scene: FrozenClock, role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    promote_due()
    shown = tiles(home(role_client("operator")))
    states = ("ready", "scheduled", "running", "failed")
    name = Job.objects.filter(status="ready").order_by("run_at")[0].type
    own = Job.objects.filter(type=name)
    assert Job.objects.exclude(type=name).filter(status__in=states).exists()
    JobScope.objects.create(operator=role_user("operator"), type=name)
    factories.once_task(factories.member("uid_ann"), "Of nobody I know")

    html = home(role_client("operator"))

    mine = tiles(html)
    for state in states:
        assert mine[f"jobs-{state}"] == str(own.filter(status=state).count()), state
    assert mine["jobs-due"] == shown["jobs-due"] != "–"
    assert not any(key.startswith(("dispatch", "tasks", "executors")) for key in mine)
    # They count the jobs of all types.
    assert "job-ended" not in mine
    for page in ("dispatch_dispatch", "dispatch_oncetask", "dispatch_executor"):
        listed = role_client("operator").get(reverse(f"admin:{page}_changelist"))
        assert "uid_ann" not in listed.content.decode(), page
