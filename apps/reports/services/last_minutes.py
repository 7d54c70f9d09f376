"""The last minutes up to now: the jobs that came, and all ends, added up or not.

Ends since the newest minute that is added up are read from the journal, up to a limit: so a page
shows an end seconds after it happened.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import NamedTuple

from apps.common import ids
from apps.common.db import fetch, force_index, table
from apps.jobs.models import Job
from apps.jobs.rules.transitions import SCHEDULED
from apps.journal.models import JournalEntry
from apps.journal.services.minutes import instant_of, second_of
from apps.reports.rules.coverage import MINUTE, BucketRun, floor
from apps.reports.rules.outcomes import ENDS, FAILURES, JOB, OVER, SUCCEEDED
from apps.reports.rules.tally import TYPE
from apps.reports.services.coverage import Stored
from apps.reports.services.rows import Selection, sums_in

# Rates cover this time, because one minute alone says little where little happens.
FLOW = timedelta(minutes=5)
_MINUTE = timedelta(minutes=1)
# At most so many of the newest jobs are read by type.
MAX_SAMPLED = 10_000


class End(NamedTuple):
    """The end of a job, an attempt or a dispatch; `number` is that of its journal entry."""

    number: int
    source: str
    outcome: str
    type_or_task: str
    executor: str
    wait_ms: int | None
    run_ms: int | None


class Unsummed(NamedTuple):
    """The ends since an instant, the newest first; not `is_whole` where there were more than were
    read."""

    since: datetime
    ends: list[End]
    is_whole: bool


def unsummed(since: datetime, limit: int) -> Unsummed:
    """Read the ends since an instant from the newest `limit` journal entries."""
    rows = fetch(
        "SELECT id, source, event, from_state, to_state, type_or_task, executor, wait_ms, run_ms "
        f"FROM {table(JournalEntry)} WHERE id >= %s ORDER BY id DESC LIMIT %s",
        [ids.lowest_id_at(since), limit + 1],
    )
    ends = [
        End(number, source, outcome, *rest)
        for number, source, event, before, after, *rest in rows[:limit]
        if (outcome := ENDS.get((source, event, before, after)))
    ]
    return Unsummed(since, ends, len(rows) <= limit)


class _Recent(NamedTuple):
    """The last FLOW, from the minute in which it began: until now, or the end of the totals where
    too much has ended since. `runs` are the closed minutes in it."""

    since: datetime
    until: datetime
    runs: list[BucketRun]
    is_to_now: bool

    @property
    def ids(self) -> tuple[int, int]:
        """The lowest id of rows made in this time, and the first id after them."""
        # Ids are made by other clocks, too.
        before = self.until + _MINUTE if self.is_to_now else self.until
        return ids.lowest_id_at(self.since), ids.lowest_id_at(before)


def _recent(now: datetime, stored: Stored, newest: Unsummed) -> _Recent:
    summed = None if newest.is_whole else stored.closed_until
    until = now if summed is None else summed
    start, end = floor(second_of(until - FLOW), MINUTE), stored.end or 0
    runs = [BucketRun(MINUTE, start, end)] if start < end else []
    return _Recent(instant_of(start), until, runs, is_to_now=summed is None)


class Ends(NamedTuple):
    """How many jobs of a type ended, and how many of them failed."""

    ended: int
    failed: int

    @property
    def failed_share(self) -> float:
        return self.failed / self.ended if self.ended else 0.0


def ends_by_type(since: datetime, stored: Stored, newest: Unsummed) -> dict[str, Ends]:
    """The jobs of each type that have ended since an instant; cancelled jobs are left out.

    Closed minutes are read from the rollups; `newest` has the ends that are not added up yet.
    """
    start, end = floor(second_of(since), MINUTE), stored.end or 0
    runs, _left = stored.cover([(start, end)]) if start < end else ([], [])
    found: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    chosen = Selection(JOB, TYPE)
    for name, counted in sums_in(chosen, runs, (SUCCEEDED, *FAILURES)).items():
        found[name], failed[name] = sum(counted), sum(counted[1:])
    for each in newest.ends:
        if each.source == JOB and each.outcome in (SUCCEEDED, *FAILURES):
            found[each.type_or_task] += 1
            failed[each.type_or_task] += each.outcome != SUCCEEDED
    return {name: Ends(count, failed[name]) for name, count in found.items()}


class Rates(NamedTuple):
    """How many jobs of a type came and ended a minute."""

    came: float
    ended: float


def rates_by_type(now: datetime, stored: Stored, newest: Unsummed) -> dict[str, Rates]:
    """The rates of each type within FLOW; jobs that are scheduled for later have not come.

    Of more than MAX_SAMPLED jobs it is the rate at which the newest ones came.
    """
    recent = _recent(now, stored, newest)
    came, since = _came_by_type(recent)
    minutes = (recent.until - recent.since) / _MINUTE
    sampled = max(recent.until - since, timedelta(seconds=1)) / _MINUTE
    ended: Counter[str] = Counter()
    if recent.runs:
        sums = sums_in(Selection(JOB, TYPE), recent.runs, OVER[JOB])
        ended.update({name: sum(counts) for name, counts in sums.items()})
    if recent.is_to_now:
        first = ids.lowest_id_at(recent.since)
        ended.update(
            end.type_or_task
            for end in newest.ends
            if end.source == JOB and end.outcome in OVER[JOB] and end.number >= first
        )
    return {
        name: Rates(came[name] / sampled, ended[name] / minutes)
        for name in came.keys() | ended.keys()
    }


def _came_by_type(recent: _Recent) -> tuple[Counter[str], datetime]:
    """How many of the newest jobs of that time are of each type, and since when they came."""
    jobs = f"{table(Job)}{force_index('PRIMARY')}"
    rows = fetch(
        "SELECT type, SUM(status <> %s), COUNT(*), MIN(id) FROM ("
        f"SELECT id, type, status FROM {jobs} WHERE id >= %s AND id < %s "
        f"ORDER BY id DESC LIMIT {MAX_SAMPLED:d}) newest GROUP BY type",
        [SCHEDULED, *recent.ids],
    )
    since = recent.since
    if sum(count for _type, _came, count, _first in rows) >= MAX_SAMPLED:
        since = ids.made_at(min(first for *_counts, first in rows))
    return Counter({name: int(came) for name, came, *_rest in rows}), since
