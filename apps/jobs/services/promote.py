"""Making ready what has waited for its time."""

from __future__ import annotations

from datetime import datetime

from django.db import DatabaseError, connection

from apps.common import clock
from apps.common.db import execute, fetch, is_retryable, placeholders, table
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules.transitions import READY, SCHEDULED
from apps.jobs.services import locked


def promote_due(*, now: datetime | None = None) -> int:
    """Make the earliest due jobs ready, one block of them; returns how many.

    Rows not yet due stay apart from the claim index, in which they would stand in the way. Their
    place in it was written when they were submitted.
    """
    now = now or clock.now()
    jobs = table(Job)
    due = fetch(
        f"SELECT id FROM {jobs} WHERE status = %s AND run_at <= %s ORDER BY run_at, id LIMIT %s",
        [SCHEDULED, now, conf.JOB_PROMOTION_BATCH],
    )
    shut = locked.known()
    ids = sorted(number for (number,) in due if number not in shut)
    if not ids:
        return 0
    try:
        return _promote(ids, now)
    except DatabaseError as error:
        if connection.in_atomic_block or not is_retryable(error):
            raise
        locked.note(ids, error)
        return 0


def _promote(ids: list[int], now: datetime) -> int:
    jobs = table(Job)
    return execute(
        f"UPDATE {jobs} SET status = %s, version = version + 1 "
        f"WHERE id IN ({placeholders(len(ids))}) AND status = %s AND run_at <= %s",
        [READY, *ids, SCHEDULED, now],
    )
