"""A key bound to names that nothing has: allowed, because they may follow, and shown plainly."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command
from django.test import Client

from apps.access.models import ApiClient
from apps.access.services import warnings_of
from tests import factories
from tests.integration.access.admin_pages import ADD, LIST, form_of, key_on, make, page_of
from tests.pages import text_of
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]

SPELLING = "The key finds nothing there until one is made; check the spelling."


@pytest.fixture(autouse=True)
def world() -> None:
    factories.user("uid_ann")
    factories.job_type("mail")


def test_the_command_says_so_beside_the_key() -> None:
    out, err = io.StringIO(), io.StringIO()
    options = ["--executor", "uid_ann", "--executor", "uid_bnn", "--type", "mial"]
    call_command("apiclient", "create", "Shop", "--scope", "pull", *options, stdout=out, stderr=err)

    assert out.getvalue().count("\n") == 1
    assert err.getvalue().splitlines() == [
        f"Nobody has the name: uid_bnn. {SPELLING}",
        f"No job type has the name: mial. {SPELLING}",
    ]


def test_the_list_of_the_command_names_them() -> None:
    make(executors=["uid_ann", "gid_gone"], job_types=["mail"])
    err = io.StringIO()
    call_command("apiclient", "list", stdout=io.StringIO(), stderr=err)
    assert err.getvalue() == "These executors do not exist: gid_gone.\n"


def test_pages_say_so_as_long_as_it_is_true(admin_client: Client) -> None:
    made = admin_client.post(ADD, form_of(executors="uid_ann\nuid_bnn", job_types="mail"))
    client = ApiClient.objects.get()
    assert key_on(made)
    for page in (made, admin_client.get(page_of(client))):
        assert f"Nobody has the name: uid_bnn. {SPELLING}" in text_of(page)
        assert "No job type has" not in text_of(page)
    assert "unknown: uid_bnn" in text_of(admin_client.get(LIST)).lower()

    factories.user("uid_bnn")
    assert "No executor has" not in text_of(admin_client.get(page_of(client)))
    assert "unknown:" not in text_of(admin_client.get(LIST)).lower()


def test_the_list_asks_once_for_all_keys(admin_client: Client) -> None:
    counts = []
    for number in (1, 20):
        for n in range(number):
            make(executors=[f"uid_{number}_{n}"], job_types=[f"mail-{n}"])
        counts.append(len(sent_by(lambda: admin_client.get(LIST))))
    assert counts[0] == counts[1]


def test_a_key_that_is_bound_to_nothing_wants_no_look_up() -> None:
    client, _key = make()
    assert sent_by(lambda: warnings_of(client)) == []
