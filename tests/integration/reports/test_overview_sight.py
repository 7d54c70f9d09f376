"""For whom the overview is: each sees what their permissions and limits let them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils.timezone import localtime

from apps.common import clock
from apps.dispatch.models import Dispatch, OperatorScope
from apps.dispatch.services import pull
from apps.jobs.models import Job, JobScope, JobType
from apps.jobs.services import types
from apps.jobs.services.promote import promote_due
from tests import factories
from tests.emptying import undone
from tests.integration.reports.history import entry, write
from tests.integration.reports.home import ended, figures, home
from tests.jobs import jobs

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("scene")]


def person(*permissions: str) -> Client:
    user = User.objects.create_user("pat", is_staff=True)
    for name in permissions:
        app, _, codename = name.partition(".")
        found = Permission.objects.get(content_type__app_label=app, codename=codename)
        user.user_permissions.add(found)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_figure_is_there_only_with_its_permission(subtests: pytest.Subtests) -> None:
    for permission, keys in [
        ("jobs.view_job", {"waiting"}),
        ("dispatch.view_dispatch", {"open"}),
        ("dispatch.view_executor", set()),
        ("jobs.view_worker", set()),
        ("jobs.view_jobtype", set()),
        ("reports.view_rollup", set()),
    ]:
        with subtests.test(permission=permission), undone():
            html = home(person(permission))
            assert {*figures(html)} == keys
            assert "overview-trends" not in html
            assert "home-type-" not in html


def test_notice_is_for_those_who_see_its_subject_and_offers_what_they_may_do(
    role_user: Callable[[str], User], role_client: Callable[[str], Client]
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


def test_pause_of_an_own_type_is_seen_with_both_limits_and_nothing_of_foreign_jobs(
    role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    user = role_user("operator")
    JobScope.objects.create(operator=user, type="mail")
    OperatorScope.objects.create(operator=user, executor=factories.group("gid_mine"))
    promote_due()
    for name, reason in (("mail", "New server"), ("sms", "New provider")):
        row = JobType.objects.get(name=name)
        types.pause_type(job_type=row, reason=reason, actor="admin:hugo")
    assert "jobs wait" in home(role_client("configurer"))
    client = role_client("operator")

    html = home(client)

    said = f"mail is paused by hugo since {localtime(clock.now()):%H:%M}"
    assert f"<bdi>{said}</bdi>" in html and "“New server” · no end was set" in html
    assert "1 thing needs you" in html
    for page in (html, client.get(reverse("problems")).content.decode()):
        assert said in page
        assert not any(foreign in page for foreign in ("sms", "New provider", "job waits", "wait<"))
        assert "jobs wait" not in page
    # The type of the one, the people of the other.
    JobScope.objects.update(type="sms")
    assert "New server" not in home(client)
    JobScope.objects.all().delete()
    assert "is paused" not in home(client)


def test_totals_need_their_permission_besides() -> None:
    html = home(person("jobs.view_job", "reports.view_rollup"))
    assert {*figures(html)} == {"waiting", "succeeded", "wait", "run"}
    assert "overview-trends" in html
    assert "dispatches ended" not in html


def test_person_without_a_role_gets_nothing() -> None:
    client = person()
    assert "overview" not in home(client).replace("overview.js", "")
    assert client.get(reverse("overview")).content.decode().strip() == ""


def test_operator_with_scopes_sees_dispatches_of_their_executors_only(
    role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    user = role_user("operator")
    OperatorScope.objects.create(operator=user, executor=factories.member("uid_ann"))
    factories.once_task(factories.member("uid_ann"), "Mine")
    factories.once_task(factories.member("uid_eve"), "Another's")
    for uid in ("uid_ann", "uid_eve"):
        pull.answer_pull(uid)
    start = clock.now().replace(second=0, microsecond=0) - timedelta(minutes=59)
    own = [each for each in ended("dispatch", start, clock.now()) if each.executor == "uid_ann"]

    html = home(role_client("operator"))

    assert Dispatch.objects.filter(state="open").count() == 2
    shown = figures(html)
    assert shown["open"].value == "1"
    assert own
    assert f"dispatches ended: {len(own)}" in html
    assert "gid_nights" not in html
    # They would count the jobs of other users as well.
    assert not {"waiting", "succeeded"} & {*shown}


def test_operator_with_job_types_sees_their_jobs_and_nothing_of_dispatch(
    role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    promote_due()
    jobs(3, "sms")
    factories.once_task(factories.member("uid_ann"), "Of nobody I know")
    JobScope.objects.create(operator=role_user("operator"), type="mail")
    start = clock.now().replace(second=0, microsecond=0) - timedelta(minutes=59)
    own = [each for each in ended("job", start, clock.now()) if each.type_or_task == "mail"]
    ready = Job.objects.filter(type="mail", status="ready").count()
    write(entry(clock.now(), type_or_task="sms"))

    html = home(role_client("operator"))

    shown = figures(html)
    assert {*shown} == {"waiting", "succeeded", "wait", "run"}
    assert shown["waiting"].value == str(ready)
    assert f"jobs ended: {len(own)}," in html
    assert "home-type-mail" in html
    assert "home-type-sms" not in html
    for page in ("dispatch_dispatch", "dispatch_oncetask", "dispatch_executor"):
        listed = role_client("operator").get(reverse(f"admin:{page}_changelist"))
        assert "uid_ann" not in listed.content.decode(), page
