"""The stored rollup buckets, and how they cover a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from apps.common import ids
from apps.common.db import fetch, fetch_each, table
from apps.journal.models import JournalEntry
from apps.journal.services.minutes import EPOCH, instant_of, second_of
from apps.reports.models import RollupBucket
from apps.reports.rules import coverage
from apps.reports.rules.coverage import DAY, LEVELS, MINUTE, BucketRun, Range, floor

_NEVER = 1 << 36
# A long period has a few edges; of more spans, what lies between them is read as well.
_MAX_SPANS = 6


@dataclass(frozen=True, slots=True)
class Stored:
    """The extent of the stored rollups. It is read once per request and passed on.

    `kept_from` is the start of the oldest stored bucket of each level that has any; `beginning` the
    start of the first day with figures; `end` that of the first minute that is not added up yet.
    Both are None while there is nothing.
    """

    kept_from: Mapping[int, int]
    beginning: int | None = None
    end: int | None = None
    _covered: dict[tuple[Range, ...], tuple[list[BucketRun], list[Range]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def read(cls) -> Stored:
        """Read the extent in one statement of index look-ups."""
        of_level = f"FROM {table(RollupBucket)} WHERE level ="
        columns = [
            *(f"(SELECT MIN(start) {of_level} {level})" for level in LEVELS),
            *(f"(SELECT MAX(start) + {level} {of_level} {level})" for level in LEVELS),
            f"(SELECT MIN(id) FROM {table(JournalEntry)})",
        ]
        [(*edges, first_entry)] = fetch(f"SELECT {', '.join(columns)}")
        oldest, ends = edges[: len(LEVELS)], edges[len(LEVELS) :]
        kept_from = {
            level: start for level, start in zip(LEVELS, oldest, strict=True) if start is not None
        }
        starts = [*kept_from.values()]
        if first_entry is not None:
            starts.append(second_of(ids.made_at(first_entry)))
        return cls(
            kept_from,
            floor(min(starts), DAY) if starts else None,
            max((end for end in ends if end is not None), default=None),
        )

    @property
    def closed_until(self) -> datetime | None:
        """The end of the newest minute that is added up."""
        return None if self.end is None else instant_of(self.end)

    @property
    def minutes_from(self) -> datetime:
        """Since when all figures are available by minute; always while nothing older is stored."""
        kept = self.kept_from
        if not kept or kept.get(MINUTE) == min(kept.values()):
            return EPOCH
        return instant_of(kept.get(MINUTE, _NEVER))

    def cover(self, ranges: Sequence[Range]) -> tuple[list[BucketRun], list[Range]]:
        """Cover the ascending, disjoint ranges by the coarsest stored buckets.

        Returns the runs and the ranges that no stored bucket covers, both in order of time.
        """
        key = tuple(ranges)
        if key not in self._covered:
            self._covered[key] = self._cover(ranges)
        return self._covered[key]

    def _cover(self, ranges: Sequence[Range]) -> tuple[list[BucketRun], list[Range]]:
        end = self.end or 0
        runs: list[BucketRun] = []
        left = [(start, min(stop, end)) for start, stop in ranges if start < end]
        # All levels in one statement, because most of what is wanted is stored.
        wanted = coverage.wanted(left, limit=_MAX_SPANS)
        stored = _stored_in(wanted)
        for level in coverage.fitting(left):
            spans = coverage.spans(left, level, limit=_MAX_SPANS)
            more = [span for span in spans if not coverage.is_inside(span, wanted[level])]
            if more:
                stored[level] |= _stored_in({level: more})[level]
            if spans:
                taken, left = coverage.take(left, level, stored[level])
                runs += taken
        left += [(max(start, end), stop) for start, stop in ranges if end < stop]
        return sorted(runs, key=lambda run: run.start), left


def stored_between(level: int, start: int, end: int) -> set[int]:
    """The starts of the stored buckets of the level that start in [start, end)."""
    return _stored_in({level: [(start, end)]})[level]


def _stored_in(spans: Mapping[int, Sequence[Range]]) -> dict[int, set[int]]:
    """The starts of the stored buckets of each level in its spans.

    First, last and count are enough for a span without gaps; only others are read in full.
    """
    found: dict[int, set[int]] = {level: set() for level in spans}
    within = f"FROM {table(RollupBucket)} WHERE level = %s AND start >= %s AND start < %s"
    select = f"SELECT %s, MIN(start), MAX(start), COUNT(*) {within}"
    wanted = [(level, *span) for level, some in spans.items() for span in some]
    broken = []
    for level, first, last, count in fetch_each((select, (part[0], *part)) for part in wanted):
        if count and count == (last - first) // level + 1:
            found[level].update(range(first, last + level, level))
        elif count:
            broken.append((level, first, last + level))
    for level, start in fetch_each((f"SELECT level, start {within}", part) for part in broken):
        found[level].add(start)
    return found
