"""The journal by the minute: ids hold the time of their making, so minutes are ranges of ids.

Seconds are those of the epoch (UTC).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from apps.common import ids
from apps.common.db import fetch_each, table
from apps.journal.models import JournalEntry

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = 60
_SECOND = timedelta(seconds=1)


def second_of(instant: datetime) -> int:
    """The epoch second that contains the instant."""
    return (instant - EPOCH) // _SECOND


def instant_of(second: int) -> datetime:
    """The start of the epoch second, UTC."""
    return EPOCH + timedelta(seconds=second)


def minute_of(number: int) -> int:
    """The start of the minute in which the id was made."""
    return second_of(ids.made_at(number)) // MINUTE * MINUTE


def first_id(second: int) -> int:
    """The lowest id that an entry made in the second can have."""
    return ids.lowest_id_at(instant_of(second))


def counted(minutes: Iterable[int]) -> dict[int, int]:
    """The number of journal entries of each of these minutes, given by their starts."""
    select = f"SELECT %s, COUNT(*) FROM {table(JournalEntry)} WHERE id >= %s AND id < %s"
    parts = ((select, (at, first_id(at), first_id(at + MINUTE))) for at in minutes)
    return {int(at): count for at, count in fetch_each(parts)}
