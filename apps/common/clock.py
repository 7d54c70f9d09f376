"""The one clock: database time, carried forward by the machine's monotonic clock.

Every deadline and every due instant is decided by it, so that machines whose wall clocks differ
agree. It moves forward at once; instead of moving backward it stays the same for a while.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DatabaseError, connection
from django.db.backends.signals import connection_created

logger = logging.getLogger(__name__)

RESYNC_SECONDS = 10.0

_QUERIES = {
    "mysql": "SELECT UTC_TIMESTAMP(6)",
    # SQLite returns milliseconds.
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
}
# CLOCK_BOOTTIME goes on while the machine sleeps.
_ELAPSED_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _elapsed() -> float:
    return time.clock_gettime(_ELAPSED_CLOCK)


class DatabaseClock:
    """Database time at the last sync plus the seconds elapsed since; one per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._synced: tuple[datetime, float] | None = None
        self._due_at = 0.0
        self._last = datetime.min.replace(tzinfo=UTC)

    def now(self) -> datetime:
        """The present instant, aware and in UTC; never earlier than the one before.

        Raises DatabaseError only when the database has never answered in this process.
        """
        synced, elapsed = self._synced, _elapsed()
        if synced is None or elapsed >= self._due_at:
            synced, elapsed = self._sync(), _elapsed()
        base, base_at = synced
        present = base + timedelta(seconds=elapsed - base_at)
        with self._lock:
            if present > self._last:
                self._last = present
            return self._last

    def _sync(self) -> tuple[datetime, float]:
        before = _elapsed()
        try:
            answer = self._read()
        except DatabaseError:
            if self._synced is None:
                raise
            logger.warning("clock: the database did not answer; going on with elapsed time")
            self._due_at = _elapsed() + 1.0
            return self._synced
        after = _elapsed()
        # The database read its clock between our two readings.
        self._synced = (answer, (before + after) / 2)
        self._due_at = after + RESYNC_SECONDS
        return self._synced

    def _read(self) -> datetime:
        with connection.cursor() as cursor:
            cursor.execute(_QUERIES[connection.vendor])
            value: Any = cursor.fetchone()[0]
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        answer: datetime = value.replace(tzinfo=UTC)
        return answer

    def resync(self, **_kwargs: object) -> None:
        """Query the database at the next reading: after a reconnect it may be another server."""
        self._due_at = 0.0


_clock = DatabaseClock()
connection_created.connect(_clock.resync, dispatch_uid="common.clock")


def now() -> datetime:
    """The present instant by the database's clock (aware, UTC)."""
    return _clock.now()


def drift() -> timedelta:
    """How far this machine's wall clock is ahead of the database's; negative when behind."""
    return datetime.now(UTC) - now()
