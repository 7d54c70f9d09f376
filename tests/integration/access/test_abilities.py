"""The page of an account says what it can do, as the pages themselves let it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from apps.access.models import Limited
from apps.dispatch.models import OperatorScope
from apps.jobs.models import JobScope
from taskplatform.abilities import abilities
from taskplatform.capabilities import CAPABILITIES, NAMED, ROLES
from tests import factories
from tests.integration.test_limits import again
from tests.pages import text_of

pytestmark = pytest.mark.django_db

NO_LIMITS = "Sees all people and all jobs: it has no limits."


def words(person: User) -> dict[str, Any]:
    """What its page says, the lists by title alone."""
    said = abilities(again(person))
    return {
        name: [str(each[0]) for each in value] if name in ("can", "cannot") else value
        for name, value in said.items()
    }


# --- the words and the roles ----------------------------------------------------------------------
def test_every_permission_of_a_capability_exists() -> None:
    rows = Permission.objects.values_list("content_type__app_label", "codename")

    assert NAMED - {f"{app}.{codename}" for app, codename in rows} == set()


@pytest.mark.parametrize("role", ROLES)
def test_each_role_can_what_its_permissions_say(
    role_user: Callable[[str], User], role: str
) -> None:
    person = role_user(role)
    said = words(person)

    for each in CAPABILITIES:
        names = (*each.permissions, *each.needs)
        expected = "can" if names and person.has_perms(names) else "cannot"
        assert str(each.title) in said[expected], each
    assert len(said["can"]) + len(said["cannot"]) == len(CAPABILITIES)


# --- the page -------------------------------------------------------------------------------------
def test_page_of_an_account_says_what_it_can_and_cannot(
    admin_client: Client, role_user: Callable[[str], User]
) -> None:
    person = role_user("operator")
    factories.job_type("mail")
    OperatorScope.objects.create(operator=person, executor=factories.group("gid_north"))
    JobScope.objects.create(operator=person, type="mail")

    text = text_of(admin_client.get(reverse("admin:auth_user_change", args=[person.pk])))

    can, _cannot, rest = text.partition(" Cannot ")
    cannot, _limits, limits = rest.partition(" Limits ")
    assert "Submit jobs" in can
    assert "See and search params, contexts and results" in can
    assert "Mark jobs done and cancel them by force" in cannot
    assert "See alerts and planned reports because of its limits" in cannot
    assert limits.startswith("People and groups: gid_north Job types: mail")
    assert "in part" not in can
    assert "Sees" not in can.partition("What it can do")[2]

    viewer = role_user("viewer")
    text = text_of(admin_client.get(reverse("admin:auth_user_change", args=[viewer.pk])))
    assert "See and search params, contexts and results" in text.partition(" Cannot ")[2]


@pytest.mark.parametrize(
    ("executors", "types", "notes"),
    [
        (False, False, [NO_LIMITS]),
        (True, True, []),
        (
            True,
            False,
            [
                "Sees all jobs of its people and all jobs without a user: it has no limit to "
                "job types."
            ],
        ),
        (
            False,
            True,
            ["Sees no people, tasks or dispatches: limited to job types alone."],
        ),
    ],
)
def test_side_without_a_limit_is_a_warning(
    role_user: Callable[[str], User], executors: bool, types: bool, notes: list[str]
) -> None:
    person = role_user("operator")
    person.set_password("correct-Horse-7")
    person.save()
    if executors:
        OperatorScope.objects.create(operator=person, executor=factories.group("gid_north"))
    if types:
        JobScope.objects.create(operator=person, type="mail")

    assert words(person)["notes"] == notes


def test_limit_to_nothing_is_a_warning(role_user: Callable[[str], User]) -> None:
    person = role_user("operator")
    for side in Limited.Side.values:
        Limited.begin(person.pk, side)

    said = words(person)

    assert "Sees nobody: its limit to people names none." in said["notes"]
    assert "Sees no jobs: its limit to job types names none." in said["notes"]
    assert said["limits"] == [("People and groups:", "none"), ("Job types:", "none")]


def test_superuser_can_everything(admin_client: Client, admin_user: User) -> None:
    OperatorScope.objects.create(operator=admin_user, executor=factories.group("gid_north"))
    url = reverse("admin:auth_user_change", args=[admin_user.pk])

    text = text_of(admin_client.get(url))

    assert "A superuser can do everything and has no limits." in text
    assert "Cannot" not in text


def test_part_of_a_capability_and_permissions_without_words_are_named(
    admin_client: Client,
) -> None:
    person = User.objects.create_user("vera", is_staff=True)
    names = ("view_oncetask", "view_group", "change_operatorscope")
    person.user_permissions.set(Permission.objects.filter(codename__in=names))

    said = abilities(again(person))

    assert [(str(title), part) for title, part in said["can"]] == [
        ("See people, tasks and dispatches", True)
    ]
    assert said["others"] == "auth.view_group"
    text = text_of(admin_client.get(reverse("admin:auth_user_change", args=[person.pk])))
    assert "Can See people, tasks and dispatches in part Further permissions:" in text


# --- what limits close ----------------------------------------------------------------------------
PAGES = {
    "See failures in groups": "failures/",
    "See capacity and governance": "capacity/",
    "See entries that sinks refused": "journal/sinkreject/",
    "See alerts and planned reports": "alerts/alert/",
    "See API keys": "access/apiclient/",
    "Plan reports that are sent regularly": "alerts/reportplan/add/",
    "Add, change and delete templates": "dispatch/template/add/",
    "Add, change and delete job types": "jobs/jobtype/add/",
    "Make, change and revoke API keys": "access/apiclient/add/",
    "Run the audit": "audit/",
    "Change alert rules and channels": "alerts/alertrule/add/",
    "Submit jobs": "jobs/job/add/",
    "Plan, change and delete tasks": "dispatch/oncetask/add/",
    "Plan, change and delete schedules": "schedules/schedule/add/",
    "Add and change people, and the members of groups": "dispatch/executor/add/",
    "Pause and resume job types": "jobs/jobtype/act/pause/?ids={type}",
    "Pause and resume sinks": "journal/sink/act/pause/?ids=0",
    "See the journal and its sinks": "journal/sink/",
    "See reports": "reports/",
}


@pytest.mark.parametrize("limits", [(), ("executors",), ("types",), ("executors", "types")])
def test_words_about_limits_hold_on_the_pages(
    role_user: Callable[[str], User], role_client: Callable[[str], Client], limits: tuple[str, ...]
) -> None:
    person, mail = role_user("configurer"), factories.job_type("mail")
    if "executors" in limits:
        OperatorScope.objects.create(operator=person, executor=factories.group("gid_north"))
    if "types" in limits:
        JobScope.objects.create(operator=person, type="mail")
    client = role_client("configurer")

    opened = {
        title: client.get(f"/admin/{page.format(type=mail.pk)}").status_code != 403
        for title, page in PAGES.items()
    }

    said = words(person)
    assert opened == {title: title in said["can"] for title in PAGES}


def test_no_further_permission_leads_to_what_limits_close(
    role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    """Whoever may change or delete rows of a model may see them, says Django."""
    person = role_user("configurer")
    person.user_permissions.set(Permission.objects.all())
    for side in Limited.Side.values:
        Limited.begin(person.pk, side)
        client = role_client("configurer")

        for page in ("alerts/alert/", "alerts/delivery/", "access/apiclient/"):
            assert client.get(f"/admin/{page}").status_code == 403, page
        Limited.objects.all().delete()
        assert client.get("/admin/alerts/alert/").status_code == 200


def test_pages_leave_it_to_the_table_what_limits_close() -> None:
    """What a page takes by itself, the words and all other pages miss."""
    checks = {
        f"{path.name}: {each.name}": {
            getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(each)
        }
        for folder in ("apps", "taskplatform")
        for path in (settings.BASE_DIR / folder).rglob("*.py")
        # Parsing takes longest.
        if "_permission(" in (source := path.read_text())
        for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.FunctionDef) and each.name.endswith("_permission")
    }
    assert len(checks) > 20
    assert [name for name, used in checks.items() if used & {"bounds_of", "names_of"}] == []
