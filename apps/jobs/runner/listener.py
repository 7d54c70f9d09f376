"""Waiting for the next job without polling the tables all the time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection

from apps.jobs.wakeup import RedisIsAway

if TYPE_CHECKING:
    from apps.jobs.wakeup.over_redis import Subscription

logger = logging.getLogger(__name__)

VERSION_SECONDS = 0.02
PROBE_SECONDS = 0.1
# Once nothing was due for so long, the file is looked at more seldom.
BUSY_SECONDS, IDLE_VERSION_SECONDS = 30.0, 0.2
RECONNECT_SECONDS = 5.0
# A drain of another lane waits this long, so that the lane's own drains take the job first.
HELP_SECONDS = 0.005
_SLICE_SECONDS = 0.25


class Listener:
    """Wakes a drain: by Redis, by the version of the SQLite file, or by probing MariaDB/MySQL.

    `is_due` is one indexed probe. A wait may end early for nothing; the drain then polls in vain.
    `new`: the types with new jobs according to the last wake-up, each with the number of a job or
    0; empty when any type may have some.
    """

    def __init__(
        self,
        is_due: Callable[[], bool],
        is_stopping: Callable[[], bool],
        lanes: Sequence[str] = (),
    ) -> None:
        """`lanes` are those that the drain polls, its own first; none means every lane."""
        self._lanes = lanes
        self._is_due = is_due
        self._is_stopping = is_stopping
        self.new: dict[str, int] = {}
        self._version = -1
        self._due_at = time.monotonic()
        self._subscription: Subscription | None = None
        self._connect_at = 0.0

    def wait(self, seconds: float) -> bool:
        """Wait until something may be due; False after this many seconds without a wake-up."""
        self.new = {}
        deadline = time.monotonic() + seconds
        while not self._is_stopping() and (left := deadline - time.monotonic()) > 0:
            if self._has_woken(min(left, _SLICE_SECONDS)):
                return True
        return False

    @property
    def sees_all(self) -> bool:
        """Whether no wake-up is lost, and nothing was due for a while: polls would find nothing."""
        return _has_file() and self._is_idle()

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def _has_woken(self, seconds: float) -> bool:
        if settings.REDIS_URL:
            return self._redis_has_message(seconds)
        if _has_file():
            # Sweeps write each second; one probe costs less than a poll that finds nothing.
            if not (self._file_has_changed(seconds) and self._is_due()):
                return False
            self._due_at = time.monotonic()
            return True
        return self._probe(seconds)

    def _probe(self, seconds: float) -> bool:
        time.sleep(min(seconds, PROBE_SECONDS))
        return self._is_due()

    def _file_has_changed(self, seconds: float) -> bool:
        """Whether another connection has committed since the last call, which may be long ago."""
        deadline = time.monotonic() + seconds
        pause = IDLE_VERSION_SECONDS if self._is_idle() else VERSION_SECONDS
        while True:
            version = _file_version()
            if version != self._version:
                self._version = version
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)

    def _is_idle(self) -> bool:
        return time.monotonic() - self._due_at > BUSY_SECONDS

    def _redis_has_message(self, seconds: float) -> bool:
        # Redis takes 5 MB of a process; one that is without it loads none.
        from apps.jobs.wakeup.over_redis import Subscription

        if self._subscription is not None and self._subscription.is_outdated:
            self.close()
        try:
            if self._subscription is None:
                if time.monotonic() < self._connect_at:
                    return self._probe(seconds)
                self._subscription = Subscription()
                # Messages before the subscription were missed.
                return True
            message = self._subscription.read(seconds)
            messages = set[str]()
            while message is not None:
                messages.add(message)
                message = self._subscription.read(0)
        except RedisIsAway as error:
            logger.warning("drain: Redis is away, polling every %g s: %s", PROBE_SECONDS, error)
            self.close()
            self._connect_at = time.monotonic() + RECONNECT_SECONDS
            return True
        return self._concerns(messages)

    def _concerns(self, messages: Collection[str]) -> bool:
        """Whether the drain should poll; other lanes get a moment to serve themselves first."""
        parts = [[*message.split(" "), "", ""][:3] for message in messages]
        mine = [each for each in parts if not each[0] or not self._lanes or each[0] in self._lanes]
        if mine and self._lanes and all(lane and lane != self._lanes[0] for lane, *_ in mine):
            time.sleep(HELP_SECONDS)
        if all(type_ for _, type_, _ in mine):
            self.new = {type_: int(job) if job.isdigit() else 0 for _, type_, job in mine}
        return bool(mine)


def _has_file() -> bool:
    """Whether the version of a file tells of new jobs."""
    return not settings.REDIS_URL and connection.vendor == "sqlite"


def _file_version() -> int:
    """A number that changes when another connection commits.

    Asked past Django, whose cursor takes most of the time, by each idle drain some times a second.
    """
    connection.ensure_connection()
    with connection.wrap_database_errors:
        [version] = connection.connection.execute("PRAGMA data_version").fetchone()
    return int(version)
