"""Redis flushed, paused, refused or gone: the final rows are those of a run without any cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache, caches

from apps.common.cache import breaker_of
from apps.dispatch.models import Dispatch, Stock
from tests import factories
from tests.servers import RedisServer, redis_server

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def caches_in(server: RedisServer, *, patience: float) -> dict[str, Any]:
    """The cache settings for it, with a timeout of that many seconds for each answer."""
    return {
        "default": {
            "BACKEND": "apps.common.cache.BreakerRedisCache",
            "LOCATION": server.url,
            "OPTIONS": {
                "SOCKET_CONNECT_TIMEOUT": patience,
                "SOCKET_TIMEOUT": patience,
                "SERIALIZER": "django_redis.serializers.json.JSONSerializer",
            },
        }
    }


@pytest.fixture
def redis(settings: Any) -> Iterator[RedisServer]:
    """A Redis of the test's own, as the cache of the web process."""
    with redis_server() as server:
        settings.CACHES = caches_in(server, patience=0.2)
        breaker_of.cache_clear()
        yield server
        caches.close_all()


FAULTS: dict[str, Callable[[RedisServer], object]] = {
    "nothing": lambda redis: None,
    "flushed": lambda redis: cache.clear(),
    "paused": lambda redis: redis.pause(),
    "killed": lambda redis: redis.kill(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_hand_outs_do_not_depend_on_redis(
    redis: RedisServer, make_key: Any, api_with: Any, fault: str
) -> None:
    """I9, F12: only timing changes; keys with a rate and wrong keys still get their answers."""
    names = [f"uid_{n}" for n in range(6)]
    group = factories.group("gid_all", names)
    task = factories.once_task(group, mode="multi", dispatch_times=4)
    api = api_with(make_key(scopes=["pull"], rate="1000/m"))
    taken = []
    for position, name in enumerate(names):
        if position == 2:
            FAULTS[fault](redis)
        answer = api.post("/api/v1/dispatch/", {"uid": name})
        if answer.status_code == 200:
            number = answer.json()["number"]
            done = {"uid": name, "number": number, "outcome": "succeeded"}
            assert api.post("/api/v1/callback/", done).status_code == 200
            taken.append(name)
        else:
            assert answer.status_code == 204
    assert taken == names[:4]
    assert Stock.objects.get(task=task.pk).handed == 4
    assert set(Dispatch.objects.values_list("state", flat=True)) == {"succeeded"}
    assert api_with("nobody.nothing").post("/api/v1/dispatch/", {"uid": "uid_0"}).status_code == 401


def test_value_that_cannot_be_decoded_counts_as_absent(redis: RedisServer) -> None:
    cache.set("a", {"b": [1]}, 60)
    assert cache.get("a") == {"b": [1]}
    cache.client.get_client().set(cache.make_key("a"), b"\x80\x05junk")
    assert cache.get("a", 7) == 7
    assert cache.get_many(["a"]) == {}


def test_cache_comes_back_with_redis(
    redis: RedisServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed and started again, it is used again without a restart of ours."""
    # One that lives but has no time for us is not what this is about.
    settings.CACHES = caches_in(redis, patience=30.0)
    assert cache.set("a", 1, 60)
    redis.kill()
    for _ in range(3):
        assert cache.get("a") is None
    redis.start()
    monkeypatch.setattr(cache.breaker, "_skip_until", 0.0)
    assert cache.set("a", 2, 60)
    assert cache.get("a") == 2
