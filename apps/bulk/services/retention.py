"""Forgetting: the rows of old runs, and later the runs themselves."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef

from apps.bulk.conf import conf
from apps.bulk.models import BulkRow, BulkRun
from apps.bulk.services.runs import is_stalled
from apps.common import clock
from apps.common.db import execute, fetch, placeholders, table, transactional

SWEEP = "bulk.purge"
CHUNK = 1_000


def purge(*, until: datetime) -> int:
    """Remove what is past its time, some at a time; returns how many rows and runs."""
    now = clock.now()
    return _purge_rows(now, until) + _purge_runs(now)


def _purge_rows(now: datetime, until: datetime) -> int:
    old = BulkRun.objects.filter(created_at__lt=now - conf.BULK_ROWS_KEPT).order_by("pk")
    removed = 0
    for run in old.filter(Exists(BulkRow.objects.filter(run=OuterRef("pk")))):
        if run.is_under_way and not is_stalled(run):
            continue
        while clock.now() < until:
            chunk = _remove(run.pk)
            removed += chunk
            if chunk < CHUNK:
                break
    return removed


@transactional
def _remove(run: int) -> int:
    rows = fetch(
        f"SELECT id FROM {table(BulkRow)} WHERE run_id = %s ORDER BY outcome, id LIMIT {CHUNK}",
        [run],
    )
    chosen = [number for (number,) in rows]
    if not chosen:
        return 0
    return execute(
        f"DELETE FROM {table(BulkRow)} WHERE id IN ({placeholders(len(chosen))})", chosen
    )


def _purge_runs(now: datetime) -> int:
    old = BulkRun.objects.filter(created_at__lt=now - conf.BULK_RUNS_KEPT, rows__isnull=True)
    numbers = list(old.order_by("pk").values_list("pk", flat=True)[:CHUNK])
    return BulkRun.objects.filter(pk__in=numbers).delete()[0] if numbers else 0
