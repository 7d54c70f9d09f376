"""After a commit: send in a thread of this process, so that nobody waits for the next look."""

from __future__ import annotations

import logging
import threading

from django.db import DatabaseError, connections

from ..sdk import PlatformError

logger = logging.getLogger("taskplatform.outbox")

_wanted = threading.Event()
_one_at_a_time = threading.Lock()


def nudge() -> None:
    """Send soon; what fails waits for the next commit, or for `manage.py send_jobs`."""
    _wanted.set()
    if not _one_at_a_time.locked():
        # A daemon: a process that ends is not kept, and what it was sending is repeated.
        threading.Thread(target=_send, name="taskplatform-outbox", daemon=True).start()


def _send() -> None:
    from .sending import Sender

    try:
        while _wanted.is_set() and _one_at_a_time.acquire(blocking=False):
            try:
                _wanted.clear()
                Sender().send_due()
            finally:
                _one_at_a_time.release()
    except (PlatformError, DatabaseError) as error:
        logger.warning("jobs wait in the outbox: %s", error)
    finally:
        connections.close_all()
