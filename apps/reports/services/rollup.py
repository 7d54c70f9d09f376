"""The sweep that adds up what ended, and the rebuild of its rollups.

1. Each minute is counted from the journal a few seconds after its end; longer buckets are summed
   from minutes.
2. Transactions that commit late are found by counting: for a while, the number of entries of each
   stored minute is compared with the journal once a minute.
3. After a pause the newest minutes come first. The time between is saved as gaps and filled
   backwards. Where minutes are no longer kept, quarters, hours or days are counted from the journal
   directly, with the same result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common import clock, ids
from apps.common.db import fetch, table
from apps.common.leases import load_position, save_position, sweep_lease
from apps.journal.conf import conf as journal_conf
from apps.journal.models import JournalEntry
from apps.journal.services.minutes import counted, first_id, instant_of, second_of
from apps.reports.conf import conf
from apps.reports.models import RollupBucket
from apps.reports.rules import coverage
from apps.reports.rules.coverage import DAY, FOUR_HOURS, HOUR, MINUTE, QUARTER, Range, floor
from apps.reports.services import error_groups, totals
from apps.reports.services.coverage import Stored
from apps.reports.services.entries import read_back
from apps.reports.services.totals import SWEEP, sizes_between

__all__ = ["MAX_TIME", "SWEEP", "Span", "rebuild", "rebuilt_from", "roll_up"]

# The longest time of one round of the sweep.
MAX_TIME = timedelta(minutes=1)
_WAIT_SECONDS = 0.2
# At most this much time is added up before it is written.
_LONGEST = DAY
# Rollups are removed this long (s) after their buckets, for readers that have read the buckets.
_REMOVED_AFTER = HOUR
# Buckets whose rollups are removed by one statement.
_REMOVED_AT_ONCE = 60


class Span(NamedTuple):
    """A part of a period: [start, end)."""

    start: datetime
    end: datetime


def roll_up(*, until: datetime) -> int:
    """Add up all closed minutes that are not stored yet; returns the number of seconds.

    Stops between two writes when the clock has passed `until`; the next call continues there.
    """
    now = clock.now()
    closed = floor(second_of(now - journal_conf.JOURNAL_GRACE), MINUTE)
    # Read in this order, because a gap is saved before the minutes after it are stored.
    stored = Stored.read()
    position = load_position(SWEEP)
    gaps = [(start, end) for start, end in position.get("gaps", [])]
    after = stored.end
    if after is None:
        after = floor(closed, DAY) if stored.beginning is None else stored.beginning
    gaps = coverage.joined([*gaps, (after, closed)])
    done = 0
    if gaps:
        done += _fill_newest(gaps, position, now, until)
    if position.get("checked", 0) < closed:
        done += _add_late(position.get("checked", closed), closed, now)
        _remove_old(position, now, until)
        position["checked"] = closed
        save_position(SWEEP, position)
    while gaps and clock.now() < until:
        done += _fill_newest(gaps, position, now, until)
    return done


def rebuilt_from() -> datetime | None:
    """The first day (UTC) from which the journal is complete; None if it is complete.

    A rebuild of older days would lose the figures of entries that were removed.
    """
    [(oldest,)] = fetch(f"SELECT MIN(id) FROM {table(JournalEntry)}")
    begins = second_of(clock.now() if oldest is None else ids.made_at(oldest))
    gone = fetch(
        f"SELECT 1 FROM {table(RollupBucket)} WHERE entries > 0 AND start + level <= %s LIMIT 1",
        [begins],
    )
    return instant_of(-(-begins // DAY) * DAY) if gone else None


def read_until() -> int:
    """The id below which all journal entries are added up, but for those that commit late."""
    position = load_position(SWEEP)
    starts = [start for start, _end in position.get("gaps", [])]
    return first_id(min([*starts, position.get("checked", 0)]))


def rebuild(start: datetime, end: datetime) -> Iterator[Span]:
    """Count what is stored of [start, end) again, the newest part first; yields each part.

    The sweep continues between the parts.
    """
    stored = Stored.read()
    low = max(second_of(start), stored.beginning or 0)
    high = -(-min(second_of(end), stored.end or 0) // MINUTE) * MINUTE
    while low < high:
        with sweep_lease(SWEEP, at_most=MAX_TIME) as mine:
            if not mine:
                time.sleep(_WAIT_SECONDS)
                continue
            begun = add_up(low, high, now=clock.now(), is_stored=True)
        yield Span(instant_of(begun), instant_of(high))
        high = begun


def add_up(
    start: int,
    end: int,
    *,
    now: datetime,
    goes_on: Callable[[], bool] = lambda: True,
    is_stored: bool = False,
) -> int:
    """Store the rollups of the newest part of [start, end); returns the start of that part.

    The buckets are the finest that are kept, or if it `is_stored` already, the finest stored.
    """
    since = _horizons(now, Stored.read().kept_from if is_stored else None)
    end = coverage.end_at(end, since)
    start = coverage.start_at(max(start, end - _LONGEST), since)
    read = read_back(start, end, lambda at: coverage.start_at(at, since), goes_on=goes_on)
    totals.write(coverage.finest(read.start, end, since), read.cells)
    return read.start


def _horizons(now: datetime, stored: Mapping[int, int] | None = None) -> dict[int, int]:
    """The instant from which buckets of each removable level are kept, in epoch seconds."""
    kept = {
        MINUTE: conf.REPORT_MINUTES_KEPT,
        QUARTER: conf.REPORT_QUARTERS_KEPT,
        HOUR: conf.REPORT_HOURS_KEPT,
        FOUR_HOURS: conf.REPORT_HOURS_KEPT,
    }
    seconds = {level: each // timedelta(seconds=1) for level, each in kept.items()}
    return coverage.horizons(second_of(now), seconds, stored)


def _fill_newest(
    gaps: list[Range], position: dict[str, Any], now: datetime, until: datetime
) -> int:
    """Add up the newest part of the newest gap, and shorten it; returns the number of seconds."""
    _save_gaps(gaps, position)
    start, end = gaps.pop()
    begun = add_up(start, end, now=now, goes_on=lambda: clock.now() < until)
    if begun > start:
        gaps.append((start, begun))
    _save_gaps(gaps, position)
    return end - begun


def _save_gaps(gaps: list[Range], position: dict[str, Any]) -> None:
    wanted = [list(gap) for gap in gaps]
    if position.get("gaps", []) != wanted:
        position["gaps"] = wanted
        save_position(SWEEP, position)


def _add_late(checked: int, closed: int, now: datetime) -> int:
    """Count minutes again that have more entries now; returns the number of seconds.

    Compares the minutes before the last check and those before now. During a pause between the two
    nothing was stored.
    """
    late = journal_conf.JOURNAL_LATE // timedelta(seconds=1)
    windows = coverage.joined([(checked - late, checked), (closed - late, closed)])
    done = 0
    for start, end in windows:
        stored = sizes_between(MINUTE, floor(start, MINUTE), end)
        for first, count in counted(sorted(stored)).items():
            if count != stored[first].entries:
                add_up(first, first + MINUTE, now=now)
                done += MINUTE
    return done


def _remove_old(position: dict[str, Any], now: datetime, until: datetime) -> None:
    """Remove buckets past their horizon, their rollups an hour later, and old error groups."""
    removed = position.setdefault("removed", {})
    for level, horizon in _horizons(now).items():
        totals.remove_buckets(level, 0, horizon)
        end = horizon - _REMOVED_AFTER
        at = removed.setdefault(str(level), end)
        while at < end and clock.now() < until:
            following = min(at + _REMOVED_AT_ONCE * level, end)
            totals.remove_rollups(level, at, following)
            removed[str(level)] = at = following
    # Once an hour, because it reads all groups.
    hour = floor(second_of(now), HOUR)
    if position.get("purged") != hour:
        error_groups.purge(now - conf.REPORT_ERRORS_KEPT, lambda: clock.now() < until)
        position["purged"] = hour
