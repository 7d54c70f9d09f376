"""What must be true when years have been played: nothing is lost, and nothing is kept too long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apps.common import ids, partitions
from apps.dispatch.conf import conf as dispatch_conf
from apps.dispatch.models import ArchivedDispatch, Dispatch
from apps.dispatch.services.roll import ROLLING as DISPATCHES
from apps.jobs.conf import conf as jobs_conf
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.services.find import find
from apps.jobs.services.roll import ROLLING
from apps.journal.conf import conf as journal_conf
from apps.journal.models import JournalEntry
from taskplatform.audit import CHECKS
from taskplatform.demo.proofs import Proof, audited

# Sweeps run once a day here, and go through all rows every other day.
LATE = timedelta(days=3)
LOOKED_UP = 300


@dataclass(frozen=True, slots=True)
class Kept:
    """Where rows are by their age: live, after `archived_after` in the archive, at most
    `archived_late` later, and after `retention` (0 is for ever) gone, at most `late` later."""

    noun: str
    live: Any
    archive: Any
    archived_after: timedelta
    archived_late: timedelta
    retention: timedelta
    late: timedelta

    def breaches(self, ended: Mapping[int, datetime], now: datetime) -> Iterator[str]:
        """The rows that are elsewhere; `ended` says when each one did."""
        live = _numbers(self.live)
        archived = _numbers(self.archive)
        for number, at in ended.items():
            wrong = self._wrong(number in live, number in archived, now - at)
            if wrong:
                yield f"{self.noun} {number} ended at {at:%Y-%m-%d %H:%M} and {wrong}"

    def _wrong(self, is_live: bool, is_archived: bool, age: timedelta) -> str:
        if is_live and is_archived:
            return "is live and in the archive"
        if not is_live and not is_archived:
            is_early = not self.retention or age <= self.retention
            return "is kept nowhere" if is_early else ""
        if self.retention and age > self.retention + self.late:
            return "is not forgotten"
        if is_archived and age < self.archived_after:
            return "is in the archive too early"
        if is_live and age > self.archived_after + self.archived_late:
            return "is not in the archive"
        return ""


def _numbers(model: Any) -> set[int]:
    return set(model.objects.values_list("pk", flat=True))


def kept_jobs() -> Kept:
    """On MariaDB they go by partitions, so later."""
    return Kept(
        noun="job",
        live=Job,
        archive=ArchivedJob,
        archived_after=jobs_conf.JOB_ARCHIVE_AFTER,
        archived_late=LATE,
        retention=jobs_conf.JOB_RETENTION,
        late=LATE + ROLLING.lag(),
    )


def kept_dispatches() -> Kept:
    """Those of a once task stay until the task goes, which is over when it leaves the lookback."""
    of_tasks = dispatch_conf.TASK_ARCHIVE_AFTER - dispatch_conf.DISPATCH_ARCHIVE_AFTER
    return Kept(
        noun="dispatch",
        live=Dispatch,
        archive=ArchivedDispatch,
        archived_after=dispatch_conf.DISPATCH_ARCHIVE_AFTER,
        archived_late=LATE + dispatch_conf.DISPATCH_LOOKBACK + max(timedelta(), of_tasks),
        retention=dispatch_conf.DISPATCH_RETENTION,
        late=LATE + DISPATCHES.lag(),
    )


@dataclass
class Ledger:
    """When each job and dispatch ended, by number, and how many entries each stretch had."""

    submitted: set[int] = field(default_factory=set)
    jobs: dict[int, datetime] = field(default_factory=dict)
    dispatches: dict[int, datetime] = field(default_factory=dict)
    entries: list[tuple[datetime, datetime, int]] = field(default_factory=list)

    def count_entries(self, start: datetime, end: datetime) -> None:
        """Note how many the journal has of [start, end)."""
        self.entries.append((start, end, _entries_between(start, end)))

    def proofs(self, now: datetime) -> list[Proof]:
        jobs, dispatches = kept_jobs(), kept_dispatches()
        return [
            Proof(
                "every job has ended",
                [f"job {number} has not" for number in sorted(self.submitted - self.jobs.keys())],
            ),
            Proof(
                "each job is live, in the archive, or rightly forgotten",
                list(jobs.breaches(self.jobs, now)),
            ),
            Proof("each job that is kept is found by its number", list(self._not_found())),
            Proof(
                "each dispatch is there or rightly forgotten",
                list(dispatches.breaches(self.dispatches, now)),
            ),
            Proof("the journal has all entries of its retention, and no others", self._astray(now)),
            Proof("tables that roll have few partitions, and nothing behind them", _rolling()),
            *audited(CHECKS),
        ]

    def _not_found(self) -> Iterator[str]:
        known = _numbers(Job) | _numbers(ArchivedJob)
        for number in list(self.jobs)[:: max(1, len(self.jobs) // LOOKED_UP)]:
            is_found = find(number) is not None
            if is_found != (number in known):
                yield f"job {number} is {'found' if is_found else 'not found'}"

    def _astray(self, now: datetime) -> Sequence[str]:
        retention = journal_conf.JOURNAL_RETENTION
        late = LATE + (partitions.LONGEST if partitions.partitions_of(JournalEntry) else LATE)
        breaches = []
        for start, end, count in self.entries:
            left = _entries_between(start, end)
            if left < count and (not retention or start >= now - retention):
                breaches.append(f"{left:,} of {count:,} entries from {start:%Y-%m-%d} are left")
            if left and retention and end < now - retention - late:
                breaches.append(f"{left:,} entries from {start:%Y-%m-%d} are not forgotten")
        return breaches


def _entries_between(start: datetime, end: datetime) -> int:
    low, high = ids.lowest_id_at(start), ids.lowest_id_at(end)
    return JournalEntry.objects.filter(pk__gte=low, pk__lt=high).count()


def _rolling() -> Sequence[str]:
    """None on SQLite, where no table rolls."""
    breaches = []
    for model in (JournalEntry, ArchivedJob, ArchivedDispatch):
        found = partitions.partitions_of(model)
        if not found:
            continue
        noun, most = model._meta.verbose_name_plural, partitions.MOST + partitions.AHEAD_COUNT[1]
        if len(found) > most:
            breaches.append(f"{noun}: {len(found)} partitions, more than {most}")
        last = max((each.end for each in found if each.end is not None), default=None)
        if last is None or model.objects.filter(pk__gte=ids.lowest_id_at(last)).exists():
            breaches.append(f"{noun}: rows lie behind the last boundary")
    return breaches
