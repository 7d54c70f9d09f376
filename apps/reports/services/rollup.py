"""The sweep that adds up what ended, and its repair.

Minutes are added up a few seconds after their end, each once, and all that is longer from them. A
transaction that commits late is found by counting: for a while, added up minutes are compared with
the journal once a minute. After a pause the newest minutes come first; what lies between is kept in
mind as gaps and filled backwards. Long ago, where minutes are not kept any more, quarters, hours or
days are added up from the journal at once, with the same result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common import clock, ids
from apps.common.db import fetch, table
from apps.common.leases import load_position, save_position, sweep_lease
from apps.journal.models import JournalEntry
from apps.reports.conf import conf
from apps.reports.models import Stretch
from apps.reports.rules import keeping
from apps.reports.rules.cover import DAY, FOUR_HOURS, HOUR, LEVELS, MINUTE, QUARTER, Range, floor
from apps.reports.services import error_groups, totals
from apps.reports.services.entries import counted, read_back
from apps.reports.services.stretches import (
    beginning,
    instant_of,
    kept_from,
    second_of,
    stored_to,
)
from apps.reports.services.totals import SWEEP, sizes_between

__all__ = ["MAX_TIME", "SWEEP", "Part", "rebuild", "rebuilt_from", "roll_up"]

# Of one turn at the sweep.
MAX_TIME = timedelta(minutes=1)
_WAIT_SECONDS = 0.2
# So much time is added up before it is written.
_LONGEST = DAY
# Totals stay so long (s) after the word that they are stored, for whoever has read that before.
_LINGER = HOUR
# So many stretches are looked for at a time.
_SUMMED_AT_ONCE = 100
# So many stretches are removed at a time.
_FORGOTTEN_AT_ONCE = 60


class Part(NamedTuple):
    """A part of a period: [start, end)."""

    start: datetime
    end: datetime


def roll_up(*, until: datetime) -> int:
    """Add up what can be, and what is not yet; returns how many seconds of the journal.

    Stops between two writes when the clock has passed `until`; the next call goes on there.
    """
    now = clock.now()
    closed = floor(second_of(now - conf.REPORT_GRACE), MINUTE)
    # In this order: a gap is put down before what comes after it is stored.
    after = stored_to()
    position = load_position(SWEEP)
    gaps = [(start, end) for start, end in position.get("gaps", [])]
    if after is None:
        first = beginning(kept_from())
        after = floor(closed, DAY) if first is None else first
    gaps = keeping.joined([*gaps, (after, closed)])
    done = 0
    if gaps:
        done += _fill_newest(gaps, position, now, until)
    if position.get("checked", 0) < closed:
        done += _look_for_late(position.get("checked", closed), closed, now)
        _forget_old(position, now, until)
        position["checked"] = closed
        save_position(SWEEP, position)
    while gaps and clock.now() < until:
        done += _fill_newest(gaps, position, now, until)
    if not (gaps or totals.has_all_levels(position)):
        _fill_levels(position, until)
    return done


def rebuilt_from() -> datetime | None:
    """Since when the journal still has what was added up, a full day (UTC); None for ever since.

    What is older would be added up to nothing.
    """
    [(oldest,)] = fetch(f"SELECT MIN(id) FROM {table(JournalEntry)}")
    begins = second_of(clock.now() if oldest is None else ids.made_at(oldest))
    gone = fetch(
        f"SELECT 1 FROM {table(Stretch)} WHERE entries > 0 AND start + level <= %s LIMIT 1",
        [begins],
    )
    return instant_of(-(-begins // DAY) * DAY) if gone else None


def rebuild(start: datetime, end: datetime) -> Iterator[Part]:
    """Add up anew what is stored of [start, end), the newest part first, and tell of each part.

    The sweep goes on between the parts.
    """
    after = stored_to()
    first = beginning(kept_from())
    low = max(second_of(start), first or 0)
    high = -(-min(second_of(end), after or 0) // MINUTE) * MINUTE
    while low < high:
        with sweep_lease(SWEEP, at_most=MAX_TIME) as mine:
            if not mine:
                time.sleep(_WAIT_SECONDS)
                continue
            begun = add_up(low, high, now=clock.now(), is_stored=True)
        yield Part(instant_of(begun), instant_of(high))
        high = begun


def add_up(
    start: int,
    end: int,
    *,
    now: datetime,
    goes_on: Callable[[], bool] = lambda: True,
    is_stored: bool = False,
) -> int:
    """Store the totals of the newest part of [start, end), as finely as they are kept, or as they
    were if it `is_stored`; returns where that part begins."""
    since = horizons(now, kept_from() if is_stored else None)
    end = keeping.end_at(end, since)
    start = keeping.start_at(max(start, end - _LONGEST), since)
    read = read_back(start, end, lambda at: keeping.start_at(at, since), goes_on=goes_on)
    totals.write(keeping.stretches(read.start, end, since), read.cells)
    return read.start


def horizons(now: datetime, stored: dict[int, int] | None = None) -> dict[int, int]:
    """Since when stretches of each level below days are kept (epoch seconds)."""
    kept = {
        MINUTE: conf.REPORT_MINUTES_KEPT,
        QUARTER: conf.REPORT_QUARTERS_KEPT,
        HOUR: conf.REPORT_HOURS_KEPT,
        FOUR_HOURS: conf.REPORT_HOURS_KEPT,
    }
    seconds = {level: each // timedelta(seconds=1) for level, each in kept.items()}
    return keeping.horizons(second_of(now), seconds, stored)


def _fill_newest(
    gaps: list[Range], position: dict[str, Any], now: datetime, until: datetime
) -> int:
    """Add up the newest part of the newest gap; the gaps get shorter. Returns how many seconds."""
    _keep(gaps, position)
    start, end = gaps.pop()
    begun = add_up(start, end, now=now, goes_on=lambda: clock.now() < until)
    if begun > start:
        gaps.append((start, begun))
    _keep(gaps, position)
    return end - begun


def _fill_levels(position: dict[str, Any], until: datetime) -> None:
    """Sum up what was stored by a version that had fewer levels, the newest first."""
    for level in LEVELS[1:]:
        while unlike := totals.unlike_parts(level, most=_SUMMED_AT_ONCE):
            for start, _of_parts, _entries in unlike:
                if clock.now() >= until:
                    return
                totals.sum_up(level, start)
    position["levels"] = [*LEVELS]
    save_position(SWEEP, position)


def _keep(gaps: list[Range], position: dict[str, Any]) -> None:
    wanted = [list(gap) for gap in gaps]
    if position.get("gaps", []) != wanted:
        position["gaps"] = wanted
        save_position(SWEEP, position)


def _look_for_late(checked: int, closed: int, now: datetime) -> int:
    """Add up anew what has got more entries since; returns how many seconds.

    Looked at are the minutes before the last look and those before now: in a pause between them
    nothing was stored.
    """
    late = conf.REPORT_LATE // timedelta(seconds=1)
    windows = keeping.joined([(checked - late, checked), (closed - late, closed)])
    done = 0
    for start, end in windows:
        stored = sizes_between(MINUTE, floor(start, MINUTE), end)
        for first, count in counted(sorted(stored)).items():
            if count != stored[first].entries:
                add_up(first, first + MINUTE, now=now)
                done += MINUTE
    return done


def _forget_old(position: dict[str, Any], now: datetime, until: datetime) -> None:
    """Remove what is finer than is kept, first the word that it is stored, an hour later it; and
    errors that were long not seen."""
    forgotten = position.setdefault("forgotten", {})
    for level, horizon in horizons(now).items():
        totals.forget_stretches(level, 0, horizon)
        end = horizon - _LINGER
        at = forgotten.setdefault(str(level), end)
        while at < end and clock.now() < until:
            following = min(at + _FORGOTTEN_AT_ONCE * level, end)
            totals.forget_totals(level, at, following)
            forgotten[str(level)] = at = following
    # Once an hour, as they are looked for among all of them.
    hour = floor(second_of(now), HOUR)
    if position.get("purged") != hour:
        error_groups.purge(now - conf.REPORT_ERRORS_KEPT, lambda: clock.now() < until)
        position["purged"] = hour
