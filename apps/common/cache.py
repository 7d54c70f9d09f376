"""Redis as a cache that may vanish at any instant and then costs nothing but speed."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from django_redis.cache import RedisCache
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

FAILURES_TO_OPEN = 3
OPEN_SECONDS = 5.0


class Breaker:
    """After three failures in a row skips Redis for five seconds, then lets one call probe it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._skip_until = 0.0

    def allows(self) -> bool:
        """Whether to call Redis now; the first yes after a pause is a probe, alone for 1 s."""
        if self._failures < FAILURES_TO_OPEN:
            return True
        with self._lock:
            if time.monotonic() < self._skip_until:
                return False
            self._skip_until = time.monotonic() + 1.0
            return True

    def succeeded(self) -> None:
        if self._failures:
            with self._lock:
                was_open = self._failures >= FAILURES_TO_OPEN
                self._failures = 0
            if was_open:
                logger.warning("cache: Redis answers again")

    def failed(self, error: Exception) -> None:
        with self._lock:
            self._failures += 1
            if self._failures < FAILURES_TO_OPEN:
                return
            self._skip_until = time.monotonic() + OPEN_SECONDS
        logger.warning("cache: Redis is away, skipped for %.0f s: %s", OPEN_SECONDS, error)


@functools.cache
def breaker_of(server: str) -> Breaker:
    """The breaker of one Redis, shared by the cache objects that Django makes per thread."""
    return Breaker()


class BreakerRedisCache(RedisCache):  # type: ignore[misc]
    """django-redis whose calls answer like an empty cache while Redis is away."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self.breaker = breaker_of(str(server))

    def _guarded(self, call: Callable[[], Any], away: Any) -> Any:
        if not self.breaker.allows():
            return away
        try:
            answer = call()
        except (RedisError, OSError) as error:
            self.breaker.failed(error)
            return away
        self.breaker.succeeded()
        return answer

    def get(
        self, key: str, default: Any = None, version: int | None = None, client: Any = None
    ) -> Any:
        read = super().get
        return self._guarded(lambda: read(key, default, version, client), default)

    def get_many(self, *args: Any, **kwargs: Any) -> Any:
        read = super().get_many
        return self._guarded(lambda: read(*args, **kwargs), {})

    def set(self, *args: Any, **kwargs: Any) -> Any:
        write = super().set
        return self._guarded(lambda: write(*args, **kwargs), False)

    def add(self, *args: Any, **kwargs: Any) -> Any:
        write = super().add
        return self._guarded(lambda: write(*args, **kwargs), False)

    def incr(self, key: str, *args: Any, **kwargs: Any) -> Any:
        write = super().incr
        count = self._guarded(lambda: write(key, *args, **kwargs), None)
        if count is None:
            # What Django's caches say of an absent key, and while Redis is away every key is.
            raise ValueError(f"Key {key!r} not found")
        return count

    def touch(self, *args: Any, **kwargs: Any) -> Any:
        write = super().touch
        return self._guarded(lambda: write(*args, **kwargs), False)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        write = super().delete
        return self._guarded(lambda: write(*args, **kwargs), False)

    def delete_many(self, *args: Any, **kwargs: Any) -> Any:
        write = super().delete_many
        return self._guarded(lambda: write(*args, **kwargs), 0)

    def has_key(self, *args: Any, **kwargs: Any) -> Any:
        read = super().has_key
        return self._guarded(lambda: read(*args, **kwargs), False)
