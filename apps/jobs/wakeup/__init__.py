"""Wake-ups: a commit wakes the waiting drains through Redis.

A lost wake-up costs at most one scan period: the table is the queue.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction

if TYPE_CHECKING:
    from apps.jobs.wakeup.over_redis import Publisher


class RedisIsAway(Exception):
    """Redis does not answer, and why."""


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


_lock = threading.Lock()
_publisher: Publisher | None = None


def _publish(lane: str, type_: str, job: int) -> None:
    global _publisher
    publisher = _publisher
    if publisher is None or publisher.pid != os.getpid():
        # Redis takes 5 MB of a process; one that is without it loads none.
        from apps.jobs.wakeup.over_redis import Publisher

        with _lock:
            if _publisher is None or _publisher.pid != os.getpid():
                _publisher = Publisher()
            publisher = _publisher
    publisher.publish(lane, type_, job)
