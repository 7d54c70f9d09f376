"""One page makes an account with its password, role, limits, zone and the right to sign in."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from apps.access.models import Limited
from apps.common.models import Preference
from apps.dispatch.models import OperatorScope
from apps.jobs.models import JobScope
from apps.journal.models import JournalEntry, Source
from tests import factories
from tests.integration.test_accounts import clerk_of
from tests.pages import form_of, tables_of, text_of

pytestmark = pytest.mark.django_db

ADD = reverse("admin:auth_user_add")
NAMED = {"username": "nora", "email": "nora@shop.example"}
TYPED = {
    "usable_password": "true",
    "password1": "brand-new-Horse-7",
    "password2": "brand-new-Horse-7",
}


def filled(client: Client, **typed: Any) -> dict[str, Any]:
    return {**form_of(client.get(ADD), "username"), **NAMED, **typed, "_save": "Save"}


def role(name: str) -> list[str]:
    return [str(Group.objects.get(name=name).pk)]


def password_on(page: Any) -> str:
    shown = re.search(r'<pre [^>]*id="new-password"[^>]*>([^<]+)</pre>', page.content.decode())
    assert shown, text_of(page)
    return shown[1]


def signs_in(password: str) -> bool:
    client = Client()
    client.post("/admin/login/", {"username": "nora", "password": password, "next": "/admin/"})
    return client.get("/admin/").status_code == 200


@pytest.fixture
def clerk(client: Client) -> Client:
    """Somebody who may make accounts and is no superuser."""
    clerk_of(client, "_user$")
    return client


# --- what is set with it --------------------------------------------------------------------------
def test_mail_role_limits_zone_and_staff_are_set_with_the_account(admin_client: Client) -> None:
    factories.group("gid_north")
    factories.job_type("mail")
    typed = {
        "groups": role("operator"),
        "executors": "gid_north",
        "job_types": ["mail"],
        "time_zone": "Asia/Shanghai",
    }

    answer = admin_client.post(ADD, filled(admin_client, **TYPED, **typed))

    assert answer.status_code == 302, text_of(answer)
    nora = User.objects.get(username="nora")
    assert nora.is_staff and not nora.is_superuser
    assert nora.email == "nora@shop.example"
    assert [group.name for group in nora.groups.all()] == ["operator"]
    assert OperatorScope.names_of(nora) == ["gid_north"]
    assert JobScope.names_of(nora) == ["mail"]
    assert Preference.objects.get(user=nora).time_zone == "Asia/Shanghai"
    assert signs_in(TYPED["password1"])


def test_journal_has_all_of_it(admin_client: Client) -> None:
    factories.job_type("mail")
    typed = {"groups": role("viewer"), "job_types": ["mail"], "time_zone": "Asia/Shanghai"}

    admin_client.post(ADD, filled(admin_client, **typed))

    entries = JournalEntry.objects.filter(source=Source.PEOPLE, type_or_task="nora")
    assert {entry.actor for entry in entries} == {"admin:admin"}
    noted = [(entry.event, entry.data) for entry in entries]
    [created] = [data for event, data in noted if event == "account_created"]
    assert created["after"]["email"] == "nora@shop.example"
    zone = {"before": {"time_zone": ""}, "after": {"time_zone": "Asia/Shanghai"}}
    assert ("account_changed", zone) in noted
    assert ("roles_given", {"given": "viewer"}) in noted
    assert ("limit_set", {"type": "mail"}) in noted


def test_without_limits_and_zone_there_are_none(admin_client: Client) -> None:
    """So the first sign-in takes over the zone of the browser."""
    admin_client.post(ADD, filled(admin_client, groups=role("viewer")))

    assert User.objects.filter(username="nora").exists()
    assert not Preference.objects.exists()
    assert not Limited.objects.exists()


def test_what_is_wrong_is_refused_beside_its_field(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    opened = filled(admin_client, groups=role("viewer"))
    for typed, says in (
        ({"time_zone": "shanghai"}, "did you mean Asia/Shanghai?"),
        ({"executors": "gid_nort"}, "There is no person or group 'gid_nort'."),
        ({"job_types": ["fax"]}, "fax"),
        ({"email": "nora"}, "Enter a valid email address."),
        ({"usable_password": "true"}, "This field is required."),
        ({**TYPED, "password2": "other"}, "The two password fields didn’t match."),
        ({**TYPED, "usable_password": "generate"}, "or leave both boxes empty."),
        ({"groups": []}, "Choose a role; without one the account sees nothing on these pages."),
    ):
        with subtests.test(typed=typed):
            answer = admin_client.post(ADD, {**opened, **typed})

            assert says in text_of(answer)
    assert not User.objects.filter(username="nora").exists()


def test_limits_are_chosen_among_types_whose_jobs_people_submit(admin_client: Client) -> None:
    """Jobs of the platform itself have types, too."""
    for name in ("mail", "bulk", "deliver"):
        factories.job_type(name)
    page = admin_client.get(ADD).content.decode()
    offered = re.findall(
        r'name="job_types"[^>]*value="(\w+)"|value="(\w+)"[^>]*name="job_types"', page
    )
    assert ["".join(each) for each in offered] == ["mail"]


# --- the password ---------------------------------------------------------------------------------


def test_generated_password_opens_and_is_on_the_answer_to_the_form_and_nowhere_else(
    admin_client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    made = admin_client.post(ADD, filled(admin_client, groups=role("viewer")))

    password = password_on(made)
    assert "Copy this password now." in text_of(made)
    assert "no-store" in made["Cache-Control"]
    page = reverse("admin:auth_user_change", args=[User.objects.get(username="nora").pk])
    assert f'href="{page}"' in made.content.decode()
    later = [admin_client.get(url) for url in (page, f"{page[:-7]}history/", ADD, "/admin/")]
    seen = "".join(response.content.decode() for response in later) + caplog.text
    seen += str([session.get_decoded() for session in Session.objects.all()])
    seen += str([cookie.value for cookie in admin_client.cookies.values()])
    seen += str(list(JournalEntry.objects.values())) + str(list(LogEntry.objects.values()))
    seen += str(list(User.objects.values()))
    assert password not in seen
    assert signs_in(password)


def test_generated_passwords_are_long_and_differ(admin_client: Client) -> None:
    found = {
        password_on(
            admin_client.post(ADD, filled(admin_client, username=name, groups=role("viewer")))
        )
        for name in ("nora", "olga", "otto")
    }

    assert len(found) == 3
    assert all(re.fullmatch(r"[A-Za-z2-9]{20}", password) for password in found)


def test_account_without_a_password_signs_in_with_none(admin_client: Client) -> None:
    typed = filled(admin_client, usable_password="false", groups=role("viewer"))
    page = admin_client.post(ADD, typed, follow=True)

    assert not User.objects.get(username="nora").has_usable_password()
    assert "it cannot sign in until it is given one" in text_of(page)


# --- who makes it ---------------------------------------------------------------------------------
def test_who_is_no_superuser_gives_a_password_and_cannot_hand_out_roles(clerk: Client) -> None:
    factories.group("gid_north")
    form = form_of(clerk.get(ADD), "username")
    assert not {"groups", "is_staff", "executors", "job_types"} & form.keys()

    made = clerk.post(
        ADD,
        filled(
            clerk,
            groups=role("configurer"),
            is_staff="on",
            is_superuser="on",
            executors="gid_north",
            time_zone="Asia/Shanghai",
        ),
    )

    assert "The account does not sign in to these pages." in text_of(made)
    nora = User.objects.get(username="nora")
    assert nora.check_password(password_on(made))
    assert not nora.is_staff and not nora.is_superuser and not nora.groups.exists()
    assert OperatorScope.names_of(nora) is None
    assert Preference.objects.get(user=nora).time_zone == "Asia/Shanghai"


def test_page_says_what_each_role_can_do_to_those_who_hand_out_roles(
    admin_client: Client, clerk: Client
) -> None:
    page = admin_client.get(ADD)
    assert "viewer – reads all but params, contexts and results" in text_of(page)
    [table] = tables_of(page)
    cells = {row[0].text: [cell.text for cell in row[1:]] for row in table}
    assert cells["Can"] == ["viewer", "operator", "configurer"]
    assert cells["See people, tasks and dispatches"] == ["✓", "✓", "✓"]
    assert cells["Submit jobs"] == ["–", "✓", "✓"]
    assert cells["See and search params, contexts and results"] == ["–", "✓", "✓"]
    assert cells["Make, change and delete accounts"] == ["–", "–", "–"]
    assert "What each role can do" not in text_of(clerk.get(ADD))
