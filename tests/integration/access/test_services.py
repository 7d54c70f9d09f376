"""Keys given out, changed, rotated and revoked, each with its line in the journal."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from django.core import serializers
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.access import services
from apps.access.models import ApiClient, State
from apps.access.rules import keys
from apps.common.errors import Conflict, Invalid, NotFound
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.integration.access.conftest import START

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def make(**changes: Any) -> tuple[ApiClient, str]:
    return services.create_client(
        **{"name": "Shop scanners", "scopes": ["pull", "read"], "actor": "ada", **changes}
    )


def edit(client: ApiClient, **changes: Any) -> ApiClient:
    return services.edit_client(client, **{"version": client.version, "actor": "ada", **changes})


def secret_of(key: str) -> str:
    return key.partition(".")[2]


def opens(client: ApiClient, key: str, moving: FrozenClock) -> bool:
    client.refresh_from_db()
    return client.opens_with(keys.digest_of(secret_of(key)), moving())


def last_entry() -> JournalEntry:
    entry = JournalEntry.objects.order_by("at", "id").last()
    assert entry is not None
    return entry


def test_client_id_that_is_taken_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = make()
    drawn = iter([one.client_id, "shop-scanners-222222"])
    monkeypatch.setattr(keys, "new_client_id", lambda name: next(drawn))

    two, _ = make()

    assert two.client_id == "shop-scanners-222222"


def test_new_client_is_logged_in_the_journal_once(frozen_clock: FrozenClock) -> None:
    """I55: who, when and what, in one entry."""
    client, _ = make()

    entry = JournalEntry.objects.get()
    assert (entry.source, entry.subject_id, entry.event) == ("access", client.pk, "client_created")
    assert (entry.at, entry.actor, entry.type_or_task) == (START, "ada", client.client_id)
    assert (entry.from_state, entry.to_state) == ("", "live")
    assert entry.data["before"] == {}
    assert entry.data["after"]["scopes"] == ["pull", "read"]


def test_secret_is_neither_stored_nor_logged_nor_shown(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], frozen_clock: FrozenClock
) -> None:
    with caplog.at_level(logging.DEBUG):
        client, first = make()
        second = services.rotate(client, actor="ada")
        services.revoke(services.find(client.client_id), actor="ada")
    client.refresh_from_db()

    rows = serializers.serialize("json", [*ApiClient.objects.all(), *JournalEntry.objects.all()])
    seen = [
        rows,
        caplog.text,
        repr(client),
        str(client),
        repr(client.as_client()),
        *capsys.readouterr(),
    ]
    for key in (first, second):
        assert not [text for text in seen if secret_of(key) in text]
    journal = json.dumps(list(JournalEntry.objects.values_list("data", flat=True)))
    assert client.secret_hash not in journal
    assert client.previous_hash not in journal


def test_edit_writes_and_logs_only_what_changed(frozen_clock: FrozenClock) -> None:
    """I55, I57: a column that was not edited keeps what another process wrote meanwhile."""
    client, key = make(rate="10/s")
    ApiClient.objects.filter(pk=client.pk).update(last_used_at=START)

    with CaptureQueriesContext(connection) as captured:
        changed = edit(client, scopes=["read"], expires_at=START + timedelta(days=1))

    update = next(q["sql"] for q in captured if q["sql"].startswith("UPDATE"))
    assert not [c for c in ("name", "secret_hash", "last_used_at", "rate") if c in update]
    stored = ApiClient.objects.get()
    assert (stored.scopes, stored.version, stored.last_used_at) == (["read"], 2, START)
    assert changed.version == 2
    assert opens(client, key, frozen_clock)
    entry = last_entry()
    assert (entry.event, entry.from_state, entry.to_state) == ("client_changed", "live", "live")
    assert entry.data == {
        "before": {"scopes": ["pull", "read"], "expires_at": None},
        "after": {"scopes": ["read"], "expires_at": "2026-03-03T09:00:00+00:00"},
    }


def test_expired_client_is_opened_again_by_a_later_expiry(frozen_clock: FrozenClock) -> None:
    client, key = make(expires_at=START + timedelta(hours=1))
    frozen_clock.advance(hours=1)
    assert not opens(client, key, frozen_clock)

    edit(client, expires_at=START + timedelta(hours=2))

    assert opens(client, key, frozen_clock)
    assert (last_entry().from_state, last_entry().to_state) == ("expired", "live")


def test_revoked_client_cannot_be_edited_or_rotated() -> None:
    client, _ = make()
    services.revoke(client, actor="ada")
    client.refresh_from_db()

    for act in (lambda: edit(client, name="x"), lambda: services.rotate(client, actor="ada")):
        with pytest.raises(Conflict, match=r"was revoked at .*, which is final; make a new key"):
            act()


def test_rotation_keeps_the_old_key_for_24_hours(frozen_clock: FrozenClock) -> None:
    client, old = make()
    frozen_clock.advance(minutes=5)

    new = services.rotate(client, actor="ada")

    assert secret_of(new) != secret_of(old)
    assert new.startswith(f"{client.client_id}.")
    assert opens(client, new, frozen_clock)
    frozen_clock.advance(hours=24, microseconds=-1)
    assert opens(client, old, frozen_clock)
    frozen_clock.advance(microseconds=1)
    assert not opens(client, old, frozen_clock)
    assert opens(client, new, frozen_clock)


def test_second_rotation_ends_the_key_before_the_last(frozen_clock: FrozenClock) -> None:
    client, first = make()
    second = services.rotate(client, actor="ada")
    client.refresh_from_db()

    third = services.rotate(client, actor="ada")

    assert [opens(client, key, frozen_clock) for key in (first, second, third)] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("keep_old", [timedelta(seconds=-1), timedelta(days=30, seconds=1)])
def test_rotation_refuses_to_keep_the_old_key_out_of_range(keep_old: timedelta) -> None:
    client, _ = make()

    with pytest.raises(Invalid, match="the limit is 30 days"):
        services.rotate(client, actor="ada", keep_old=keep_old)


def test_rotation_of_an_expired_client_asks_for_a_later_expiry(frozen_clock: FrozenClock) -> None:
    client, _ = make(expires_at=START + timedelta(hours=1))
    frozen_clock.advance(hours=1)

    with pytest.raises(Conflict, match="give it a later expiry first"):
        services.rotate(client, actor="ada")


def test_revoked_key_opens_no_more_and_neither_does_the_previous(frozen_clock: FrozenClock) -> None:
    """I60: in the database the end is immediate."""
    client, old = make()
    new = services.rotate(client, actor="ada")

    assert services.revoke(client, actor="ada", reason="laptop lost")

    assert not opens(client, old, frozen_clock)
    assert not opens(client, new, frozen_clock)
    assert client.state(frozen_clock()) == State.REVOKED
    entry = last_entry()
    assert (entry.event, entry.from_state, entry.to_state, entry.reason) == (
        "client_revoked",
        "live",
        "revoked",
        "laptop lost",
    )


def test_second_revocation_changes_and_logs_nothing(frozen_clock: FrozenClock) -> None:
    client, _ = make()
    services.revoke(client, actor="ada")
    frozen_clock.advance(hours=1)

    assert not services.revoke(client, actor="bob")

    assert ApiClient.objects.get().revoked_at == START
    assert JournalEntry.objects.count() == 2


def test_revocation_counts_whatever_was_changed_meanwhile() -> None:
    client, _ = make()
    stale = ApiClient.objects.get()
    edit(client, name="Renamed")

    assert services.revoke(stale, actor="ada")
    assert ApiClient.objects.get().name == "Renamed"


def test_unknown_client_id_is_not_found(subtests: pytest.Subtests) -> None:
    make()
    for client_id in ("", "nobody-222222", "NOBODY", "a b", "x" * 65, "á", "\ud800"):
        with subtests.test(client_id=client_id):
            with pytest.raises(NotFound, match="There is no API key"):
                services.find(client_id)
