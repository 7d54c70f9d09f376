"""Redis as a cache: an outage costs only speed."""

from __future__ import annotations

import functools
import logging
import threading
import time
from typing import Any

from django_redis.cache import RedisCache
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

FAILURES_TO_OPEN = 3
OPEN_SECONDS = 5.0


class Breaker:
    """Skips Redis for five seconds after three failures in a row, then lets one call try it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._skip_until = 0.0

    def allows(self) -> bool:
        """Whether to call Redis now. After the pause one call per second is let through."""
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
    """django-redis that behaves like an empty cache while Redis is away.

    Its option IGNORE_EXCEPTIONS does the same, but every call to a paused Redis would wait for the
    timeout, and a request makes several. Values that cannot be decoded count as absent.
    """

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self.breaker = breaker_of(str(server))

    def _call(self, name: str, away: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.breaker.allows():
            return away
        try:
            answer = getattr(super(), name)(*args, **kwargs)
        except (RedisError, OSError) as error:
            self.breaker.failed(error)
            return away
        self.breaker.succeeded()
        return answer

    def get(self, key: str, default: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call("get", default, key, default, *args, **kwargs)
        except ValueError:
            return default

    def get_many(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call("get_many", {}, *args, **kwargs)
        except ValueError:
            return {}

    def set(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("set", False, *args, **kwargs)

    def add(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("add", False, *args, **kwargs)

    def incr(self, key: str, *args: Any, **kwargs: Any) -> Any:
        count = self._call("incr", None, key, *args, **kwargs)
        if count is None:
            # Django's answer for an absent key.
            raise ValueError(f"Key {key!r} not found")
        return count

    def touch(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("touch", False, *args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("delete", False, *args, **kwargs)

    def delete_many(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("delete_many", 0, *args, **kwargs)

    def has_key(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("has_key", False, *args, **kwargs)
