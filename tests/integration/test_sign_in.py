"""Sign-ins are limited by name, by address and by what they cost."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from apps.common.errors import Unavailable
from apps.common.problems import REFUSED
from tests.pages import text_of

pytestmark = pytest.mark.django_db
PASSWORD = "correct-Horse-7"


@pytest.fixture(autouse=True)
def few(settings: Any) -> None:
    settings.SIGN_IN_LIMIT = 3
    cache.clear()


@pytest.fixture
def olga(db: None) -> User:
    return User.objects.create_user("olga", password=PASSWORD, is_staff=True)


def sign_in(client: Client, name: str, password: str, address: str = "192.0.2.1") -> Any:
    fields = {"username": name, "password": password}
    return client.post("/admin/login/", fields, REMOTE_ADDR=address)


def test_name_waits_from_every_address(client: Client, olga: User, frozen_clock: Any) -> None:
    """Axes locks a name for one address; a thousand addresses are no thousand chances."""
    for number in range(3):
        assert sign_in(client, "olga", "wrong", f"192.0.2.{number}").status_code == 200

    answer = sign_in(client, "OLGA ", PASSWORD, "192.0.2.99")

    assert answer.status_code == 429
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert "Wait a minute" in text_of(answer)
    frozen_clock.advance(seconds=60)
    assert sign_in(client, "olga", PASSWORD, "192.0.2.99").status_code == 302


def test_address_waits_for_every_name(client: Client, olga: User, frozen_clock: Any) -> None:
    for number in range(3):
        sign_in(client, f"name-{number}", "wrong")

    assert sign_in(client, "olga", PASSWORD).status_code == 429
    assert sign_in(client, "olga", PASSWORD, "192.0.2.2").status_code == 302


def test_refused_password_is_not_hashed(
    client: Client, olga: User, frozen_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        sign_in(client, "olga", "wrong", "192.0.2.1")
    monkeypatch.setattr("django.contrib.auth.authenticate", lambda **given: 1 / 0)

    assert sign_in(client, "olga", PASSWORD).status_code == 429


def test_old_password_of_the_change_form_is_limited(
    client: Client, olga: User, frozen_clock: Any
) -> None:
    client.force_login(olga, backend="django.contrib.auth.backends.ModelBackend")
    new = {"new_password1": "brand-new-Horse-8", "new_password2": "brand-new-Horse-8"}

    def change(old: str) -> int:
        return client.post("/admin/password_change/", {"old_password": old, **new}).status_code

    assert [change("wrong") for _ in range(3)] == [200, 200, 200]
    assert change(PASSWORD) == 429
    olga.refresh_from_db()
    assert olga.check_password(PASSWORD)
    frozen_clock.advance(seconds=60)
    assert change(PASSWORD) == 302


def test_sign_in_that_finds_no_place_is_told_to_try_again(client: Client) -> None:
    """The server refuses those who would wait too long for the hash of their password."""
    refused: dict[str, Any] = {REFUSED: Unavailable("Too many at once.", retry_after=3)}
    answer = client.post("/admin/login/", {"username": "olga"}, **refused)

    assert answer.status_code == 503
    assert answer["Retry-After"] == "3"
    assert "Try again in some seconds" in text_of(answer)
