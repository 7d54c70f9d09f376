"""Telling waiting drains that there is something to do, as soon as it is committed.

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

# What is announced within it goes out as one message: drains are awake by then.
COALESCE_SECONDS = 0.005
# An idle connection may have been cut without a word.
_IDLE_SECONDS = 30.0
_TIMEOUT_SECONDS = 0.3
_RECONNECT_SECONDS = 1.0


def channel() -> str:
    """The Redis channel of this installation's drains.

    A message is the name of a lane, "" for all. After a blank may follow a type, when nothing is
    new but jobs of it, and after another the number of the first of them.
    """
    return f"taskplatform:{settings.DATABASES['default']['NAME']}:jobs"


def announce(lane: str = "", type_: str = "", job: int = 0) -> None:
    """Wake the drains of the lane, "" for all, once the present transaction has committed.

    Many calls in one transaction wake once. With a type, they look for jobs of that one first, and
    with the number of a job for that: whoever gets it finds the others.
    """
    if not settings.REDIS_URL:
        # SQLite and MariaDB alone: drains look by themselves, so often that nobody has to tell.
        return
    connection = transaction.get_connection()
    if not connection.in_atomic_block:
        _tell(lane, type_, job)
        return
    tell = _Telling(lane, type_, job)
    if not any(function == tell for _, function, _ in connection.run_on_commit):
        transaction.on_commit(tell)


@dataclass(frozen=True, slots=True)
class _Telling:
    """What is to be told after a commit; of several jobs the first one will do."""

    lane: str
    type: str
    job: int = field(compare=False)

    def __call__(self) -> None:
        _tell(self.lane, self.type, self.job)


class _Teller:
    """Publishes for one process; no caller waits for Redis.

    After a quiet moment whoever announces writes to the connection. What follows closely is sent
    together by a thread, which also connects.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        # By lane and type the first job. Each step of a dict is one, so it needs no lock.
        self._waiting: dict[tuple[str, str], int] = {}
        self._wanted = threading.Event()
        self._writing = threading.Lock()
        self._connection: Any = None
        self._sent_at = 0.0
        self._connect_at = 0.0
        threading.Thread(target=self._run, name="wakeup", daemon=True).start()

    def tell(self, lane: str, type_: str, job: int) -> None:
        self._waiting.setdefault((lane, type_), job)
        if self._wanted.is_set():
            # The thread will look.
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
                # It stays while one follows the other: calling it costs them more than this.
                time.sleep(early)
            elif self._waiting:
                self._send_or_drop()
            else:
                self._wanted.clear()
                if self._waiting:
                    self._wanted.set()

    def _send_or_drop(self) -> None:
        with self._writing:
            # Once more when the connection turns out to have been cut.
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
                # What is never answered need not be read.
                connection.send_command("CLIENT", "REPLY", "OFF")
            except (redis.RedisError, OSError) as error:
                logger.warning("wake-up: Redis is away: %s", error)
                self._connect_at = time.monotonic() + _RECONNECT_SECONDS
            else:
                self._connection = connection
        return self._connection is not None

    def _send(self) -> bool:
        """Publish what waits; False when the connection has turned out to be broken."""
        told = []
        while self._waiting:
            told.append(self._waiting.popitem())
        try:
            for (lane, type_), job in told:
                message = " ".join(filter(None, (lane, type_, str(job or ""))))
                self._connection.send_command("PUBLISH", channel(), message)
            # Only one that was cut before has something to read.
            while self._connection.can_read(0):
                self._connection.read_response()
        except (redis.RedisError, OSError):
            self._connection.disconnect()
            self._connection = None
            self._waiting.update(told)
            return False
        self._sent_at = time.monotonic()
        return True


_lock = threading.Lock()
_teller: _Teller | None = None


def _tell(lane: str, type_: str, job: int) -> None:
    global _teller
    teller = _teller
    if teller is None or teller.pid != os.getpid():
        with _lock:
            if _teller is None or _teller.pid != os.getpid():
                _teller = _Teller()
            teller = _teller
    teller.tell(lane, type_, job)
