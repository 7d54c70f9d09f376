"""The last minutes up to now: what came, and what ended, added up or not.

What has ended since the newest minute that is added up is read from the journal, up to a limit: so
a page shows it seconds after it happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import models

from apps.common import ids
from apps.common.db import fetch, table
from apps.dispatch.models import Dispatch
from apps.jobs.models import Job
from apps.journal.models import JournalEntry
from apps.journal.services.minutes import instant_of, second_of
from apps.reports.rules.coverage import MINUTE, BucketRun, floor
from apps.reports.rules.outcomes import DISPATCH, ENDS, FAILURES, JOB, OVER, SUCCEEDED
from apps.reports.rules.tally import ALL, EXECUTOR, TYPE
from apps.reports.services.coverage import Stored
from apps.reports.services.rows import Selection, sums_in

# Rates cover this time, because one minute alone says little where little happens.
FLOW = timedelta(minutes=5)
# What came is counted up to this number.
MAX_CAME = 5_000
_MODELS: Mapping[str, type[models.Model]] = {JOB: Job, DISPATCH: Dispatch}


class End(NamedTuple):
    """The end of a job, an attempt or a dispatch; `number` is that of its journal entry."""

    number: int
    source: str
    outcome: str
    type_or_task: str
    executor: str


class Unsummed(NamedTuple):
    """What has ended since then, the newest first; not `is_whole` where there was more than was
    read."""

    since: datetime
    ends: list[End]
    is_whole: bool


def unsummed(since: datetime, limit: int) -> Unsummed:
    """What the newest journal entries since then say, of at most so many."""
    rows = fetch(
        "SELECT id, source, event, from_state, to_state, type_or_task, executor "
        f"FROM {table(JournalEntry)} WHERE id >= %s ORDER BY id DESC LIMIT %s",
        [ids.lowest_id_at(since), limit + 1],
    )
    ends = [
        End(number, source, outcome, type_, executor)
        for number, source, *what, type_, executor in rows[:limit]
        if (outcome := ENDS.get((source, *what)))
    ]
    return Unsummed(since, ends, len(rows) <= limit)


@dataclass(frozen=True, slots=True)
class Flow:
    """How many jobs or dispatches came and how many ended in [since, until). `came` is counted up
    to MAX_CAME, and unknown for people who see some executors only.

    `until` is now, or the end of the totals where too much has ended since.
    """

    since: datetime
    until: datetime
    came: int | None
    ended: int

    @property
    def minutes(self) -> float:
        return (self.until - self.since) / timedelta(minutes=1)


def flows(
    sources: Collection[str],
    now: datetime,
    stored: Stored,
    newest: Unsummed,
    *,
    executors: Collection[str] | None = None,
) -> dict[str, Flow]:
    """By source, what has come and ended in the last FLOW and since the minute in which that
    began; dispatches only those of `executors`.

    Of closed minutes it is their totals, and after them what is not added up yet.
    """
    summed = stored.closed_until
    until = now if newest.is_whole or summed is None else summed
    start, end = floor(second_of(until - FLOW), MINUTE), stored.end or 0
    since, runs = instant_of(start), [BucketRun(MINUTE, start, end)] if start < end else []
    # Ids are made by other clocks, too.
    before = until + timedelta(minutes=1) if until == now else until
    came = _came([source for source in sources if executors is None], since, before)
    found = {}
    for source in sources:
        chosen, names = Selection(source, ALL), None
        if source == DISPATCH and executors is not None:
            chosen, names = Selection(source, EXECUTOR, tuple(executors)), {*executors}
        ended = sum(map(sum, sums_in(chosen, runs, OVER[source]).values())) if runs else 0
        if until == now:
            ended += _ended_since(since, source, newest, names)
        found[source] = Flow(since, until, came.get(source), ended)
    return found


def _came(sources: Sequence[str], since: datetime, before: datetime) -> dict[str, int]:
    """The number of jobs or dispatches made in [since, before), each up to MAX_CAME."""
    if not sources:
        return {}
    between = [ids.lowest_id_at(since), ids.lowest_id_at(before)]
    those = [f"FROM {table(_MODELS[source])} WHERE id >= %s AND id < %s" for source in sources]
    # COUNT(*) over a LIMIT would write the rows to a temporary table first.
    counts = ", ".join(
        f"COALESCE((SELECT {MAX_CAME:d} {each} LIMIT 1 OFFSET {MAX_CAME - 1:d}), "
        f"(SELECT COUNT(*) {each}))"
        for each in those
    )
    [found] = fetch(f"SELECT {counts}", [*between, *between] * len(sources))
    return dict(zip(sources, found, strict=True))


def _ended_since(
    since: datetime, source: str, newest: Unsummed, executors: Collection[str] | None
) -> int:
    first = ids.lowest_id_at(since)
    return sum(
        end.source == source
        and end.outcome in OVER[source]
        and end.number >= first
        and (executors is None or end.executor in executors)
        for end in newest.ends
    )


class Ends(NamedTuple):
    """How many jobs of a type ended, and how many of them failed."""

    ended: int
    failed: int

    @property
    def failed_share(self) -> float:
        return self.failed / self.ended if self.ended else 0.0


def ends_by_type(since: datetime, stored: Stored, newest: Unsummed) -> dict[str, Ends]:
    """What has ended since then, by job type; cancelled jobs are left out.

    Of the closed minutes by the rollups, and after them of what is not added up yet.
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
