"""The one job that has each unique key: an open one, or one that has ended and keeps it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from zlib import crc32

from django.db import connection

from apps.common import clock
from apps.common.chunks import chunks
from apps.common.db import execute, fetch, instant, placeholders, table
from apps.common.rows import ensure_row
from apps.jobs.models import Job, UniqueLock
from apps.jobs.models.unique_lock import UNIQUE_LOCKS
from apps.jobs.rules.submission import Submitted
from apps.jobs.rules.transitions import FINAL

# In one statement.
_MAX_READ = 1000


def open_twins(keys: Collection[str]) -> dict[str, Submitted]:
    """The job that has each of these unique keys; until the transaction ends no other appears.

    Open ones, and those that ended less than `unique_for` ago; who did earlier loses its key here.
    Sorted, so that callers with the same keys wait for each other and do not deadlock.
    """
    wanted = sorted(keys)
    twins: dict[str, Submitted] = {}
    if wanted:
        _lock(wanted)
    for some in chunks(wanted, _MAX_READ):
        rows = fetch(
            f"SELECT unique_key, id, status, finished_at, unique_for FROM {table(Job)} "
            f"WHERE unique_key IN ({placeholders(len(some))})",
            some,
        )
        over = []
        for key, number, status, finished_at, seconds in rows:
            if status in FINAL and _is_over(finished_at, seconds):
                over.append(number)
            else:
                twins[key] = Submitted(number, False, status)
        if over:
            _free(over)
    return twins


def _is_over(finished_at: object, seconds: int) -> bool:
    return bool(instant(finished_at) + timedelta(seconds=seconds) <= clock.now())


def _free(numbers: list[int]) -> None:
    """Take their keys from jobs that have ended."""
    execute(
        f"UPDATE {table(Job)} SET unique_key = NULL WHERE id IN ({placeholders(len(numbers))}) "
        f"AND status IN ({placeholders(len(FINAL))})",
        [*numbers, *FINAL],
    )


def _lock(keys: Collection[str]) -> None:
    if connection.vendor != "mysql":
        # SQLite allows one writing transaction at a time.
        return
    shards = sorted({crc32(key.encode()) % UNIQUE_LOCKS for key in keys})
    rows = fetch(
        f"SELECT shard FROM {table(UniqueLock)} "
        f"WHERE shard IN ({placeholders(len(shards))}) ORDER BY shard FOR UPDATE",
        shards,
    )
    for shard in shards if len(rows) < len(shards) else ():
        ensure_row(UniqueLock, ["shard"], {"shard": shard})
