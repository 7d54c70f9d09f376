"""Keys in the admin: seen once, rotated and revoked on purpose."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from apps.access import services
from apps.access.models import ApiClient
from apps.dispatch.models import OperatorScope
from apps.journal.models import JournalEntry
from tests import factories
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

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


def test_key_is_on_the_answer_to_the_form_and_nowhere_else(admin_client: Client) -> None:
    made = admin_client.post(ADD, form_of())
    client = ApiClient.objects.get()
    first = key_on(made)
    rotated = admin_client.post(
        rotate_page_of(client), {"version": 1, "keep_old": "24", "reason": "yearly"}
    )
    second = key_on(rotated)

    for response in (made, rotated):
        assert "no-store" in response["Cache-Control"]
        assert response["Content-Type"].startswith("text/html")
    later = [admin_client.get(url) for url in (LIST, page_of(client), ADD, rotate_page_of(client))]
    later.append(admin_client.get(reverse("admin:access_apiclient_history", args=[client.pk])))
    seen = "".join(response.content.decode() for response in later)
    seen += str([session.get_decoded() for session in Session.objects.all()])
    seen += str([(name, cookie.value) for name, cookie in admin_client.cookies.items()])
    seen += str(list(JournalEntry.objects.values())) + str(list(LogEntry.objects.values()))
    client.refresh_from_db()
    for secret in (first.partition(".")[2], second.partition(".")[2]):
        assert secret not in seen
    assert client.secret_hash not in seen
    assert client.previous_hash not in seen


def test_rotation_shows_the_new_key_and_keeps_the_old_one(admin_client: Client) -> None:
    client, old = make()
    assert b"version" in admin_client.get(rotate_page_of(client)).content

    response = admin_client.post(
        rotate_page_of(client), {"version": 1, "keep_old": "24", "reason": "yearly"}
    )

    assert opens(key_on(response))
    assert opens(old)
    assert "The old key still works until" in response.content.decode()
    entry = JournalEntry.objects.get(event="client_rotated")
    assert (entry.actor, entry.reason) == ("admin:admin", "yearly")


def test_rotation_ends_the_old_key_at_once_when_asked_to(admin_client: Client) -> None:
    client, old = make()

    response = admin_client.post(
        rotate_page_of(client), {"version": 1, "keep_old": "0", "reason": "lost"}
    )

    assert not opens(old)
    assert "still works" not in response.content.decode()


def test_rotation_sent_twice_rotates_once(admin_client: Client) -> None:
    client, _ = make()
    sent = {"version": 1, "keep_old": "24", "reason": "yearly"}
    shown = key_on(admin_client.post(rotate_page_of(client), sent))

    response = admin_client.post(rotate_page_of(client), sent, follow=True)

    assert "rotated by somebody else just now" in response.content.decode()
    assert opens(shown)
    assert JournalEntry.objects.filter(event="client_rotated").count() == 1


def test_incomplete_rotation_asks_again(admin_client: Client, subtests: pytest.Subtests) -> None:
    client, _ = make()
    for sent in (
        {},
        {"version": 1, "keep_old": "24"},
        {"version": 1, "keep_old": "-1", "reason": "x"},
        {"version": 1, "keep_old": "9" * 30, "reason": "x"},
        {"version": "x", "keep_old": "24", "reason": "x"},
        {"version": 1, "keep_old": "24", "reason": "x" * 501},
        {"version": 1, "keep_old": "24", "reason": "\x00"},
    ):
        with subtests.test(sent=sent):
            response = admin_client.post(rotate_page_of(client), sent)

            assert response.status_code == 200
            assert "new-key" not in response.content.decode()
            client.refresh_from_db()
            assert client.version == 1


def test_rotation_of_an_unknown_row_is_nowhere(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    for object_id in ("999999", "9" * 30, "x", "_"):
        with subtests.test(object_id=object_id):
            url = reverse("admin:access_apiclient_rotate", args=[object_id])

            assert admin_client.get(url).status_code == 404


def test_revocation_asks_for_a_reason_and_closes_the_key(admin_client: Client) -> None:
    """I55, I60: also from the list, for many at once; those revoked before are skipped."""
    client, key = make()
    other, other_key = make()
    revoked, _ = make()
    services.revoke(revoked, actor="shell")
    chosen = [client.pk, other.pk, revoked.pk]
    asked = admin_client.post(LIST, {"action": "revoke", "_selected_action": chosen, "index": 0})
    assert "for ever" in asked.content.decode()
    assert opens(key)

    response = admin_client.post(
        revoke_page(), {"ids": ",".join(map(str, chosen)), "reason": "laptop lost"}
    )

    assert "1 row skipped" in response.content.decode()
    assert not opens(key)
    assert not opens(other_key)
    entry = JournalEntry.objects.get(event="client_revoked", subject_id=client.pk)
    assert (entry.actor, entry.reason) == ("admin:admin", "laptop lost")


def test_operator_with_limits_sees_and_gives_out_no_key(role_client: Any, role_user: Any) -> None:
    """A key without limits sees everything, whatever the limits of its maker."""
    client, old = make()
    configurer = role_client("configurer")
    assert configurer.get(ADD).status_code == 200
    OperatorScope.objects.create(operator=role_user("configurer"), executor=factories.user())

    rotation = {"version": 1, "keep_old": "24", "reason": "yearly"}
    answers = [
        configurer.post(ADD, form_of()),
        configurer.post(rotate_page_of(client), rotation),
        configurer.post(revoke_page(), {"ids": str(client.pk), "reason": "mine now"}),
        configurer.post(page_of(client), {**form_of(), "version": "1"}),
    ]

    assert [answer.status_code for answer in answers] == [403] * 4
    assert opens(old)
    assert ApiClient.objects.count() == 1
    assert [configurer.get(url).status_code for url in (LIST, page_of(client))] == [403] * 2
