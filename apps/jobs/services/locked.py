"""Jobs that others have locked: those that another worker is just taking, and those that stay
locked for long."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence

from django.db import DatabaseError, connection

from apps.common.db import exclusive_lock, fetch, placeholders, table
from apps.jobs.models import Job
from apps.jobs.rules.transitions import READY, WAITING

logger = logging.getLogger(__name__)

# How often jobs that were locked are tried again.
LOCKED_SECONDS = 5.0
# How many statements look for jobs that nobody has locked.
_STATEMENTS = 4
_LOCK_WAIT_TIMEOUT = 1205


def lock_free_one_by_one(jobs: Sequence[int], most: int) -> list[int]:
    """The first ready ones of the jobs that nobody has locked, at most so many, now locked.

    One by one: a statement about all of them would lock more than it returns.
    """
    one = f"SELECT id FROM {table(Job)} WHERE id = %s AND status = %s"
    one += exclusive_lock(skip_locked=True)
    found: list[int] = []
    for number in jobs:
        if len(found) == most:
            break
        found += [row[0] for row in fetch(one, (number, READY))]
    return found


def lock_free(jobs: Sequence[int], most: int) -> list[int]:
    """The first ready ones of the jobs that nobody has locked, at most so many, now locked.

    In a few statements, each about as many as are wanted still, so that few others are locked;
    there may be fewer than one by one would find.
    """
    found: list[int] = []
    start = 0
    for _ in range(_STATEMENTS):
        some = jobs[start : start + most - len(found)]
        if not some:
            break
        these = f"SELECT id FROM {table(Job)} WHERE id IN ({placeholders(len(some))}) "
        these += f"AND status = %s{exclusive_lock(skip_locked=True)}"
        free = {row[0] for row in fetch(these, [*some, READY])}
        found += [number for number in some if number in free]
        start += len(some)
    return found


# --- jobs that stay locked -----------------------------------------------------------------------
# A person with an open transaction in a SQL console locks jobs for long. Waiting for one takes the
# whole lock wait timeout, so they are skipped until they are free. SQLite locks the whole file.
_locked: frozenset[int] = frozenset()
_check_locked_at = 0.0


def locked_jobs() -> frozenset[int]:
    """The jobs that were locked for too long, as far as this process knows."""
    if _locked and time.monotonic() >= _check_locked_at:
        _remember_locked(_still_locked(_locked))
    return _locked


def note_locked(ids: Collection[int], error: DatabaseError) -> None:
    """Remember which of the jobs are locked, if the error is a lock wait timeout."""
    if connection.vendor != "mysql" or error.args[:1] != (_LOCK_WAIT_TIMEOUT,):
        return
    found = _still_locked(ids)
    if found:
        logger.warning(
            "%d jobs, such as %d, are locked in an open transaction; others go before them",
            len(found),
            min(found),
        )
    _remember_locked(_locked | found)


def _remember_locked(ids: frozenset[int]) -> None:
    global _locked, _check_locked_at
    _locked, _check_locked_at = ids, time.monotonic() + LOCKED_SECONDS


def _still_locked(ids: Collection[int]) -> frozenset[int]:
    if not ids:
        return frozenset()
    some = sorted(ids)
    these = f"SELECT id FROM {table(Job)} WHERE id IN ({placeholders(len(some))})"
    free = {number for (number,) in fetch(these + exclusive_lock(skip_locked=True), some)}
    waiting = fetch(f"{these} AND status IN ({placeholders(len(WAITING))})", [*some, *WAITING])
    return frozenset(number for (number,) in waiting if number not in free)
