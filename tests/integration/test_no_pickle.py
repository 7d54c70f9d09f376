"""Whoever can write to Redis runs no code here: nothing that comes back is unpickled."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from django.core import signing
from django.core.cache import cache, caches
from kombu import serialization
from kombu.exceptions import ContentDisallowed

from apps.common.cache import breaker_of
from apps.common.sessions import SessionStore
from tests.servers import redis_server


class Bomb:
    """Touches a file as soon as it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


class Pickled:
    def dumps(self, value: Any) -> bytes:
        return pickle.dumps(value)


@pytest.fixture
def bomb(tmp_path: Path) -> Any:
    armed = Bomb(tmp_path / "exploded")
    yield armed
    assert not armed.path.exists()


def test_bomb_explodes_when_it_is_unpickled(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(tmp_path / "exploded")))  # noqa: S301
    assert (tmp_path / "exploded").exists()


def test_cache_takes_a_pickle_for_an_absent_value(bomb: Bomb, settings: Any) -> None:
    from taskplatform import settings as product

    serializer = "django_redis.serializers.json.JSONSerializer"
    assert serializer in Path(product.__file__).read_text()
    with redis_server() as server:
        options = {"SERIALIZER": serializer}
        backend = "apps.common.cache.BreakerRedisCache"
        settings.CACHES = {
            "default": {"BACKEND": backend, "LOCATION": server.url, "OPTIONS": options}
        }
        breaker_of.cache_clear()
        cache.set("plan", {"a": 1})
        assert cache.get("plan") == {"a": 1}
        raw = cache.client.get_client(write=True)  # type: ignore[attr-defined]
        raw.set(cache.make_key("plan"), pickle.dumps(bomb))

        assert cache.get("plan", "absent") == "absent"
        assert cache.get_many(["plan"]) == {}
        caches.close_all()


def test_session_of_a_pickle_is_empty(bomb: Bomb, settings: Any) -> None:
    assert settings.SESSION_ENGINE == SessionStore.__module__
    store = SessionStore()
    signed = signing.dumps(bomb, salt=store.key_salt, serializer=Pickled)

    assert store.decode(signed) == {}


def test_celery_refuses_messages_that_are_no_json(bomb: Bomb) -> None:
    from taskplatform.celery import app

    assert list(app.conf.accept_content) == ["json"]
    with pytest.raises(ContentDisallowed):
        serialization.loads(
            pickle.dumps(bomb),
            "application/x-python-serialize",
            "binary",
            accept=serialization.prepare_accept_content(app.conf.accept_content),
        )
