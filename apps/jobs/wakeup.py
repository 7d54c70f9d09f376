"""Telling waiting drains that there is something to do, as soon as it is committed.

A lost wake-up costs at most one scan period: the table is the queue.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from typing import cast

from django.conf import settings
from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.db import transaction

from apps.common.cache import BreakerRedisCache

# What is announced within it goes out as one message: drains are awake by then.
COALESCE_SECONDS = 0.005


def channel() -> str:
    """The Redis channel of this installation's drains; its messages are the names of lanes."""
    return f"taskplatform:{settings.DATABASES['default']['NAME']}:jobs"


def announce(lane: str = "") -> None:
    """Wake the drains of the lane, "" for all, once the present transaction has committed.

    Many calls in one transaction wake once.
    """
    if not settings.REDIS_URL:
        # SQLite and MariaDB alone: drains look by themselves, so often that nobody has to tell.
        return
    tell = _telling(lane)
    planned = transaction.get_connection().run_on_commit
    if not any(function is tell for _, function, _ in planned):
        transaction.on_commit(tell)


@functools.cache
def _telling(lane: str) -> Callable[[], None]:
    return lambda: _tell(lane)


class _Teller:
    """The thread of one process that publishes: no caller waits for Redis."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lanes: set[str] = set()
        self._wanted = threading.Event()
        threading.Thread(target=self._run, name="wakeup", daemon=True).start()

    def tell(self, lane: str) -> None:
        self._lanes.add(lane)
        self._wanted.set()

    def _run(self) -> None:
        while self._wanted.wait():
            self._wanted.clear()
            lanes, self._lanes = self._lanes, set()
            redis = cast(BreakerRedisCache, caches[DEFAULT_CACHE_ALIAS])
            # None, when one was noted in the very moment of the change: then whoever it was.
            for lane in sorted(lanes) or [""]:
                redis.publish(channel(), lane)
            time.sleep(COALESCE_SECONDS)


_lock = threading.Lock()
_teller: _Teller | None = None


def _tell(lane: str) -> None:
    global _teller
    teller = _teller
    if teller is None or teller.pid != os.getpid():
        with _lock:
            if _teller is None or _teller.pid != os.getpid():
                _teller = _Teller()
            teller = _teller
    teller.tell(lane)
