"""The last minutes up to now: the jobs that came, and all ends, added up or not.

Ends since the newest minute that is added up are read from the journal, up to a limit: so a page
shows an end seconds after it happened.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from operator import add
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
from apps.reports.services.rows import Selection

# Rates cover this time, because one minute alone says little where little happens.
FLOW = timedelta(minutes=5)
_MINUTE = timedelta(minutes=1)
_NOTHING = (0,) * len(OVER[JOB])
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
    too much has ended since."""

    since: datetime
    until: datetime
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
    start = floor(second_of(until - FLOW), MINUTE)
    return _Recent(instant_of(start), until, is_to_now=summed is None)


class TypeMinutes(NamedTuple):
    """The ends of jobs in closed minutes: the start of the minute, the type, and the counts of
    OVER."""

    rows: list[tuple[int, str, tuple[int, ...]]]

    def sums_since(self, start: int) -> dict[str, list[int]]:
        """The counts of each type in the minutes from `start` on."""
        found: dict[str, list[int]] = {}
        for at, name, counts in self.rows:
            if at >= start:
                found[name] = [*map(add, found.get(name, _NOTHING), counts)]
        return found


def type_minutes(since: datetime, now: datetime, stored: Stored, newest: Unsummed) -> TypeMinutes:
    """The closed minutes since an instant, or those of the rates where they begin earlier: both are
    read together."""
    start = min(floor(second_of(since), MINUTE), second_of(_recent(now, stored, newest).since))
    end = stored.end or 0
    runs = [BucketRun(MINUTE, start, end)] if start < end else []
    rows = Selection(JOB, TYPE).select(f"start, value, {', '.join(OVER[JOB])}", runs)
    return TypeMinutes([(at, name, tuple(counts)) for at, name, *counts in rows])


class Ends(NamedTuple):
    """How many jobs of a type ended, and how many of them failed."""

    ended: int
    failed: int

    @property
    def failed_share(self) -> float:
        return self.failed / self.ended if self.ended else 0.0


def ends_by_type(since: datetime, minutes: TypeMinutes, newest: Unsummed) -> dict[str, Ends]:
    """The jobs of each type that have ended since an instant; cancelled jobs are left out.

    `newest` has the ends that are not in closed minutes.
    """
    found: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for name, counts in minutes.sums_since(floor(second_of(since), MINUTE)).items():
        by_outcome = dict(zip(OVER[JOB], counts, strict=True))
        failed[name] = sum(by_outcome[outcome] for outcome in FAILURES)
        found[name] = by_outcome[SUCCEEDED] + failed[name]
    for each in newest.ends:
        if each.source == JOB and each.outcome in (SUCCEEDED, *FAILURES):
            found[each.type_or_task] += 1
            failed[each.type_or_task] += each.outcome != SUCCEEDED
    return {name: Ends(count, failed[name]) for name, count in found.items()}


class Rates(NamedTuple):
    """How many jobs of a type came and ended a minute."""

    came: float
    ended: float


def rates_by_type(
    now: datetime, stored: Stored, minutes: TypeMinutes, newest: Unsummed
) -> dict[str, Rates]:
    """The rates of each type within FLOW; jobs that are scheduled for later have not come.

    Of more than MAX_SAMPLED jobs it is the rate at which the newest ones came.
    """
    recent = _recent(now, stored, newest)
    came, since = _came_by_type(recent)
    lasted = (recent.until - recent.since) / _MINUTE
    sampled = max(recent.until - since, timedelta(seconds=1)) / _MINUTE
    ended: Counter[str] = Counter()
    sums = minutes.sums_since(second_of(recent.since))
    ended.update({name: sum(counts) for name, counts in sums.items()})
    if recent.is_to_now:
        first = ids.lowest_id_at(recent.since)
        ended.update(
            end.type_or_task
            for end in newest.ends
            if end.source == JOB and end.outcome in OVER[JOB] and end.number >= first
        )
    return {
        name: Rates(came[name] / sampled, ended[name] / lasted)
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
