"""Accounts and roles in the admin: what is logged, and that nobody raises themselves."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.dispatch.models import OperatorScope
from tests import alerts, factories
from tests.pages import form_of, text_of

PASSWORD = "correct horse battery"


def test_permissions_are_shown_in_the_language_of_the_page(admin_client: Client) -> None:
    url = reverse("admin:auth_group_change", args=[Group.objects.get(name="viewer").pk])
    page = admin_client.get(url, headers={"accept-language": "zh-hans"}).content.decode()
    offered = re.findall(r"<option[^>]*>([^<]+)</option>", page)
    assert "作业 | 作业 | 可以取消、重试、立即运行和编辑作业" in offered
    assert "作业 | 作业 | 可以查看" in offered
    assert [text for text in offered if "Can " in text] == []


def test_roles_are_called_so_on_every_page(admin_client: Client) -> None:
    """A group is one of executors here."""
    vera = User.objects.create_user("vera")
    for name, args in (("group_changelist", []), ("group_add", []), ("user_change", [vera.pk])):
        url = reverse(f"admin:auth_{name}", args=args)
        for language, role, group in (("en", "Role", "Group"), ("zh-hans", "角色", " 组 ")):
            page = text_of(admin_client.get(url, headers={"accept-language": language}))
            assert role in page
            assert group not in page


# --- staff who may edit accounts ------------------------------------------------------------------
def clerk_of(client: Client, pattern: str) -> User:
    """Signed in, with the permissions whose names match."""
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__regex=pattern))
    client.force_login(clerk, backend="django.contrib.auth.backends.ModelBackend")
    return clerk


def test_staff_who_may_edit_accounts_cannot_raise_themselves(client: Client, db: None) -> None:
    user = clerk_of(client, "^(change|view)_user$")
    url = reverse("admin:auth_user_change", args=[user.pk])
    form = form_of(client.get(url), "username")
    answer = client.post(url, {**form, "is_superuser": "on", "groups": ["1"], "_save": "Save"})
    assert answer.status_code == 302
    user.refresh_from_db()
    assert not user.is_superuser
    assert user.groups.count() == 0


def test_staff_who_may_edit_groups_cannot_raise_their_own(client: Client, db: None) -> None:
    group = Group.objects.create(name="clerks")
    group.permissions.set(Permission.objects.filter(codename__in=["change_group", "view_group"]))
    clerk_of(client, "^$").groups.add(group)
    more = Permission.objects.get(codename="change_oncetask").pk

    url = reverse("admin:auth_group_change", args=[group.pk])
    form = form_of(client.get(url), "name")
    answer = client.post(url, {**form, "name": "office", "permissions": [more], "_save": "Save"})

    assert answer.status_code == 302
    group.refresh_from_db()
    assert group.name == "office"
    names = set(group.permissions.values_list("codename", flat=True))
    assert names == {"change_group", "view_group"}


def test_staff_with_limits_who_may_edit_accounts_cannot_lift_their_own(
    client: Client, db: None
) -> None:
    clerk = clerk_of(client, "_(user|operatorscope|executor)$")
    scope = OperatorScope.objects.create(operator=clerk, executor=factories.group("gid_north"))
    url = reverse("admin:auth_user_change", args=[clerk.pk])
    lifted = {
        "executor_scopes-TOTAL_FORMS": "1",
        "executor_scopes-INITIAL_FORMS": "1",
        "executor_scopes-0-id": str(scope.pk),
        "executor_scopes-0-operator": str(clerk.pk),
        "executor_scopes-0-executor": str(scope.executor_id),
        "executor_scopes-0-DELETE": "on",
    }

    client.post(url, {**form_of(client.get(url), "username"), **lifted, "_save": "Save"})

    assert OperatorScope.names_of(clerk) == ["gid_north"]


def test_staff_who_may_edit_accounts_cannot_take_over_that_of_a_superuser(
    client: Client, db: None
) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    clerk = clerk_of(client, "_user$")
    new = {"password1": "brand-new-Horse-7", "password2": "brand-new-Horse-7", "post": "yes"}

    for page in ("change/", "password/", "delete/"):
        answer = client.post(f"/admin/auth/user/{root.pk}/{page}", {**new, "username": "mine"})
        assert answer.status_code == 403, page

    root.refresh_from_db()
    assert root.check_password(PASSWORD)
    own = client.get(f"/admin/auth/user/{clerk.pk}/change/")
    assert own.status_code == 200


# --- two who edit one row -------------------------------------------------------------------------
@pytest.mark.both
def test_form_of_an_account_takes_back_no_later_change(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    """An old tab in which somebody corrected an address opened a closed account again, and gave
    back the roles that had been taken."""
    for name, change in {
        "closed": lambda row: User.objects.filter(pk=row.pk).update(is_active=False),
        "role taken": lambda row: row.groups.clear(),
        "role given": lambda row: row.groups.add(Group.objects.get(name="configurer")),
        "renamed": lambda row: User.objects.filter(pk=row.pk).update(first_name="Vera"),
    }.items():
        with subtests.test(change=name):
            row = User.objects.create_user(name.replace(" ", "-"), is_staff=True)
            row.groups.add(Group.objects.get(name="operator"))
            url = reverse("admin:auth_user_change", args=[row.pk])
            form = form_of(admin_client.get(url), "username")
            change(row)
            before = User.objects.filter(pk=row.pk).values().get(), [*row.groups.all()]

            answer = admin_client.post(url, {**form, "email": "v@example.com", "_save": "Save"})

            assert answer.status_code == 409
            assert "v@example.com" in text_of(answer)
            assert (User.objects.filter(pk=row.pk).values().get(), [*row.groups.all()]) == before


@pytest.mark.both
def test_form_of_a_role_takes_back_no_later_change(admin_client: Client) -> None:
    role = Group.objects.create(name="clerks")
    url = reverse("admin:auth_group_change", args=[role.pk])
    form = form_of(admin_client.get(url), "name")
    role.permissions.add(Permission.objects.get(codename="view_job"))

    answer = admin_client.post(url, {**form, "name": "office", "_save": "Save"})

    assert answer.status_code == 409
    assert [*role.permissions.values_list("codename", flat=True)] == ["view_job"]


def test_sign_in_meanwhile_is_no_change(admin_client: Client) -> None:
    row = User.objects.create_user("vera")
    url = reverse("admin:auth_user_change", args=[row.pk])
    form = form_of(admin_client.get(url), "username")
    row.set_password(PASSWORD)
    row.last_login = clock.now()
    row.save()

    answer = admin_client.post(url, {**form, "email": "v@example.com", "_save": "Save"})

    assert answer.status_code == 302
    row.refresh_from_db()
    assert (row.email, row.check_password(PASSWORD)) == ("v@example.com", True)


def test_page_before_a_deletion_names_the_reports_that_stop(admin_client: Client) -> None:
    vera = User.objects.create_user("vera")
    alerts.report_plan(vera, "Every <i>morning</i>")
    page = admin_client.get(reverse("admin:auth_user_delete", args=[vera.pk]))

    assert "The report “Every <i>morning</i>” stays, but is not sent" in text_of(page)
