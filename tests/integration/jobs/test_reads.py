"""S1.3, S1.20, I48-I50: hot look-ups read what they return, whatever stands before or behind it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.common import clock
from apps.jobs.models import Job
from apps.jobs.services.hold import due_types
from apps.jobs.services.promote import promote_due
from apps.jobs.services.rescue import rescue_due
from apps.jobs.services.starvation import starving
from tests.jobs import job_type, jobs, take

# MariaDB commits when it is told to analyze.
pytestmark = pytest.mark.django_db(transaction=True)

EACH = 1500
TYPES = ("bill", "mail")
LOOK_UPS: dict[str, Callable[[], Any]] = {
    "hold one type": lambda: take(20),
    "hold two types": lambda: take(20, types=TYPES),
    "promote": promote_due,
    "rescue": lambda: rescue_due(until=clock.now() + timedelta(seconds=1)),
    "probe": lambda: due_types(TYPES),
    "starvation": lambda: starving(clock.now(), TYPES),
}


def asked(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@pytest.fixture
def crowd() -> None:
    """Many ended, running, waiting and not yet due jobs of two types.

    The statistics are those of an empty queue, which must not mislead the planner.
    """
    for name in TYPES:
        job_type(name)
        jobs(EACH, name, status="succeeded")
    asked("ANALYZE TABLE jobs_job" if connection.vendor == "mysql" else "ANALYZE")
    later = clock.now() + timedelta(days=1)
    for name in TYPES:
        jobs(EACH, name)
        jobs(EACH, name, run_at=later, priority=100)
        take(100, types=(name,))
    Job.objects.filter(pk__in=[job.id for job in take(10)]).update(lease_until=clock.now())


@pytest.mark.parametrize("name", list(LOOK_UPS))
def test_no_look_up_scans_or_sorts(crowd: None, name: str) -> None:
    for sql in _selects(LOOK_UPS[name]):
        if connection.vendor == "mysql":
            _judge_mariadb(sql)
        else:
            _judge_sqlite(sql)


def _selects(action: Callable[[], Any]) -> list[str]:
    """The look-ups of jobs that the action makes, as they were sent."""
    with CaptureQueriesContext(connection) as captured:
        action()
    found = [query["sql"] for query in captured]
    return [sql for sql in found if sql.startswith("SELECT") and "jobs_job" in _tables(sql)]


def _tables(sql: str) -> str:
    return sql.replace("jobs_jobtype", "")


def _judge_mariadb(sql: str) -> None:
    for step in asked(f"EXPLAIN {sql}"):
        table, way, extra = step[2], step[3], step[-1] or ""
        assert "filesort" not in extra, (step, sql)
        if table == "jobs_job":
            assert way in ("ref", "range", "const", "eq_ref"), (step, sql)
    before = _index_reads()
    found = asked(sql)
    # Each range of a UNION is begun and ended; rows of others may stand between ids.
    assert _index_reads() - before <= 2 * len(found) + 10, sql


def _index_reads() -> int:
    """How many entries of an index this connection has read."""
    reads = dict(asked("SHOW SESSION STATUS LIKE 'Handler_read%'"))
    return sum(int(number) for name, number in reads.items() if "_rnd" not in name)


def _judge_sqlite(sql: str) -> None:
    plan = " ".join(str(step[-1]) for step in asked(f"EXPLAIN QUERY PLAN {sql}"))
    assert "SCAN jobs_job" not in plan, (plan, sql)
    assert "TEMP B-TREE" not in plan, (plan, sql)
