"""The facts of the page of capacity, from totals and estimates: they cost the same at any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.db import connection, models

from apps.common import clock, partitions, storage
from apps.common.db import fetch, table
from apps.dispatch.conf import conf as dispatch_conf
from apps.dispatch.models import ArchivedDispatch, Dispatch, OnceTask, RotateTask, Stock
from apps.jobs.conf import conf as jobs_conf
from apps.jobs.models import ArchivedJob, Job, JobLog
from apps.jobs.services import counts
from apps.journal.conf import conf as journal_conf
from apps.journal.models import JournalEntry
from apps.journal.services.minutes import second_of
from apps.reports.conf import conf
from apps.reports.models import Rollup, RollupBucket
from apps.reports.rules.capacity import Load, days_until_full
from apps.reports.rules.coverage import DAY, floor
from apps.reports.rules.outcomes import FINAL, JOB
from apps.reports.rules.tally import ALL
from apps.reports.services.coverage import Stored
from apps.reports.services.summary import Figures, Period, total_of

# So many full days are averaged.
DAYS = 7
MAX_COUNTED = 10_000
# A larger database of SQLite is assumed to be slow.
LARGE_FOR_SQLITE = 10**9
_LATELY = timedelta(hours=1)


class Rates(NamedTuple):
    """How many rows came a day, over the last full days (UTC) that are added up; 0 `days` when
    there are none yet."""

    days: int
    entries: float = 0.0
    jobs: float = 0.0
    dispatches: float = 0.0


def _nothing(_rates: Rates) -> None:
    """The new rows a day of a table for which nothing is known."""


def _archive_keeps() -> timedelta | None:
    kept = jobs_conf.JOB_RETENTION
    return kept - jobs_conf.JOB_ARCHIVE_AFTER if kept else None


def _archived_dispatches_keep() -> timedelta | None:
    kept = dispatch_conf.DISPATCH_RETENTION
    return kept - dispatch_conf.DISPATCH_ARCHIVE_AFTER if kept else None


@dataclass(frozen=True, slots=True)
class Growing:
    """A table that grows with the work: the usual bytes of a row with its indexes, how many rows
    come a day, and how long each is kept."""

    model: type[models.Model]
    row_bytes: int
    per_day: Callable[[Rates], float | None] = _nothing
    kept: Callable[[], timedelta | None] = lambda: None


GROWING = (
    Growing(JournalEntry, 210, lambda r: r.entries, lambda: journal_conf.JOURNAL_RETENTION or None),
    Growing(Job, 544, lambda r: r.jobs, lambda: jobs_conf.JOB_ARCHIVE_AFTER),
    Growing(ArchivedJob, 407, lambda r: r.jobs, _archive_keeps),
    Growing(JobLog, 600),
    Growing(Dispatch, 500, lambda r: r.dispatches, lambda: dispatch_conf.DISPATCH_ARCHIVE_AFTER),
    Growing(ArchivedDispatch, 450, lambda r: r.dispatches, _archived_dispatches_keep),
    Growing(Stock, 150),
    Growing(OnceTask, 500),
    Growing(RotateTask, 600),
    Growing(Rollup, 500),
)


class TableNow(NamedTuple):
    """A table with its load; `next_roll` is when its next partition begins, None without any."""

    model: type[models.Model]
    load: Load
    is_capped: bool
    next_roll: datetime | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """The facts of the page. `max_size` is 0 and `days_left` None when it is not known how large
    the database may get. `open_jobs` are counted up to MAX_COUNTED; `lately` are the attempts of
    the last hour that is added up."""

    tables: list[TableNow]
    rates: Rates
    size: int
    max_size: int
    days_left: float | None
    open_jobs: int
    lately: Figures
    is_large_for_sqlite: bool


def capacity() -> Capacity:
    """The present state and what it comes to."""
    now = clock.now()
    rates = rates_of(now)
    open_jobs = _open_jobs()
    sizes = storage.sizes_of(each.model for each in GROWING)
    tables = [_table(each, sizes[each.model], rates, now, open_jobs) for each in GROWING]
    size = storage.database_size()
    max_size = conf.DATABASE_MAX_SIZE
    days_left = None
    if max_size and rates.days:
        loads = [each.load for each in tables]
        days_left = days_until_full(loads, size=size, max_size=max_size)
    return Capacity(
        tables=tables,
        rates=rates,
        size=size,
        max_size=max_size,
        days_left=days_left,
        open_jobs=open_jobs,
        lately=total_of(JOB, Period(now - _LATELY, now, ZoneInfo("UTC")), stored=Stored.read()),
        is_large_for_sqlite=connection.vendor == "sqlite" and size > LARGE_FOR_SQLITE,
    )


def rates_of(now: datetime) -> Rates:
    """The rates over the days that are stored as a whole."""
    today = floor(second_of(now), DAY)
    span = [DAY, today - DAYS * DAY, today]
    [(days, entries, dispatches)] = fetch(
        f"SELECT COUNT(*), SUM(entries), SUM(handed_out) FROM {table(RollupBucket)} "
        "WHERE level = %s AND start >= %s AND start < %s",
        span,
    )
    if not days:
        return Rates(0)
    [(jobs,)] = fetch(
        f"SELECT SUM({' + '.join(FINAL)}) FROM {table(Rollup)} "
        "WHERE level = %s AND start >= %s AND start < %s AND source = %s AND dimension = %s",
        [*span, JOB, ALL],
    )
    return Rates(days, *(float(each or 0) / days for each in (entries, jobs, dispatches)))


def _open_jobs() -> int:
    found = counts.totals(MAX_COUNTED)
    return min(MAX_COUNTED, found.ready + found.blocked + found.scheduled + found.running)


def _table(
    growing: Growing, size: storage.TableSize, rates: Rates, now: datetime, open_jobs: int
) -> TableNow:
    known: Any = growing.per_day(rates) if rates.days else None
    load = Load(
        rows=size.rows,
        size=size.bytes,
        per_day=known,
        kept=growing.kept(),
        assumed_bytes=growing.row_bytes,
        standing=open_jobs if growing.model is Job else 0,
    )
    ends = (each.end for each in partitions.partitions_of(growing.model))
    ahead = [end for end in ends if end is not None and end > now]
    return TableNow(growing.model, load, size.is_capped, min(ahead, default=None))
