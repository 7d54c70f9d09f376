"""Jobs of the past: ended long ago, and moved or forgotten as the sweeps do it; and its figures."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from itertools import count as counted
from typing import Any

from django.db import connection

from apps.common import clock, ids
from apps.common.leases import save_position, sweep_lease
from apps.common.rows import insert_rows
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.rules.job_log import LogLines
from apps.jobs.services import archive, job_log, retention
from apps.jobs.services.job_log import AttemptLines
from apps.journal.conf import conf as journal_conf
from apps.journal.services.minutes import second_of
from apps.reports.rules.coverage import DAY, MINUTE, floor
from apps.reports.services import rollup

# Ids of one millisecond.
_apart = counted(1)


def ended(
    count: int = 1,
    *,
    type: str = "mail",  # noqa: A002
    ago: timedelta = timedelta(days=8),
    status: str = "succeeded",
    **columns: Any,
) -> list[int]:
    """Jobs that were made and ended so long ago, in the live table; their numbers."""
    at = clock.now() - ago
    lowest = ids.lowest_id_at(at)
    numbers = [lowest + next(_apart) for _ in range(count)]
    row = {
        "type": type,
        "context": {"to": "ann@example.com"},
        "status": status,
        "attempts": 1,
        "max_attempts": 3,
        "holds": 1,
        "version": 3,
        "last_end": status,
        "lease_token": "t" * 32,
        "worker": "host-a:1",
        "host": "host-a",
        "order_key": 0,
        "run_at": at,
        "expected_at": at,
        "created_at": at,
        "held_at": at,
        "started_at": at,
        "finished_at": at,
        **columns,
    }
    insert_rows(Job, [{"id": number, **row} for number in numbers])
    return numbers


def logged(*numbers: int) -> None:
    """A line in the log of each of these jobs."""
    job_log.write([AttemptLines(number, 1, 1, LogLines(["a line"])) for number in numbers])


def move() -> int:
    """Archive what is old enough; returns how many."""
    return archive.archive_ended(until=clock.now() + timedelta(hours=1))


def forget() -> int:
    """Forget what is past its retention; returns how many."""
    return retention.forget(until=clock.now() + timedelta(hours=1))


def archived(count: int = 1, **columns: Any) -> list[int]:
    """Jobs that are in the archive."""
    numbers = ended(count, **columns)
    # They may be older than what was moved before.
    save_position(archive.SWEEP, {})
    move()
    return numbers


def where(number: int) -> list[str]:
    """The tables that have the job."""
    return [m._meta.db_table for m in (Job, ArchivedJob) if m.objects.filter(pk=number).exists()]


def unite_archive(table: str = "jobs_archived") -> None:
    """One partition, as `migrate` leaves the archive on MariaDB; nothing in it."""
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE TABLE {table}")
        cursor.execute(f"ALTER TABLE {table} REMOVE PARTITIONING")
        cursor.execute(
            f"ALTER TABLE {table} PARTITION BY RANGE (id) "
            "(PARTITION pmax VALUES LESS THAN MAXVALUE)"
        )


def add_up_since(start: datetime) -> None:
    """Add up what a scene has put into a past that a platform that runs has added up already, or
    that lies before its first day."""
    low = floor(second_of(start), DAY)
    end = floor(second_of(clock.now() - journal_conf.JOURNAL_GRACE), MINUTE)
    while low < end:
        with sweep_lease(rollup.SWEEP, at_most=rollup.MAX_TIME) as mine:
            if mine:
                end = rollup.add_up(low, end, now=clock.now())
        if not mine:
            time.sleep(0.1)
