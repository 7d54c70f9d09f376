"""Wake-ups: a commit wakes the waiting drains through Redis.

A lost wake-up costs at most one scan period: the table is the queue.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import redis
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

logger = logging.getLogger(__name__)

# Announcements within this time go out together: drains are awake by then.
COALESCE_SECONDS = 0.005
# An idle connection may have been cut unnoticed.
_IDLE_SECONDS = 30.0
_TIMEOUT_SECONDS = 0.3
_RECONNECT_SECONDS = 1.0


def channel() -> str:
    """The Redis channel of this installation's drains.

    A message is `lane`, `lane type` or `lane type job`. An empty lane means all. The type is given
    when only its jobs are new, the job is the first of them.
    """
    return f"taskplatform:{settings.DATABASES['default']['NAME']}:jobs"


def announce(lane: str = "", type_: str = "", job: int = 0) -> None:
    """Wake the drains of the lane, "" for all, once the present transaction has committed.

    Equal calls in one transaction wake once. With a type, drains try jobs of it first; with the
    number of a job, that job. The drain that holds it then polls for the others.
    """
    if not settings.REDIS_URL:
        # Without Redis, drains poll often enough.
        return
    connection = transaction.get_connection()
    if not connection.in_atomic_block:
        _publish(lane, type_, job)
        return
    announcement = _Announcement(lane, type_, job)
    if not any(function == announcement for _, function, _ in connection.run_on_commit):
        transaction.on_commit(announcement)


@dataclass(frozen=True, slots=True)
class _Announcement:
    """A message to publish after the commit; of several jobs the first is enough."""

    lane: str
    type: str
    job: int = field(compare=False)

    def __call__(self) -> None:
        _publish(self.lane, self.type, self.job)


class _Publisher:
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


_lock = threading.Lock()
_publisher: _Publisher | None = None


def _publish(lane: str, type_: str, job: int) -> None:
    global _publisher
    publisher = _publisher
    if publisher is None or publisher.pid != os.getpid():
        with _lock:
            if _publisher is None or _publisher.pid != os.getpid():
                _publisher = _Publisher()
            publisher = _publisher
    publisher.publish(lane, type_, job)
