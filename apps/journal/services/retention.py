"""How long the journal is kept: on MariaDB and MySQL it rolls, on SQLite old entries go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from apps.common import clock, ids, partitions
from apps.common.db import execute, fetch, table
from apps.common.partitions import Partition
from apps.common.rolling import cut_ahead
from apps.common.tidy import CHUNK, rest
from apps.journal.conf import conf
from apps.journal.models import JournalEntry, Sink
from apps.journal.services.carry import sinks

logger = logging.getLogger(__name__)

# Longer than this nobody waits for a sink that takes nothing.
SINK_KEEPS = timedelta(days=30)

# The readers of entries before they go: the id up to which each has read, None for nothing to read.
readers: list[Callable[[], int | None]] = []


class Rolled(NamedTuple):
    """The work of a round: partitions cut and dropped, and rows deleted where there are none."""

    cut: int = 0
    dropped: int = 0
    deleted: int = 0


def roll(*, until: datetime, moves_rows: bool = False) -> Rolled:
    """Cut partitions ahead and drop what is over; without partitions delete old entries in chunks.

    `moves_rows`: also when many entries have come since the last boundary, for whose copy writers
    wait. Raises CannotRoll.
    """
    now = clock.now()
    for name, _after in lacking(now):
        logger.warning("journal: sink %s lacks entries that are past their retention", name)
    found = partitions.partitions_of(JournalEntry)
    if not found:
        return Rolled(deleted=_delete_old(now, until))
    cut = cut_ahead(
        JournalEntry,
        found,
        now,
        retention=conf.JOURNAL_RETENTION,
        rows="journal entries",
        waiting="all writers",
        moves_rows=moves_rows,
    )
    return Rolled(cut, _drop(found, now))


def _drop(found: list[Partition], now: datetime) -> int:
    before = kept_from(now)
    going = [] if before is None else partitions.ended_before(found, before)
    if going:
        partitions.drop(JournalEntry, going)
        logger.info("journal: dropped %s", ", ".join(each.name for each in going))
    return len(going)


def _delete_old(now: datetime, until: datetime) -> int:
    """Delete old entries on SQLite; the disk gets no room back, but new entries use it."""
    before = kept_from(now)
    if before is None:
        return 0
    deleted = 0
    limit = ids.lowest_id_at(before)
    while clock.now() < until:
        begun = time.monotonic()
        rows = fetch(
            f"SELECT id FROM {table(JournalEntry)} WHERE id < %s ORDER BY id LIMIT %s",
            [limit, CHUNK],
        )
        if not rows:
            break
        sql = f"DELETE FROM {table(JournalEntry)} WHERE id <= %s"
        deleted += execute(sql, [rows[-1][0]])
        rest(begun)
    return deleted


def horizon(now: datetime) -> datetime | None:
    """The instant before which entries are past their retention; None if all are kept (0)."""
    return now - conf.JOURNAL_RETENTION if conf.JOURNAL_RETENTION else None


def kept_from(now: datetime) -> datetime | None:
    """Entries made before this instant may go; None when all are kept."""
    before = horizon(now)
    if before is None:
        return None
    read = [number for reader in readers if (number := reader()) is not None]
    # A sink that has taken nothing for so long holds nothing back.
    floor = ids.lowest_id_at(before - SINK_KEEPS)
    read += [max(after, floor) for _name, after in lacking(now)]
    return min([before, *(ids.made_at(number) for number in read)])


def complete_from() -> int:
    """The journal has all entries about what has this id or a higher one."""
    before = horizon(clock.now())
    return 0 if before is None else ids.lowest_id_at(before)


def lacking(now: datetime) -> list[tuple[str, int]]:
    """The sinks that have not got as far as the retention, each with the id it has got to."""
    before = horizon(now)
    if before is None or not sinks():
        return []
    behind = Sink.objects.filter(name__in=sinks(), after__lt=ids.lowest_id_at(before))
    return list(behind.order_by("name").values_list("name", "after"))
