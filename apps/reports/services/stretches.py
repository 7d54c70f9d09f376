"""Which stretches of time have their totals stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.common import ids
from apps.common.db import fetch, fetch_each, table
from apps.journal.models import JournalEntry
from apps.reports.models import Stretch
from apps.reports.rules import cover
from apps.reports.rules.cover import DAY, LEVELS, MINUTE, Range, Run, floor

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = 1 << 36
_SECOND = timedelta(seconds=1)
# Of the edges of a long period, say; where there are more, what lies between is read as well.
_MOST_SPANS = 6


def second_of(instant: datetime) -> int:
    """The epoch second in which the instant lies."""
    return (instant - EPOCH) // _SECOND


def instant_of(second: int) -> datetime:
    """The beginning of the epoch second, UTC."""
    return EPOCH + timedelta(seconds=second)


def kept_from() -> dict[int, int]:
    """Where the oldest stored stretch of each level starts; levels without any are left out."""
    oldest: list[Any] = fetch(f"SELECT level, MIN(start) FROM {table(Stretch)} GROUP BY level")  # noqa: S608
    return dict(oldest)


def minutes_from(kept: dict[int, int]) -> datetime:
    """Since when all that is told can be told by minute; ever since while nothing older is kept."""
    if not kept or kept.get(MINUTE) == min(kept.values()):
        return EPOCH
    return instant_of(kept.get(MINUTE, _NEVER))


def beginning(kept: dict[int, int]) -> int | None:
    """The start of the first day of which anything is told; None while nothing is.

    The journal begins there, or did when its oldest entries were still kept.
    """
    starts = [*kept.values()]
    [(oldest,)] = fetch(f"SELECT MIN(id) FROM {table(JournalEntry)}")  # noqa: S608
    if oldest is not None:
        starts.append(second_of(ids.made_at(oldest)))
    return floor(min(starts), DAY) if starts else None


def stored_to() -> int | None:
    """The end of the newest stored minute; None before the first."""
    [(newest,)] = fetch(f"SELECT MAX(start) FROM {table(Stretch)} WHERE level = %s", [MINUTE])  # noqa: S608
    return None if newest is None else newest + MINUTE


def stored_between(level: int, start: int, end: int) -> set[int]:
    """The starts of the stored stretches of the level that start in [start, end)."""
    return _stored_in(level, [(start, end)])


def _stored_in(level: int, spans: Sequence[Range]) -> set[int]:
    select = f"SELECT start FROM {table(Stretch)} WHERE level = %s AND start >= %s AND start < %s"  # noqa: S608
    return {start for (start,) in fetch_each((select, (level, *span)) for span in spans)}


def cover_by_stored(ranges: Sequence[Range]) -> tuple[list[Run], list[Range]]:
    """The ranges, ascending and apart, by the coarsest stored stretches; what none covers is left.

    Both in order of time.
    """
    runs: list[Run] = []
    left = list(ranges)
    for level in reversed(LEVELS):
        if all(end - start < level for start, end in left):
            continue
        spans = cover.spans(left, level, most=_MOST_SPANS)
        if spans:
            taken, left = cover.take(left, level, _stored_in(level, spans))
            runs += taken
    return sorted(runs, key=lambda run: run.start), left
