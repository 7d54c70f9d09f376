"""API clients in the admin: what the forms take, and who may do what."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from apps.access import services
from apps.access.models import ApiClient
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.integration.access.admin_pages import (
    ADD,
    LIST,
    form_of,
    key_on,
    make,
    opens,
    page_of,
    revoke_page,
    rotate_page_of,
)
from tests.integration.access.conftest import START, Call, bearer
from tests.pages import english_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


def test_form_makes_a_client_whose_key_works(admin_client: Client, call: Call) -> None:
    response = admin_client.post(
        ADD,
        form_of(
            scopes=["read", "pull"],
            executors=" uid_b \r\n\r\ngid_a",
            job_types=" sms \r\n\r\nmail",
            rate="600/m",
            expires_at_0="2026-03-31",
            expires_at_1="12:30:15",
        ),
    )

    assert response.status_code == 200
    client = ApiClient.objects.get()
    assert (client.scopes, client.executors) == (["pull", "read"], ["gid_a", "uid_b"])
    assert (client.job_types, client.rate) == (["mail", "sms"], "600/m")
    assert client.expires_at is not None
    assert client.expires_at.isoformat() == "2026-03-31T12:30:15+00:00"
    assert client.created_by == "admin:admin"
    assert call(bearer(key_on(response))).status_code == 200


def test_all_wrong_terms_are_reported_in_the_language_of_the_reader(admin_client: Client) -> None:
    """Of what cannot be read, and of terms that make no sense."""
    response = admin_client.post(
        ADD,
        form_of(
            name="",
            executors="alice",
            job_types="a b",
            rate="fast",
            expires_at_0="2020-01-01",
            expires_at_1="12:00",
        ),
        headers={"accept-language": "zh-hans"},
    )

    errors = response.context["adminform"].form.errors
    assert set(errors) == {"name", "executors", "job_types", "rate", "expires_at"}
    assert [text for found in errors.values() for text in found if text.isascii()] == []
    assert english_in(response) == []


def test_key_that_somebody_else_closed_is_reported_in_the_language_of_the_reader(
    admin_client: Client,
) -> None:
    client, _key = make()
    services.revoke(client, actor="shell")

    page = admin_client.post(
        rotate_page_of(client),
        {"keep_old": "0", "reason": "x", "version": client.version},
        headers={"accept-language": "zh-hans"},
        follow=True,
    )

    assert "吊销" in " ".join(str(message) for message in page.context["messages"])
    assert english_in(page) == []


def test_people_and_groups_of_a_key_are_picked(admin_client: Client) -> None:
    page = admin_client.get(ADD).content.decode()
    assert f'data-suggestions="{reverse("admin:dispatch_executor_names")}" data-several' in page

    admin_client.post(ADD, form_of(executors="gid_a uid_b, uid_c"))

    assert ApiClient.objects.get().executors == ["gid_a", "uid_b", "uid_c"]


def test_bad_input_is_refused_by_the_form(admin_client: Client, subtests: pytest.Subtests) -> None:
    for changes in (
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\x00b"},
        {"scopes": []},
        {"scopes": ["admin"]},
        {"executors": "uid_a\x00"},
        {"executors": "uid_á"},
        {"job_types": "a b"},
        {"rate": "9" * 40 + "/m"},
        {"expires_at_0": "soon"},
        {"expires_at_0": "99999-01-01", "expires_at_1": "00:00"},
        {"expires_at_0": "2026-01-01", "expires_at_1": "25:00"},
    ):
        with subtests.test(changes=changes):
            response = admin_client.post(ADD, form_of(**changes))

            assert response.status_code == 200
            assert response.context["adminform"].form.errors
    assert not ApiClient.objects.exists()


def test_form_saved_unchanged_writes_nothing(admin_client: Client) -> None:
    client, _ = make(executors=["gid_a", "uid_b"], expires_at=START.replace(month=4, microsecond=9))

    assert admin_client.post(page_of(client), form_of(client)).status_code == 302

    client.refresh_from_db()
    assert client.version == 1
    assert client.expires_at == START.replace(month=4, microsecond=9)
    assert JournalEntry.objects.count() == 1


def test_form_changes_what_was_edited_and_logs_it(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """I55: one entry with who, before and after; also of a key whose time is over."""
    client, key = make(rate="10/s", expires_at=START.replace(day=3))
    frozen_clock.advance(days=2)

    response = admin_client.post(page_of(client), form_of(client, scopes=["read"]))

    assert response.status_code == 302
    client.refresh_from_db()
    assert (client.scopes, client.rate, client.version) == (["read"], "10/s", 2)
    assert opens(key)
    entry = JournalEntry.objects.get(event="client_changed")
    assert entry.actor == "admin:admin"
    assert entry.data == {"before": {"scopes": ["pull", "read"]}, "after": {"scopes": ["read"]}}


def test_revoked_client_is_read_only(admin_client: Client) -> None:
    client, _ = make(executors=["uid_a"])
    services.revoke(client, actor="admin:bob")
    client.refresh_from_db()

    page = admin_client.get(page_of(client)).content.decode()

    assert 'name="_save"' not in page
    assert rotate_page_of(client) not in page
    assert revoke_page() not in page
    assert "pull, read" in page
    assert "uid_a" in page
    forged = admin_client.post(page_of(client), form_of(client, name="New"))
    assert "which is final" in forged.content.decode()
    assert ApiClient.objects.get().name == "Shop scanners"


def test_list_shows_each_state_and_filters_by_it(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    make(name="Forever")
    make(name="Later", expires_at=START.replace(hour=10))
    make(name="Over", expires_at=START.replace(hour=9, minute=30))
    gone, _ = make(name="Gone", expires_at=START.replace(hour=9, minute=30))
    services.revoke(gone, actor="shell")
    frozen_clock.advance(minutes=30)

    def names(state: str) -> list[str]:
        rows = admin_client.get(LIST, {"state": state}).context["cl"].result_list
        return sorted(row.name for row in rows)

    assert names("live") == ["Forever", "Later"]
    assert names("expired") == ["Over"]
    assert names("revoked") == ["Gone"]
    assert names("") == ["Forever", "Gone", "Later", "Over"]
    assert names("strange") == []
    page = admin_client.get(LIST).content.decode()
    for word in ("Live", "Expired", "Revoked"):
        assert re.search(rf"<span[^>]*>\s*{word}\s*</span>", page)


def test_search_finds_parts_of_name_and_id_and_bears_any_term(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    make()
    for term, found in (
        ("SCAN", 1),
        ("shop-scanners-", 1),
        ("%", 0),
        ("_", 0),
        ("x" * 5000, 0),
        ("巡", 0),
        ("\x00", 1),
    ):
        with subtests.test(term=term):
            response = admin_client.get(LIST, {"q": term}, follow=True)

            assert response.status_code == 200
            assert response.context["cl"].result_count == found


def test_history_shows_every_change_with_who_and_why(admin_client: Client) -> None:
    client, _ = make()
    client = services.edit_client(client, rate="10/s", version=1, actor="admin:bob")
    services.rotate(client, actor="admin:bob")
    services.revoke(client, actor="admin:bob", reason="laptop lost")

    page = admin_client.get(
        reverse("admin:access_apiclient_history", args=[client.pk])
    ).content.decode()

    for text in ("API key changed", "API key revoked", "→ 10/s", "by bob", "laptop lost"):
        assert text in page
    assert page.index("API key created") < page.index("API key rotated")


ALLOWED = {"viewer": False, "operator": False, "configurer": True}


@pytest.mark.parametrize(("role", "may_change"), ALLOWED.items())
def test_only_configurers_make_change_rotate_and_revoke(
    role_client: Callable[[str], Client], role: str, may_change: bool
) -> None:
    client, key = make()
    browser = role_client(role)

    assert browser.get(LIST).status_code == 200
    page = browser.get(page_of(client))
    assert page.status_code == 200
    assert (rotate_page_of(client) in page.content.decode()) == may_change
    assert browser.get(ADD).status_code == (200 if may_change else 403)
    assert browser.get(rotate_page_of(client)).status_code == (200 if may_change else 403)
    sent = {"ids": str(client.pk), "reason": "x"}
    assert browser.post(revoke_page(), sent).status_code == (302 if may_change else 403)
    assert opens(key) != may_change
    if not may_change:
        assert browser.post(ADD, form_of()).status_code == 403
        assert browser.post(page_of(client), form_of(client, name="x")).status_code == 403
        rotation = {"version": 1, "keep_old": "0", "reason": "x"}
        assert browser.post(rotate_page_of(client), rotation).status_code == 403
    assert ApiClient.objects.count() == 1


def test_nobody_deletes_a_client(admin_client: Client) -> None:
    client, _ = make()

    url = reverse("admin:access_apiclient_delete", args=[client.pk])
    assert admin_client.post(url, {"post": "yes"}).status_code == 403
    admin_client.post(
        LIST, {"action": "delete_selected", "_selected_action": [client.pk], "post": "yes"}
    )

    assert ApiClient.objects.count() == 1
