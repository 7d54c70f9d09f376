"""A key with a rate is held to it, and only such a key."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.cache import cache

from apps.access import services, throttles
from apps.access.rules.clients import Rate
from tests.frozen import FrozenClock
from tests.integration.access.conftest import START, Call, bearer

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("frozen_clock")]


def key_with(rate: str, **changes: Any) -> str:
    return services.create_client(
        **{"name": "Key", "scopes": ["read"], "rate": rate, "actor": "ada", **changes}
    )[1]


@pytest.fixture
def lasting_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache forgets none of them: it goes by a clock that does not stand still meanwhile."""
    add = cache.add
    monkeypatch.setattr(cache, "add", lambda key, count, timeout: add(key, count, timeout=None))


@pytest.mark.usefixtures("lasting_counts")
@pytest.mark.parametrize(
    ("rate", "seconds", "passed"),
    [("3/s", 1, 0), ("3/m", 60, 20), ("3/h", 3600, 90), ("3/d", 86_400, 0)],
)
def test_request_beyond_the_rate_waits_until_the_window_is_over(
    call: Call, frozen_clock: FrozenClock, rate: str, seconds: int, passed: int
) -> None:
    key = bearer(key_with(rate))
    start = int(START.timestamp()) % seconds
    frozen_clock.advance(seconds=-start + passed)
    assert [call(key).status_code for _ in range(3)] == [200, 200, 200]

    response = call(key)

    assert response.status_code == 429
    assert response["Retry-After"] == str(seconds - passed)
    assert json.loads(response.content)["code"] == "throttled"
    frozen_clock.advance(seconds=seconds - passed)
    assert call(key).status_code == 200


def test_each_client_has_a_count_of_its_own(call: Call) -> None:
    first, second = bearer(key_with("1/m")), bearer(key_with("1/m"))

    assert [call(key).status_code for key in (first, second, first, second)] == [200, 200, 429, 429]


def test_old_and_new_key_of_a_rotation_share_the_count(call: Call) -> None:
    client, old = services.create_client(name="Key", scopes=["read"], rate="1/m", actor="ada")
    new = services.rotate(client, actor="ada")

    assert [call(bearer(key)).status_code for key in (old, new)] == [200, 429]


def test_request_without_the_scope_is_not_counted(call: Call) -> None:
    key = bearer(key_with("1/m", scopes=["pull"]))

    assert {call(key).status_code for _ in range(3)} == {403}


def test_rate_allows_everything_while_the_cache_is_away(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = bearer(key_with("1/m"))
    monkeypatch.setattr(cache, "add", Mock(return_value=False))
    monkeypatch.setattr(cache, "incr", Mock(side_effect=ValueError("Key not found")))

    assert {call(key).status_code for _ in range(5)} == {200}


def test_count_shared_by_threads_lets_exactly_the_rate_through() -> None:
    def within_rate(_: int) -> bool:
        return throttles.seconds_to_wait("shared", Rate(50, 60)) is None

    with ThreadPoolExecutor(8) as pool:
        let_through = sum(pool.map(within_rate, range(200)))

    assert let_through == 50
