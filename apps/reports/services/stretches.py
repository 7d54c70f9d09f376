"""Which stretches of time have their totals stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.common import clock, ids
from apps.common.db import fetch, fetch_each, table
from apps.journal.models import JournalEntry
from apps.reports.models import Stretch
from apps.reports.rules import cover
from apps.reports.rules.cover import DAY, MINUTE, Range, Run, floor

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = 1 << 36
_SECOND = timedelta(seconds=1)
# Of the edges of a long period, say; where there are more, what lies between is read as well.
_MAX_SPANS = 6


def second_of(instant: datetime) -> int:
    """The epoch second in which the instant lies."""
    return (instant - EPOCH) // _SECOND


def instant_of(second: int) -> datetime:
    """The beginning of the epoch second, UTC."""
    return EPOCH + timedelta(seconds=second)


def kept_from() -> dict[int, int]:
    """Where the oldest stored stretch of each level starts; levels without any are left out."""
    oldest: list[Any] = fetch(f"SELECT level, MIN(start) FROM {table(Stretch)} GROUP BY level")
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
    [(oldest,)] = fetch(f"SELECT MIN(id) FROM {table(JournalEntry)}")
    if oldest is not None:
        starts.append(second_of(ids.made_at(oldest)))
    return floor(min(starts), DAY) if starts else None


def stored_to() -> int | None:
    """The end of the newest stored minute; None before the first."""
    [(newest,)] = fetch(f"SELECT MAX(start) FROM {table(Stretch)} WHERE level = %s", [MINUTE])
    return None if newest is None else newest + MINUTE


def stored_between(level: int, start: int, end: int) -> set[int]:
    """The starts of the stored stretches of the level that start in [start, end)."""
    return _stored_in({level: [(start, end)]})[level]


def _stored_in(spans: Mapping[int, Sequence[Range]]) -> dict[int, set[int]]:
    """The starts of the stored stretches of each level in its spans.

    Most follow one another without a gap, which three numbers tell.
    """
    found: dict[int, set[int]] = {level: set() for level in spans}
    within = f"FROM {table(Stretch)} WHERE level = %s AND start >= %s AND start < %s"
    select = f"SELECT %s, MIN(start), MAX(start), COUNT(*) {within}"
    asked = [(level, *span) for level, some in spans.items() for span in some]
    broken = []
    for level, first, last, count in fetch_each((select, (part[0], *part)) for part in asked):
        if count and count == (last - first) // level + 1:
            found[level].update(range(first, last + level, level))
        elif count:
            broken.append((level, first, last + level))
    for level, start in fetch_each((f"SELECT level, start {within}", part) for part in broken):
        found[level].add(start)
    return found


def cover_by_stored(ranges: Sequence[Range]) -> tuple[list[Run], list[Range]]:
    """The ranges, ascending and apart, by the coarsest stored stretches; what none covers is left.

    Both in order of time.
    """
    runs: list[Run] = []
    now = floor(second_of(clock.now()), MINUTE)
    left = [(start, min(end, now)) for start, end in ranges if start < now]
    # All levels at once, as most of what is wanted is stored.
    wanted = cover.wanted(left, most=_MAX_SPANS)
    stored = _stored_in(wanted)
    for level in cover.within_reach(left):
        spans = cover.spans(left, level, most=_MAX_SPANS)
        more = [span for span in spans if not cover.lies_in(span, wanted[level])]
        if more:
            stored[level] |= _stored_in({level: more})[level]
        if spans:
            taken, left = cover.take(left, level, stored[level])
            runs += taken
    left += [(max(start, now), end) for start, end in ranges if now < end]
    return sorted(runs, key=lambda run: run.start), left
