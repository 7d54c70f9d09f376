"""People with limits: what lies outside, they neither see nor change. I60."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from apps.access.models import ApiClient, Limited
from apps.access.services import create_client
from apps.dispatch.models import Dispatch, Executor, OnceTask, OperatorScope
from apps.jobs.models import Job, JobScope, JobType, bounds_of
from apps.jobs.services import types
from tests import factories
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.pages import form_of, text_of
from tests.statements import sent_by

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga(role_user: Callable[[str], User]) -> User:
    return role_user("configurer")


@pytest.fixture
def page(role_client: Callable[[str], Client], olga: User) -> Client:
    return role_client("configurer")


def again(person: User) -> User:
    """The person as the next request reads it: an object keeps the limits that it has read."""
    return User.objects.get(pk=person.pk)


def names_of(person: User) -> tuple[list[str] | None, list[str] | None]:
    """The executors and job types that the person is limited to now."""
    return OperatorScope.names_of(again(person)), JobScope.names_of(again(person))


def limit(person: User, *executors: Executor, types: tuple[str, ...] = ()) -> None:
    for executor in executors:
        OperatorScope.objects.create(operator=person, executor=executor)
    for name in types:
        JobScope.objects.create(operator=person, type=name)


# --- a limit stays --------------------------------------------------------------------------------
def test_whose_last_executor_is_deleted_sees_nothing(olga: User) -> None:
    north = factories.group("gid_north", ["uid_ann"])
    factories.once_task(factories.user("uid_bob"))
    limit(olga, north)

    Executor.objects.filter(pk=north.pk).delete()

    assert not OperatorScope.objects.exists()
    assert OperatorScope.names_of(olga) == []
    for rows in (Executor.objects, OnceTask.objects, Dispatch.objects):
        assert not rows.visible_to(olga).exists()


def test_whose_last_scope_is_removed_sees_nothing_until_the_limit_is_lifted(olga: User) -> None:
    factories.user("uid_bob")
    factories.job("mail")
    limit(olga, factories.user("uid_ann"), types=("sms",))

    OperatorScope.objects.all().delete()
    JobScope.objects.all().delete()

    assert not Executor.objects.visible_to(olga).exists()
    assert not Job.objects.visible_to(olga).exists()
    Limited.objects.all().delete()
    olga = again(olga)
    assert Executor.objects.visible_to(olga).exists()
    assert Job.objects.visible_to(olga).exists()


def test_whose_type_is_deleted_sees_no_other(olga: User) -> None:
    limit(olga, types=("sms",))
    factories.job("mail")
    JobType.objects.filter(name="sms").delete()

    assert not Job.objects.visible_to(olga).exists()
    assert not JobType.objects.visible_to(olga).exists()


def test_superuser_is_never_limited(admin_user: User) -> None:
    limit(admin_user, factories.user("uid_ann"), types=("sms",))

    assert OperatorScope.names_of(admin_user) is None
    assert bounds_of(admin_user).are_open


def test_limits_are_given_and_lifted_on_the_page_of_the_account(
    admin_client: Client, olga: User
) -> None:
    group = factories.group("gid_north")
    url = reverse("admin:auth_user_change", args=[olga.pk])
    rows = {
        "executor_scopes-TOTAL_FORMS": "1",
        "executor_scopes-0-executor": str(group.pk),
        "executor_scopes-0-operator": str(olga.pk),
        "job_scopes-TOTAL_FORMS": "1",
        "job_scopes-0-type": "mail",
        "job_scopes-0-operator": str(olga.pk),
    }
    form = form_of(admin_client.get(url), "username")
    assert admin_client.post(url, {**form, **rows, "_save": "Save"}).status_code == 302
    assert names_of(olga) == (["gid_north"], ["mail"])

    form = form_of(admin_client.get(url), "username")
    removed = {f"{each}-0-DELETE": "on" for each in ("executor_scopes", "job_scopes")}
    assert admin_client.post(url, {**form, **removed, "_save": "Save"}).status_code == 302
    assert names_of(olga) == ([], [])

    form = form_of(admin_client.get(url), "username")
    lifted = {"limits-0-DELETE": "on", "limits-1-DELETE": "on"}
    assert admin_client.post(url, {**form, **lifted, "_save": "Save"}).status_code == 302
    assert names_of(olga) == (None, None)


# --- jobs ---------------------------------------------------------------------------------------
def test_jobs_are_limited_by_type_and_by_user(olga: User, subtests: pytest.Subtests) -> None:
    north = factories.group("gid_north", ["uid_ann"])
    factories.job(key="anns", user_id="uid_ann")
    factories.job(key="bobs", user_id="uid_bob")
    factories.job(key="nobodys")
    factories.job("sms", key="sms")
    for names, with_group, seen in [
        ((), False, {"anns", "bobs", "nobodys", "sms"}),
        (("mail",), False, {"anns", "bobs", "nobodys"}),
        ((), True, {"anns", "nobodys", "sms"}),
        (("mail",), True, {"anns", "nobodys"}),
        (("fax",), True, set()),
    ]:
        with subtests.test(types=names, with_group=with_group), undone():
            limit(olga, *([north] if with_group else []), types=names)
            assert {*Job.objects.visible_to(again(olga)).values_list("key", flat=True)} == seen


@pytest.fixture
def foreign(olga: User) -> Job:
    """A failed job of another type and user, while olga is limited to mail and gid_north."""
    limit(olga, factories.group("gid_north", ["uid_ann"]), types=("mail",))
    factories.job(key="own-1", user_id="uid_ann")
    made = factories.job("sms", key="foreign-1", user_id="uid_bob")
    Job.objects.filter(pk=made.pk).update(status="failed", memo="foreign broke", error_key="e" * 32)
    return made


@pytest.mark.both
def test_foreign_job_is_in_no_list_and_no_search(page: Client, foreign: Job) -> None:
    urls = [
        "/admin/jobs/job/",
        "/admin/jobs/job/?status=failed",
        f"/admin/jobs/job/?q={foreign.pk}",
        "/admin/search/?term=foreign-1",
        f"/admin/search/?term={foreign.pk}",
        "/admin/",
    ]
    for url in urls:
        answer = page.get(url, follow=True)
        assert answer.status_code == 200
        assert f"/job/{foreign.pk}/" not in answer.content.decode(), url
    assert "own-1" in text_of(page.get("/admin/jobs/job/"))


ASKED_OF_TYPES = (
    *("jobs/job/?type={}", "jobs/archivedjob/?type={}", "schedules/schedule/?type={}"),
    *("jobs/job/add/?type={}", "reports/?source=job&only=type:{}", "jobs/jobtype/?q={}"),
)


@pytest.mark.parametrize("address", ASKED_OF_TYPES)
def test_foreign_type_is_answered_as_one_that_does_not_exist(
    address: str, page: Client, foreign: Job, frozen_clock: FrozenClock
) -> None:
    JobType.objects.filter(name="sms").update(limit_by="user", limit_running=1)

    def said(name: str) -> str:
        shown = text_of(page.get(f"/admin/{address.format(name)}", follow=True))
        # Pages that renew themselves say when they were drawn.
        return re.sub(r"\d\d:\d\d:\d\d", "NOW", shown.replace(name, "NAME"))

    assert said("sms") == said("fax")
    assert "Blocked" not in said("sms")


@pytest.mark.both
def test_job_for_others_is_not_submitted(page: Client, foreign: Job) -> None:
    url = reverse("admin:jobs_job_add")
    form = form_of(page.get(url), "type")
    before = Job.objects.count()

    for given in ({"type": "sms"}, {"type": "mail", "user_id": "uid_bob"}):
        answer = page.post(url, {**form, **given, "_save": "Save"})
        assert answer.status_code == 200
    assert Job.objects.count() == before

    assert page.post(url, {**form, "user_id": "uid_ann", "_save": "Save"}).status_code == 302
    assert Job.objects.count() == before + 1


def test_journal_of_foreign_types_and_of_keys_is_hidden_from_who_is_limited_to_types(
    page: Client, olga: User
) -> None:
    """They see what was done to their types, and nothing of dispatch."""
    limit(olga, types=("mail",))
    for name in ("mail", "sms"):
        factories.job_type(name)
        types.pause_type(
            job_type=JobType.objects.get(name=name), actor="admin:root", reason=f"a {name}"
        )
    create_client(name="Secret shop", scopes=["read"], actor="ann")
    factories.once_task(factories.user("uid_bob"), "Check the shelf")

    text = text_of(page.get("/admin/journal/journalentry/"))

    assert "a mail" in text
    assert "uid_bob" not in text
    assert "a sms" not in text
    assert ApiClient.objects.get().client_id not in text


@pytest.mark.both
def test_keys_are_in_no_menu_no_list_no_search_and_no_link(page: Client, foreign: Job) -> None:
    row, _key = create_client(name="Secret shop", scopes=["read"], actor="ann")
    keys = reverse("admin:access_apiclient_changelist")
    factories.worker(types=["mail"], client=row.client_id, kind="http")

    assert page.get(keys).status_code == 403
    assert page.get(reverse("admin:access_apiclient_change", args=[row.pk])).status_code == 403
    for url in ("/admin/", f"/admin/search/?term={row.client_id}", "/admin/jobs/worker/"):
        assert keys not in page.get(url).content.decode(), url


@pytest.mark.both
def test_who_was_limited_before_there_were_marks_stays_limited(olga: User) -> None:
    migration = importlib.import_module("apps.dispatch.migrations.0002_limited_operators")
    limit(olga, factories.user("uid_ann"), factories.user("uid_bob"))
    Limited.objects.all().delete()

    for _ in range(2):
        migration.limit_operators(apps, SimpleNamespace(connection=connection))
    OperatorScope.objects.all().delete()

    assert OperatorScope.names_of(olga) == []
    assert JobScope.names_of(olga) is None


@pytest.mark.parametrize("address", ["admin:jobs_job_changelist", "admin:index"])
def test_each_limit_of_a_person_is_read_once_for_a_page(
    page: Client, olga: User, address: str
) -> None:
    limit(olga, factories.user("uid_ann"), types=("mail",))
    page.get(reverse(address))

    statements = sent_by(lambda: page.get(reverse(address)))

    for name in (OperatorScope, JobScope):
        assert sum(name._meta.db_table in each for each in statements) == 1
