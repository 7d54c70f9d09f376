"""Making ready what has waited for its time."""

from __future__ import annotations

from datetime import datetime

from apps.common import clock
from apps.common.conf import conf
from apps.common.db import execute, fetch, marks, table
from apps.jobs.models import Job
from apps.jobs.rules.transitions import READY, SCHEDULED


def promote_due(*, now: datetime | None = None) -> int:
    """Make the earliest due jobs ready, one block of them; returns how many.

    Rows not yet due stay apart from the claim index, in which they would stand in the way. Their
    place in it was written when they were submitted.
    """
    now = now or clock.now()
    jobs = table(Job)
    due = fetch(
        f"SELECT id FROM {jobs} WHERE status = %s AND run_at <= %s "  # noqa: S608
        "ORDER BY run_at, id LIMIT %s",
        [SCHEDULED, now, conf.JOB_PROMOTION_BATCH],
    )
    if not due:
        return 0
    ids = sorted(row[0] for row in due)
    return execute(
        f"UPDATE {jobs} SET status = %s, version = version + 1 "  # noqa: S608
        f"WHERE id IN ({marks(len(ids))}) AND status = %s AND run_at <= %s",
        [READY, *ids, SCHEDULED, now],
    )
