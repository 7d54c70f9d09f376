"""Make scheduled jobs ready when they are due; those of a limited key wait for a place of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import DatabaseError, connection

from apps.common import clock
from apps.common.db import execute, fetch, is_retryable, table
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules.transitions import SCHEDULED
from apps.jobs.services.admission import admit
from apps.jobs.services.locked import locked_jobs, note_locked
from apps.jobs.services.rows import arrow_update
from apps.jobs.services.type_snapshots import type_snapshots


def promote_due(*, now: datetime | None = None) -> int:
    """Make the earliest due jobs ready, one block of them; returns how many.

    Rows not yet due stay out of the claim index. Their order in it was written at submission.
    """
    now = now or clock.now()
    jobs, locked, most = table(Job), locked_jobs(), conf.JOB_PROMOTION_BATCH
    # The index of due jobs does not have their keys.
    limited = {name for name, type_ in type_snapshots().items() if type_.key_limit is not None}
    columns = "id, type, limit_id" if limited else "id, '', NULL"
    due = fetch(
        f"SELECT {columns} FROM {jobs} WHERE status = %s AND run_at <= %s "
        "ORDER BY run_at, id LIMIT %s",
        [SCHEDULED, now, most + len(locked)],
    )
    due = [row for row in due if row[0] not in locked][:most]
    keys = {number: name for _id, name, number in due if number is not None and name in limited}
    blocked = sorted(row[0] for row in due if row[2] in keys)
    ids = sorted({row[0] for row in due} - {*blocked})
    if not due:
        return 0
    past: dict[str, Any] = {"guard": " AND run_at <= %s", "parameters": [now]}
    try:
        promoted = execute(*arrow_update("promote", ids, **past)) if ids else 0
        if blocked:
            promoted += execute(*arrow_update("block", blocked, **past))
            admit(keys)
        return promoted
    except DatabaseError as error:
        if connection.in_atomic_block or not is_retryable(error):
            raise
        note_locked(ids, error)
        return 0
