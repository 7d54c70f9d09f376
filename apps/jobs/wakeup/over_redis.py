"""Wake-ups over Redis: who publishes them for a process, and what a drain hears.

Nothing else of the jobs loads Redis, and only a platform that has one loads this.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from apps.jobs.wakeup import RedisIsAway, channel

logger = logging.getLogger(__name__)

# Announcements within this time go out together: drains are awake by then.
COALESCE_SECONDS = 0.005
# An idle connection may have been cut unnoticed.
_IDLE_SECONDS = 30.0
_TIMEOUT_SECONDS = 0.3
_RECONNECT_SECONDS = 1.0
# Redis cuts a subscription that nobody reads; its messages are outdated anyway.
_UNREAD_SECONDS = 2.0


class Publisher:
    """Publishes for one process; no caller waits for Redis.

    The first message after a pause is sent by the caller's thread. Those that follow at once are
    sent together by a thread, which also connects.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        # (lane, type) -> first job. Single dict operations are atomic, so it needs no lock.
        self._waiting: dict[tuple[str, str], int] = {}
        self._wanted = threading.Event()
        self._writing = threading.Lock()
        self._connection: Any = None
        self._sent_at = 0.0
        self._connect_at = 0.0
        threading.Thread(target=self._run, name="wakeup", daemon=True).start()

    def publish(self, lane: str, type_: str, job: int) -> None:
        self._waiting.setdefault((lane, type_), job)
        if self._wanted.is_set():
            # The thread will send it.
            return
        idle = time.monotonic() - self._sent_at
        if COALESCE_SECONDS <= idle < _IDLE_SECONDS and self._writing.acquire(blocking=False):
            try:
                if self._connection is not None and self._send():
                    return
            finally:
                self._writing.release()
        self._wanted.set()

    def _run(self) -> None:
        while self._wanted.wait():
            early = self._sent_at + COALESCE_SECONDS - time.monotonic()
            if early > 0:
                # Stay awake while messages keep coming: waking the thread costs callers more.
                time.sleep(early)
            elif self._waiting:
                self._send_or_drop()
            else:
                self._wanted.clear()
                if self._waiting:
                    self._wanted.set()

    def _send_or_drop(self) -> None:
        with self._writing:
            # Retry once: the connection may have been cut.
            if not any(self._connected() and self._send() for _ in range(2)):
                self._waiting.clear()
                self._sent_at = time.monotonic()

    def _connected(self) -> bool:
        now = time.monotonic()
        if self._connection is not None and now - self._sent_at >= _IDLE_SECONDS:
            self._connection.disconnect()
            self._connection = None
        if self._connection is None and now >= self._connect_at:
            connection: Any = redis.ConnectionPool.from_url(
                settings.REDIS_URL,
                socket_connect_timeout=_TIMEOUT_SECONDS,
                socket_timeout=_TIMEOUT_SECONDS,
                retry=Retry(NoBackoff(), 0),
            ).make_connection()
            try:
                connection.connect()
                # Without replies, nothing has to be read.
                connection.send_command("CLIENT", "REPLY", "OFF")
            except (redis.RedisError, OSError) as error:
                logger.warning("wake-up: Redis is away: %s", error)
                self._connect_at = time.monotonic() + _RECONNECT_SECONDS
            else:
                self._connection = connection
        return self._connection is not None

    def _send(self) -> bool:
        """Publish what waits; False when the connection is broken."""
        batch = []
        while self._waiting:
            batch.append(self._waiting.popitem())
        try:
            for (lane, type_), job in batch:
                message = " ".join(filter(None, (lane, type_, str(job or ""))))
                self._connection.send_command("PUBLISH", channel(), message)
            # Only a connection that was cut has something to read.
            while self._connection.can_read(0):
                self._connection.read_response()
        except (redis.RedisError, OSError):
            self._connection.disconnect()
            self._connection = None
            self._waiting.update(batch)
            return False
        self._sent_at = time.monotonic()
        return True


class Subscription:
    """What one drain hears of commits. Each call raises RedisIsAway; then another one is needed."""

    def __init__(self) -> None:
        # Referenced as long as the subscription: a collected client closes its connections.
        self._client = _subscriber()
        self._messages = self._client.pubsub(ignore_subscribe_messages=False)
        try:
            with _answered():
                self._messages.subscribe(channel())
                if self._messages.get_message(timeout=1.0) is None:
                    raise redis.TimeoutError("no answer to SUBSCRIBE")
        except RedisIsAway:
            self.close()
            raise
        self._read_at = time.monotonic()

    @property
    def is_outdated(self) -> bool:
        """Whether it was not read for so long that Redis may have cut it."""
        return time.monotonic() - self._read_at > _UNREAD_SECONDS

    def read(self, seconds: float) -> str | None:
        """The next message, None without one in that time."""
        with _answered():
            message = self._messages.get_message(timeout=seconds)
        self._read_at = time.monotonic()
        if message is None:
            return None
        data = message["data"]
        return data.decode() if isinstance(data, bytes) else ""

    def close(self) -> None:
        with suppress(redis.RedisError, OSError):
            self._messages.close()
            self._client.close()


def _subscriber() -> Any:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=0.5,
        socket_timeout=1.0,
        retry=Retry(NoBackoff(), 0),
    )


@contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except (redis.RedisError, OSError) as error:
        raise RedisIsAway(str(error)) from error
