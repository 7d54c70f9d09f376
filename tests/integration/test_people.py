"""The journal tells who changed accounts, roles and limits, who signed in and what was exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from apps.common.acting import acting
from apps.dispatch.models import OperatorScope
from apps.journal.models import JournalEntry, Source
from tests import factories
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db
PASSWORD = "correct-Horse-7"


def entries() -> list[tuple[str, str, str]]:
    """Event, name and actor of each entry about people, oldest first."""
    rows = JournalEntry.objects.filter(source=Source.PEOPLE).order_by("id")
    return [(row.event, row.type_or_task, row.actor) for row in rows]


def last(event: str) -> JournalEntry:
    return JournalEntry.objects.filter(source=Source.PEOPLE, event=event).latest("id")


def change(client: Client, account: User, **fields: Any) -> None:
    url = reverse("admin:auth_user_change", args=[account.pk])
    form = form_of(client.get(url), "username")
    assert client.post(url, {**form, **fields, "_save": "Save"}).status_code == 302


@pytest.fixture
def olga(db: None) -> User:
    return User.objects.create_user("olga", password=PASSWORD, is_staff=True)


# --- accounts -----------------------------------------------------------------------------------
def test_change_of_an_account_is_told_with_before_and_after(
    admin_client: Client, olga: User
) -> None:
    change(admin_client, olga, is_superuser="on", email="olga@shop.example")

    assert entries() == [("account_changed", "olga", "admin:admin")]
    entry = last("account_changed")
    assert entry.subject_id == olga.pk
    assert entry.data == {
        "before": {"email": "", "is_superuser": False},
        "after": {"email": "olga@shop.example", "is_superuser": True},
    }


def test_new_password_is_told_without_it(admin_client: Client, olga: User) -> None:
    url = reverse("admin:auth_user_password_change", args=[olga.pk])
    new = {"password1": "brand-new-Horse-8", "password2": "brand-new-Horse-8"}

    assert admin_client.post(url, {**new, "usable_password": "true"}).status_code == 302

    assert entries() == [("password_changed", "olga", "admin:admin")]
    assert last("password_changed").data is None


def test_roles_and_permissions_are_told_by_name(admin_client: Client, olga: User) -> None:
    viewer = Group.objects.get(name="viewer")
    payload = Permission.objects.get(codename="view_payload", content_type__app_label="jobs")

    change(admin_client, olga, groups=[viewer.pk], user_permissions=[payload.pk])
    change(admin_client, olga, groups=[], user_permissions=[])

    assert sorted(event for event, *_ in entries()) == [
        "permissions_given",
        "permissions_taken",
        "roles_given",
        "roles_taken",
    ]
    assert last("roles_given").data == {"given": "viewer"}
    assert last("permissions_taken").data == {"taken": "jobs.view_payload"}


def test_change_of_a_role_is_told(admin_client: Client) -> None:
    group = Group.objects.create(name="office")
    permission = Permission.objects.get(codename="change_oncetask")
    url = reverse("admin:auth_group_change", args=[group.pk])

    form = form_of(admin_client.get(url), "name")
    typed = {"name": "clerks", "permissions": [permission.pk], "_save": "Save"}
    admin_client.post(url, {**form, **typed})
    admin_client.post(reverse("admin:auth_group_delete", args=[group.pk]), {"post": "yes"})

    assert entries() == [
        ("role_changed", "clerks", "admin:admin"),
        ("permissions_given", "clerks", "admin:admin"),
        ("role_deleted", "clerks", "admin:admin"),
    ]
    assert last("permissions_given").data == {"given": "dispatch.change_oncetask"}


@pytest.mark.both
def test_entries_keep_the_name_of_a_deleted_account(admin_client: Client, olga: User) -> None:
    change(admin_client, olga, first_name="Olga")
    OperatorScope.objects.create(operator=olga, executor=factories.group("gid_north"))

    admin_client.post(reverse("admin:auth_user_delete", args=[olga.pk]), {"post": "yes"})

    assert not User.objects.filter(username="olga").exists()
    assert ("account_changed", "olga", "admin:admin") in entries()
    assert ("limit_removed", "olga", "admin:admin") in entries()
    assert entries()[-1] == ("account_deleted", "olga", "admin:admin")
    page = admin_client.get("/admin/journal/journalentry/?source=people")
    assert text_of(page).count("olga") >= 3


def test_limits_are_told(admin_client: Client, olga: User) -> None:
    group = factories.group("gid_north")
    row = {"executor_scopes-0-executor": str(group.pk), "executor_scopes-0-operator": str(olga.pk)}

    change(admin_client, olga, **{"executor_scopes-TOTAL_FORMS": "1", **row})

    assert ("limit_set", "olga", "admin:admin") in entries()
    told = [row.data for row in JournalEntry.objects.filter(event="limit_set")]
    assert {"executor": "gid_north"} in told
    assert {"side": "executors"} in told


def test_what_a_command_changes_is_of_the_shell_and_roles_of_a_migration_are_not_told() -> None:
    with acting("shell"):
        User.objects.create_user("nora", email="nora@shop.example")
        call_command("migrate", verbosity=0)

    assert entries() == [("account_created", "nora", "shell")]


# --- sign-ins -----------------------------------------------------------------------------------
def sign_in(client: Client, name: str, password: str) -> Any:
    return client.post("/admin/login/", {"username": name, "password": password})


def test_sign_ins_and_failures_are_told_with_the_address(client: Client, olga: User) -> None:
    sign_in(client, "olga", "wrong")
    sign_in(client, "nobody", "wrong")
    sign_in(client, "olga", PASSWORD)
    client.post("/admin/logout/")

    assert entries() == [
        ("sign_in_failed", "olga", ""),
        ("sign_in_failed", "nobody", ""),
        ("signed_in", "olga", "admin:olga"),
        ("signed_out", "olga", "admin:olga"),
    ]
    assert {row.data["address"] for row in JournalEntry.objects.filter(source="people")} == {
        "127.0.0.1"
    }
    assert "wrong" not in str(list(JournalEntry.objects.values_list("data", "reason")))


def test_lock_is_told_once_however_often_it_is_tried(
    client: Client,
    olga: User,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    frozen_clock: FrozenClock,
) -> None:
    """The log has every try with name and address, and never the password."""
    cache.clear()
    settings.SIGN_IN_LIMIT = 6
    for name in (*["olga"] * 8, "no\nbody", "eve"):
        sign_in(client, name, "wrong-one")

    tried = [line.getMessage() for line in caplog.records if "sign-in" in line.getMessage()]
    assert tried == [
        *["sign-in as 'olga' from 127.0.0.1 failed"] * 8,
        "sign-in as 'no\\nbody' from 127.0.0.1 failed",
        "sign-in as 'eve' from 127.0.0.1 refused: too many tries",
    ]
    assert "wrong-one" not in caplog.text
    entered = [each for each in entries() if each[1] == "olga"]
    events = sorted(event for event, *_ in entered)
    assert events == ["sign_in_failed"] * 5 + ["sign_in_locked"]


# --- exports and readers ------------------------------------------------------------------------
def test_exports_are_told_with_what_was_asked_for(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    for url in [
        "/admin/dispatch/executor/export/",
        "/admin/dispatch/oncetask/export/",
        "/admin/reports/csv/?source=job&by=type",
    ]:
        with subtests.test(url=url), undone():
            answer = admin_client.get(url)

            kind = answer["Content-Type"].partition(";")[0]
            assert (answer.status_code, kind) == (200, "text/csv")
            assert entries() == [("exported", "admin", "admin:admin")]
            assert last("exported").data["url"] == url


def test_only_those_who_see_accounts_read_about_them(
    admin_client: Client, role_client: Callable[[str], Client], olga: User
) -> None:
    change(admin_client, olga, first_name="Olga")
    entry = last("account_changed")
    url = reverse("admin:journal_journalentry_change", args=[entry.pk])

    assert "olga" not in text_of(role_client("configurer").get("/admin/journal/journalentry/"))
    assert role_client("configurer").get(url).status_code == 404
    assert admin_client.get(url).status_code == 200
