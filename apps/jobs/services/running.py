"""The jobs that workers run now; reads running jobs only, which are few."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Count

from apps.common.db import fetch, force_index, placeholders, table
from apps.jobs.models import Bounds, Job, Worker
from apps.jobs.rules.transitions import RUNNING
from apps.jobs.services.register import WorkerKey


def running_ids(limit: int, worker: Worker | None = None, *, type_: str = "") -> list[int]:
    """The jobs that the worker holds now, or all of them, longest held first; of one type, if it is
    named."""
    own, values = "", []
    if worker is not None:
        own, values = " AND client = %s AND worker = %s", [worker.client, worker.name]
    if type_:
        own, values = f"{own} AND type = %s", [*values, type_]
    sql = f"SELECT id FROM {_running_jobs()}{own} ORDER BY held_at, id LIMIT %s"
    return [number for (number,) in fetch(sql, [*values, limit])]


def running_counts(workers: Collection[Worker]) -> dict[WorkerKey, int]:
    """How many jobs these workers hold now; those that hold none are left out."""
    if not workers:
        return {}
    names = sorted({worker.name for worker in workers})
    rows = fetch(
        f"SELECT client, worker, COUNT(*) FROM {_running_jobs()} "
        f"AND worker IN ({placeholders(len(names))}) GROUP BY client, worker",
        names,
    )
    return {WorkerKey(client, name): count for client, name, count in rows}


def running_within(workers: Collection[Worker], bounds: Bounds) -> dict[WorkerKey, int]:
    """As `running_counts`, of the jobs within the bounds."""
    held = Job.objects.within(bounds).filter(
        status=RUNNING, worker__in={worker.name for worker in workers}
    )
    counted = held.order_by().values_list("client", "worker").annotate(Count("pk"))
    return {WorkerKey(client, name): count for client, name, count in counted}


def _running_jobs() -> str:
    # A literal, without which SQLite would not use its partial index.
    return f"{table(Job)}{force_index('job_due')} WHERE status = '{RUNNING}'"
