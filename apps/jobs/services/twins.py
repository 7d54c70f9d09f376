"""One open job per unique key: whoever wants to open one locks the key, then looks."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from zlib import crc32

from django.db import connection

from apps.common.db import fetch, placeholders, table
from apps.common.rows import ensure_row
from apps.jobs.models import Job, UniqueSlot
from apps.jobs.models.unique_slot import UNIQUE_SLOTS

MAX_AT_ONCE = 1000


class Twin(NamedTuple):
    id: int
    status: str


def open_twins(keys: Collection[str]) -> dict[str, Twin]:
    """The open job with each of these unique keys; until the transaction ends no other appears.

    In one order for all, so that callers with the same keys wait for each other.
    """
    wanted = sorted(keys)
    _lock(wanted)
    twins = {}
    for start in range(0, len(wanted), MAX_AT_ONCE):
        some = wanted[start : start + MAX_AT_ONCE]
        rows = fetch(
            f"SELECT unique_key, id, status FROM {table(Job)} "
            f"WHERE unique_key IN ({placeholders(len(some))})",
            some,
        )
        twins.update({key: Twin(pk, status) for key, pk, status in rows})
    return twins


def _lock(keys: Collection[str]) -> None:
    if connection.vendor != "mysql":
        # A transaction that writes is alone there.
        return
    slots = sorted({crc32(key.encode()) % UNIQUE_SLOTS for key in keys})
    rows = fetch(
        f"SELECT slot FROM {table(UniqueSlot)} "
        f"WHERE slot IN ({placeholders(len(slots))}) ORDER BY slot FOR UPDATE",
        slots,
    )
    for slot in slots if len(rows) < len(slots) else ():
        ensure_row(UniqueSlot, ["slot"], {"slot": slot})
