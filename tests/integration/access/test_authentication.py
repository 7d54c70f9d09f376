"""Which keys open, in which header, and how soon a closed one is refused everywhere."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.cache import cache
from django.http import HttpResponse
from pytest_django import DjangoAssertNumQueries

from apps.access import services
from apps.access.rules import keys
from tests.frozen import FrozenClock
from tests.integration.access.conftest import START, Call, basic, bearer, make

pytestmark = pytest.mark.django_db

HeaderForm = Callable[[str], str]
HEADER_FORMS: list[HeaderForm] = [bearer, lambda key: f"bearer  {key}", basic]


def body_of(response: HttpResponse) -> dict[str, Any]:
    return json.loads(response.content)


def live_key(moving: FrozenClock) -> str:
    return make()[1]


def key_about_to_expire(moving: FrozenClock) -> str:
    key = make(expires_at=START + timedelta(hours=1))[1]
    moving.advance(hours=1, microseconds=-1)
    return key


def unknown_client(moving: FrozenClock) -> str:
    return f"nobody-222222.{live_key(moving).partition('.')[2]}"


def wrong_secret(moving: FrozenClock) -> str:
    return f"{make()[0].client_id}.{keys.new_secret()}"


def secret_of_another(moving: FrozenClock) -> str:
    return f"{make()[0].client_id}.{live_key(moving).partition('.')[2]}"


def hash_instead_of_secret(moving: FrozenClock) -> str:
    client, _ = make()
    return f"{client.client_id}.{client.secret_hash}"


def expired_key(moving: FrozenClock) -> str:
    key = make(expires_at=START + timedelta(hours=1))[1]
    moving.advance(hours=1)
    return key


def revoked_key(moving: FrozenClock) -> str:
    client, key = make()
    services.revoke(client, actor="ada")
    return key


@pytest.mark.parametrize("key_state", [live_key, key_about_to_expire])
def test_key_that_opens_is_let_in_by_every_header_form(
    call: Call, frozen_clock: FrozenClock, key_state: Callable[[FrozenClock], str]
) -> None:
    key = key_state(frozen_clock)
    for form in HEADER_FORMS:
        response = call(form(key))

        assert response.status_code == 200, form(key)
        assert body_of(response) == {"client": key.partition(".")[0]}


@pytest.mark.parametrize(
    "key_state",
    [
        unknown_client,
        wrong_secret,
        secret_of_another,
        hash_instead_of_secret,
        expired_key,
        revoked_key,
    ],
)
def test_key_that_does_not_open_gets_the_same_words_whatever_is_wrong(
    call: Call, frozen_clock: FrozenClock, key_state: Callable[[FrozenClock], str]
) -> None:
    key = key_state(frozen_clock)
    for form in HEADER_FORMS:
        response = call(form(key))

        assert response.status_code == 401, form(key)
        assert response["WWW-Authenticate"] == "Bearer"
        assert response["Content-Type"] == "application/problem+json"
        body = body_of(response)
        assert body["code"] == "not_authenticated"
        assert body["detail"] == "This API key is not valid; ask an operator for one that is."


@pytest.mark.parametrize("key_state", [unknown_client, wrong_secret])
def test_unknown_id_and_wrong_secret_cost_the_same(
    call: Call,
    frozen_clock: FrozenClock,
    django_assert_num_queries: DjangoAssertNumQueries,
    monkeypatch: pytest.MonkeyPatch,
    key_state: Callable[[FrozenClock], str],
) -> None:
    key = key_state(frozen_clock)
    compare = Mock(wraps=hmac.compare_digest)
    monkeypatch.setattr(hmac, "compare_digest", compare)

    with django_assert_num_queries(1):
        call(bearer(key))

    assert compare.call_count == 2


def test_wrong_secret_for_a_client_just_seen_costs_the_same_read(
    call: Call, frozen_clock: FrozenClock, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client, key = make()
    call(bearer(key))

    with django_assert_num_queries(1):
        assert call(bearer(f"{client.client_id}.wrong")).status_code == 401


def test_secret_of_a_request_is_not_logged(
    call: Call, frozen_clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    key = live_key(frozen_clock)
    wrong = wrong_secret(frozen_clock)

    with caplog.at_level(logging.DEBUG):
        responses = [
            call(bearer(key)),
            call(bearer(wrong)),
            call(basic(wrong)),
            call(f"Token {key}"),
            call(f"Bearer {key},{key}"),
        ]

    assert [response.status_code for response in responses] == [200, 401, 401, 401, 401]
    for secret in (key.partition(".")[2], wrong.partition(".")[2]):
        assert secret not in caplog.text
        assert not [r for r in responses if secret.encode() in r.content]


@pytest.fixture
def three_failures(settings: Any) -> None:
    settings.FAILED_KEY_LIMIT = 3


@pytest.mark.usefixtures("three_failures")
@pytest.mark.parametrize("header", ["Bearer nobody-222222.x", "Token x", "Bearer a.b, Bearer c.d"])
def test_refused_keys_beyond_the_limit_wait_until_the_minute_is_over(
    call: Call, frozen_clock: FrozenClock, header: str
) -> None:
    frozen_clock.advance(seconds=20)
    assert [call(header).status_code for _ in range(4)] == [401, 401, 401, 429]

    response = call(header)

    assert response.status_code == 429
    assert response["Retry-After"] == "40"
    assert body_of(response)["code"] == "throttled"
    assert "Too many wrong API keys from this address" in body_of(response)["detail"]
    frozen_clock.advance(seconds=39)
    assert call(header).status_code == 429
    frozen_clock.advance(seconds=1)
    assert call(header).status_code == 401


@pytest.mark.usefixtures("three_failures")
def test_valid_key_is_not_counted_and_works_from_an_address_that_has_to_wait(
    call: Call, frozen_clock: FrozenClock
) -> None:
    key = live_key(frozen_clock)
    for _ in range(10):
        call(bearer(key))
        call()

    assert [call("Bearer nobody-222222.x").status_code for _ in range(4)] == [401, 401, 401, 429]
    assert call(bearer(key)).status_code == 200


@pytest.mark.usefixtures("three_failures")
def test_refused_keys_are_not_throttled_while_the_cache_is_away(
    call: Call, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "add", Mock(return_value=False))
    monkeypatch.setattr(cache, "incr", Mock(side_effect=ValueError("Key not found")))

    assert [call("Bearer nobody-222222.x").status_code for _ in range(10)] == [401] * 10
