"""One page makes an account with its role, its limits and the right to sign in."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from apps.dispatch.models import OperatorScope
from apps.jobs.models import JobScope
from apps.journal.models import JournalEntry, Source
from tests import factories
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db

ADD = reverse("admin:auth_user_add")
NAMED = {
    "username": "nora",
    "usable_password": "true",
    "password1": "brand-new-Horse-7",
    "password2": "brand-new-Horse-7",
}


def filled(client: Client, **typed: Any) -> dict[str, Any]:
    return {**form_of(client.get(ADD), "username"), **NAMED, **typed, "_save": "Save"}


def test_role_limits_and_staff_are_set_with_the_account(admin_client: Client) -> None:
    north, operator = factories.group("gid_north"), Group.objects.get(name="operator")
    typed = {
        "groups": [str(operator.pk)],
        "executor_scopes-TOTAL_FORMS": "1",
        "executor_scopes-0-executor": str(north.pk),
        "job_scopes-TOTAL_FORMS": "1",
        "job_scopes-0-type": "mail",
    }

    answer = admin_client.post(ADD, filled(admin_client, **typed))

    assert answer.status_code == 302, text_of(answer)
    nora = User.objects.get(username="nora")
    assert nora.is_staff and not nora.is_superuser
    assert list(nora.groups.all()) == [operator]
    assert OperatorScope.names_of(nora) == ["gid_north"]
    assert JobScope.names_of(nora) == ["mail"]
    events = JournalEntry.objects.filter(source=Source.PEOPLE, type_or_task="nora")
    assert {"account_created", "roles_given", "limit_set"} <= set(
        events.values_list("event", flat=True)
    )


def test_staff_without_a_role_is_refused_and_the_page_says_what_each_role_may(
    admin_client: Client,
) -> None:
    answer = admin_client.post(ADD, filled(admin_client))

    assert not User.objects.filter(username="nora").exists()
    shown = text_of(answer)
    assert "Choose a role; without one the account sees nothing on these pages." in shown
    assert "viewer – reads all but params, contexts and results" in shown


def test_account_that_does_not_sign_in_needs_no_role(admin_client: Client) -> None:
    typed = filled(admin_client)
    del typed["is_staff"]

    assert admin_client.post(ADD, typed).status_code == 302
    assert not User.objects.get(username="nora").is_staff


def test_who_is_no_superuser_cannot_hand_out_roles_with_a_new_account(client: Client) -> None:
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__endswith="_user"))
    client.force_login(clerk, backend="django.contrib.auth.backends.ModelBackend")
    role = Group.objects.get(name="configurer")

    answer = client.post(
        ADD, filled(client, groups=[str(role.pk)], is_staff="on", is_superuser="on")
    )

    assert answer.status_code == 302, text_of(answer)
    nora = User.objects.get(username="nora")
    assert not nora.is_staff and not nora.is_superuser and not nora.groups.exists()
