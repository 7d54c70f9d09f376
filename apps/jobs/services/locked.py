"""Jobs that somebody keeps locked, such as a person with an open transaction in a SQL console.

Who waits for one of them waits as long as the database allows, and everything else with him; so
once that has happened they are left alone until they are free. On SQLite a transaction that writes
keeps everybody waiting, whatever it has locked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from django.db import DatabaseError, connection

from apps.common.db import exclusive_lock, fetch, placeholders, table
from apps.jobs.models import Job
from apps.jobs.rules.transitions import WAITING

logger = logging.getLogger(__name__)

# So often they are tried again.
TRIED_SECONDS = 5.0
_LOCK_WAIT_TIMEOUT = 1205

_known: frozenset[int] = frozenset()
_try_at = 0.0


def known() -> frozenset[int]:
    """The jobs that were locked for too long, as this process has found a moment ago."""
    if _known and time.monotonic() >= _try_at:
        _keep(_locked_among(_known))
    return _known


def note(ids: Collection[int], error: DatabaseError) -> None:
    """A statement on these jobs was given up; if it waited too long, remember for which."""
    if connection.vendor != "mysql" or error.args[:1] != (_LOCK_WAIT_TIMEOUT,):
        return
    found = _locked_among(ids)
    if found:
        logger.warning(
            "%d jobs, such as %d, are locked in an open transaction; others go before them",
            len(found),
            min(found),
        )
    _keep(_known | found)


def _keep(ids: frozenset[int]) -> None:
    global _known, _try_at
    _known, _try_at = ids, time.monotonic() + TRIED_SECONDS


def _locked_among(ids: Collection[int]) -> frozenset[int]:
    if not ids:
        return frozenset()
    some = sorted(ids)
    these = f"SELECT id FROM {table(Job)} WHERE id IN ({placeholders(len(some))})"
    free = {number for (number,) in fetch(these + exclusive_lock(skip_locked=True), some)}
    waiting = fetch(f"{these} AND status IN ({placeholders(len(WAITING))})", [*some, *WAITING])
    return frozenset(number for (number,) in waiting if number not in free)
