"""Forgetting: archived jobs whose time is over are removed for ever, some at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from apps.common import clock, ids
from apps.common.archive import Chunk, walk
from apps.common.db import execute, fetch, instant, placeholders, table, transactional
from apps.jobs.conf import conf
from apps.jobs.models import ArchivedJob, JobType
from apps.jobs.rules import retention as rules
from apps.jobs.services import job_log
from apps.jobs.services.parts import parts
from apps.journal import services as journal

SWEEP = "jobs.forget"
# Rows that are read at once, and that one transaction removes at most.
READ = 5_000
CHUNK = 500
# After this time archived jobs that could not go yet are looked at again.
AGAIN_AFTER = timedelta(days=1)
FORGOTTEN = "purged"


class Horizons:
    """The instants, by type, before which ended jobs are forgotten; None for never."""

    def __init__(self, now: datetime, *, lag: timedelta = timedelta()) -> None:
        """With a `lag`, jobs of types without a time of their own are forgotten so much later."""
        self._usual = rules.horizon(now - lag, retention=conf.JOB_RETENTION)
        own = JobType.objects.exclude(retention_days=None).values_list("name", "retention_days")
        self._own: Mapping[str, datetime | None] = {
            name: rules.horizon(now, retention=conf.JOB_RETENTION, days=days) for name, days in own
        }

    def has_passed(self, type_name: str, ended_at: datetime) -> bool:
        """Whether a job of the type that ended then is forgotten."""
        before = self._own.get(type_name, self._usual)
        return before is not None and ended_at < before

    @property
    def latest(self) -> datetime | None:
        """The earliest instant after which every ended job is kept, whatever its type; None when
        all are."""
        known = [each for each in (self._usual, *self._own.values()) if each is not None]
        return max(known, default=None)


def forget(*, until: datetime, lag: timedelta = timedelta()) -> int:
    """Remove the archived jobs that ended before the horizon of their type; returns how many.

    With a `lag` those of types without a time of their own go so much later: partitions come first.
    """
    horizons = Horizons(clock.now(), lag=lag)
    if horizons.latest is None:
        return 0
    take = partial(_take_chunk, horizons, horizons.latest)
    return walk(SWEEP, take, until=until, again_after=AGAIN_AFTER)


def _take_chunk(horizons: Horizons, latest: datetime, after: int) -> Chunk:
    # Ids hold the time of creation; a job that began later has not ended earlier.
    rows = fetch(
        f"SELECT id, type, finished_at, part_of FROM {table(ArchivedJob)} "
        "WHERE id > %s AND id < %s "
        "ORDER BY id LIMIT %s",
        [after, ids.lowest_id_at(latest), READ],
    )
    needed = parts.kept({part for *_row, part in rows if part is not None})
    chosen = []
    for number, type_name, finished_at, part in rows:
        if part not in needed and horizons.has_passed(type_name, instant(finished_at)):
            chosen.append(number)
            if len(chosen) == CHUNK:
                # The next chunk begins here.
                return Chunk(_remove(chosen), number, is_end=False)
    removed = _remove(chosen) if chosen else 0
    return Chunk(removed, rows[-1][0] if rows else after, is_end=len(rows) < READ)


@transactional
def _remove(chosen: Sequence[int]) -> int:
    removed = execute(
        f"DELETE FROM {table(ArchivedJob)} WHERE id IN ({placeholders(len(chosen))})", chosen
    )
    if removed:
        job_log.forget(chosen)
        journal.note(FORGOTTEN, {"archived_jobs": removed}, at=clock.now())
    return removed
