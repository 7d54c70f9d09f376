"""Ended jobs go to the archive after a while, and come back from it when somebody retries them.

History hardly slows holds; the archive keeps backups, counts and changes of the live table short.
A job is in exactly one of both tables: each way is one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from apps.common import clock, ids
from apps.common.archive import Chunk, carry, lock_still, walk
from apps.common.db import fetch, instant, placeholders, table, transactional
from apps.common.errors import Conflict
from apps.common.messages import Message as _
from apps.jobs.conf import conf
from apps.jobs.models import ArchivedJob, Job, JobType
from apps.jobs.models.job_columns import COLUMNS
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import order_key
from apps.jobs.services.move import entry_of
from apps.journal import services as journal

SWEEP = "jobs.archive"
# Rows that one transaction moves.
CHUNK = 500
# How often jobs are looked at again that waited or ran when their turn came.
AGAIN_AFTER = timedelta(hours=1)
ARCHIVED, RESTORED = "archived", "restored"

# The columns that only jobs of the live table have, with their values once a job has ended.
_ONLY_LIVE = {
    field.attname: field.get_default()
    for field in Job._meta.concrete_fields
    if field.attname not in COLUMNS
}
_IS_OVER = f"status IN ({placeholders(len(t.FINAL))}) AND finished_at < %s"


def archive_ended(*, until: datetime) -> int:
    """Move the jobs that ended JOB_ARCHIVE_AFTER ago or earlier; returns how many."""
    return walk(SWEEP, _take_chunk, until=until, again_after=AGAIN_AFTER)


def _take_chunk(after: int) -> Chunk:
    now = clock.now()
    before = now - conf.JOB_ARCHIVE_AFTER
    # Ids hold the time of creation; a job that began later has not ended earlier.
    rows = fetch(
        f"SELECT id, status, finished_at FROM {table(Job)} WHERE id > %s AND id < %s "
        "ORDER BY id LIMIT %s",
        [after, ids.lowest_id_at(before), CHUNK],
    )
    chosen = [
        number
        for number, status, finished_at in rows
        if status in t.FINAL and instant(finished_at) < before
    ]
    moved = _move(chosen, before, now) if chosen else 0
    return Chunk(moved, rows[-1][0] if rows else after, len(rows) < CHUNK)


@transactional
def _move(chosen: Sequence[int], before: datetime, now: datetime) -> int:
    """Move the jobs that are still over and that nobody has locked."""
    numbers = lock_still(Job, chosen, _IS_OVER, [*t.FINAL, before])
    if numbers:
        carry(Job, ArchivedJob, COLUMNS, numbers, {"archived_at": now})
        journal.note(ARCHIVED, {"jobs": len(numbers)}, at=now)
    return len(numbers)


def restore(number: int, *, actor: str, reason: str, now: datetime) -> Job | None:
    """The job back from the archive, ended as before and locked; None if it is not there.

    Only within the transaction of a retry: an ended job would soon be moved again.
    """
    row = ArchivedJob.objects.select_for_update().filter(pk=number).first()
    if row is None:
        return None
    if not JobType.objects.filter(name=row.type).exists():
        raise Conflict(
            _(
                "Job {number} cannot run: there is no job type {type} any more; make it again "
                "first.",
                number=number,
                type=row.type,
            )
        )
    place = order_key(now, priority=row.priority, attempts=0, weight_ms=conf.JOB_PRIORITY_WEIGHT_MS)
    live = _ONLY_LIVE | {"order_key": place, "version": row.version + 1}
    carry(ArchivedJob, Job, COLUMNS, [number], live)
    journal.write([entry_of(row, RESTORED, row.status, now, actor=actor, reason=reason)])
    return Job.objects.get(pk=number)
