"""Make scheduled jobs ready when they are due."""

from __future__ import annotations

from datetime import datetime

from django.db import DatabaseError, connection

from apps.common import clock
from apps.common.db import execute, fetch, is_retryable, table
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules.transitions import SCHEDULED
from apps.jobs.services.locked import locked_jobs, note_locked
from apps.jobs.services.move import arrow_update


def promote_due(*, now: datetime | None = None) -> int:
    """Make the earliest due jobs ready, one block of them; returns how many.

    Rows not yet due stay out of the claim index. Their order in it was written at submission.
    """
    now = now or clock.now()
    jobs, locked, most = table(Job), locked_jobs(), conf.JOB_PROMOTION_BATCH
    due = fetch(
        f"SELECT id FROM {jobs} WHERE status = %s AND run_at <= %s ORDER BY run_at, id LIMIT %s",
        [SCHEDULED, now, most + len(locked)],
    )
    ids = sorted([number for (number,) in due if number not in locked][:most])
    if not ids:
        return 0
    try:
        return execute(*arrow_update("promote", ids, guard=" AND run_at <= %s", parameters=[now]))
    except DatabaseError as error:
        if connection.in_atomic_block or not is_retryable(error):
            raise
        note_locked(ids, error)
        return 0
