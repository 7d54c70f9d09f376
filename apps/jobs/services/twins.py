"""The one open job of each unique key."""

from __future__ import annotations

from collections.abc import Collection
from zlib import crc32

from django.db import connection

from apps.common.db import fetch, placeholders, table
from apps.common.rows import ensure_row
from apps.jobs.models import Job, UniqueLock
from apps.jobs.models.unique_lock import UNIQUE_LOCKS
from apps.jobs.rules.submission import Submitted

# In one statement.
_MAX_READ = 1000


def open_twins(keys: Collection[str]) -> dict[str, Submitted]:
    """The open job with each of these unique keys; until the transaction ends no other appears.

    Sorted, so that callers with the same keys wait for each other and do not deadlock.
    """
    wanted = sorted(keys)
    twins: dict[str, Submitted] = {}
    if wanted:
        _lock(wanted)
    for start in range(0, len(wanted), _MAX_READ):
        some = wanted[start : start + _MAX_READ]
        rows = fetch(
            f"SELECT unique_key, id, status FROM {table(Job)} "
            f"WHERE unique_key IN ({placeholders(len(some))})",
            some,
        )
        twins.update({key: Submitted(pk, False, status) for key, pk, status in rows})
    return twins


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
