"""S1.3, S1.20, I48-I50: hot queries read what they return and no other row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.common import clock
from apps.jobs.models import Job
from apps.jobs.services.counts import starving
from apps.jobs.services.hold import due_types
from apps.jobs.services.promote import promote_due
from apps.jobs.services.rescue import rescue_due
from apps.jobs.services.type_snapshots import type_snapshots
from tests.jobs import job_type, jobs, take
from tests.statements import analyze, asked, explained, index_reads, other_reads, sent_by, steps_of

# ANALYZE commits on MariaDB.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

EACH = 1500
TYPES = ("bill", "mail")
QUERIES: dict[str, Callable[[], Any]] = {
    "hold one type": lambda: take(20),
    "hold two types": lambda: take(20, types=TYPES),
    "promote": promote_due,
    "rescue": lambda: rescue_due(until=clock.now() + timedelta(minutes=1)),
    "probe": lambda: due_types(TYPES),
    "starvation": lambda: starving(clock.now(), type_snapshots(TYPES).values()),
}


@pytest.fixture
def crowd() -> None:
    """Many ended, running, waiting and not yet due jobs of two types.

    The statistics are those of an empty queue, which must not mislead the planner.
    """
    for name in TYPES:
        job_type(name)
        jobs(EACH, name, status="succeeded")
    analyze(Job)
    later = clock.now() + timedelta(days=1)
    for name in TYPES:
        jobs(EACH, name)
        jobs(EACH, name, run_at=later, priority=100)
        take(100, types=(name,))
    Job.objects.filter(pk__in=[job.id for job in take(10)]).update(lease_until=clock.now())


def test_no_hot_query_scans_or_sorts(crowd: None) -> None:
    check = _check_mariadb if connection.vendor == "mysql" else _check_sqlite
    for name, query in QUERIES.items():
        # MariaDB gets the UPDATE of a hold and the SELECT of what it changed in one message.
        parts = [part for sql in sent_by(query) for part in sql.split("; ")]
        statements = [part for part in parts if _reads_jobs(part)]
        assert statements, name
        for sql in statements:
            check(sql)


def _reads_jobs(sql: str) -> bool:
    return sql.startswith(("SELECT", "(SELECT", "UPDATE")) and "jobs_job" in sql.replace(
        "jobs_jobtype", ""
    )


def _check_mariadb(sql: str) -> None:
    # EXPLAIN shows the parts of a UNION without their LIMIT.
    for step in [] if sql.startswith("(") else steps_of(sql):
        assert "filesort" not in (step["Extra"] or ""), (step, sql)
        if step["table"] == "jobs_job":
            assert step["type"] in ("ref", "range", "const", "eq_ref"), (step, sql)
    if sql.startswith("UPDATE"):
        return
    by_index, otherwise = index_reads(), other_reads()
    found = asked(sql)
    # Each range of a UNION is begun and ended; rows of others may stand between ids.
    assert index_reads() - by_index <= 2 * len(found) + 10, sql
    # Those of a UNION are read once more, and the questions themselves count a few.
    assert other_reads() - otherwise <= len(found) + 50, sql


def _check_sqlite(sql: str) -> None:
    plan = explained(sql)
    assert "SCAN jobs_job" not in plan, (plan, sql)
    assert "TEMP B-TREE" not in plan, (plan, sql)
