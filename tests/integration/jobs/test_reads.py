"""S1.3, S1.20, S1.21, S2.13, I48-I50: hot queries read what they return and no other row, and pages
over REST no more than they may."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.common import clock
from apps.jobs.api import jobs as view
from apps.jobs.models import Job
from apps.jobs.services import admission
from apps.jobs.services.counts import starving
from apps.jobs.services.hold import due_types
from apps.jobs.services.promote import promote_due
from apps.jobs.services.rescue import rescue_due
from apps.jobs.services.type_snapshots import type_snapshots
from tests.jobs import job_type, jobs, take
from tests.statements import analyze, asked, explained, index_reads, other_reads, sent_by, steps_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

# ANALYZE commits on MariaDB.

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


@pytest.mark.mariadb
def test_admission_reads_no_job_that_has_ended() -> None:
    """Whatever the planner believes of rows that change their state all the time: of keys whose
    jobs were blocked when it counted them, and have ended since, or the other way round."""
    job_type(limit_by="key", limit_running=2)
    keys = range(1, 101)
    numbers = [jobs(243, status="blocked", limit_id=key) for key in keys]
    analyze(Job)
    ended = [number for some in numbers for number in some[:200]]
    Job.objects.filter(pk__in=ended).update(status="succeeded", finished_at=clock.now())
    for _ in range(2):
        before = index_reads() + other_reads()
        statements = sent_by(lambda: admission.admit(dict.fromkeys(keys, "mail")))
        assert index_reads() + other_reads() - before < 30 * len(keys)
        found = [sql for sql in statements if sql.startswith("SELECT") and _reads_jobs(sql)]
        assert len(found) >= 2
        for sql in found:
            steps = [step for step in steps_of(sql) if step["table"] in ("jobs_job", "j")]
            assert {step["key"] for step in steps} == {"job_limit"}, sql
        Job.objects.filter(status="ready").update(status="cancelled", finished_at=clock.now())
        analyze(Job)
    assert Job.objects.filter(status="cancelled").count() == 2 * 2 * len(keys)


EXAMINED = 300
LIMIT = 10


@pytest.fixture
def long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of jobs of two types, most of them ended."""
    monkeypatch.setattr(view, "MAX_EXAMINED", EXAMINED)
    for name in ("bill", "mail"):
        job_type(name)
        jobs(4000, name, status="succeeded", finished_at=clock.now())
        jobs(1000, name, status="failed", finished_at=clock.now())
        jobs(1000, name)
    jobs(2000, "mail", key="daily")
    analyze(Job)


FILTERS: list[dict[str, Any]] = [
    {"type": "mail"},
    {"type": "unheard-of"},
    {"type": "mail", "key": "order-1"},
    {"type": "mail", "key": "daily", "user_id": "uid_alice"},
    *({"status": status} for status in ("scheduled", "ready", "running", "succeeded", "failed")),
    {"type": "bill", "status": "ready"},
    {"key": "order-1"},
    {"user_id": "uid_alice"},
    {"worker": "host-a:1"},
    {"host": "host-a"},
    {"stage": "two"},
    {"memo": "timeout"},
    {"where": "context.order.city:x"},
    {"where": "context.order.city:x", "type": "mail", "key": "daily"},
    {"finished_after": "2100-01-01T00:00:00Z"},
    {"finished_before": "1999-01-01T00:00:00Z"},
    {"finished_before": "2100-01-01T00:00:00Z", "status": "failed"},
    {"created_after": "2100-01-01T00:00:00Z"},
]


@pytest.mark.mariadb
def test_page_reads_a_bounded_number_of_rows(long_list: None, api: Any) -> None:
    api.get("/api/v1/jobs/", limit=LIMIT)
    for query in FILTERS:
        before = index_reads() + other_reads()

        answer = api.get("/api/v1/jobs/", limit=LIMIT, **query)

        read = index_reads() + other_reads() - before
        assert answer.status_code == 200, answer.content
        # Twice to find where to stop, once more where texts are masked, once to filter, and what
        # belongs to the request itself.
        assert read <= (4 if "memo" in query else 3) * EXAMINED + 60, (read, query)
    # Filtered by a time of creation, the examined jobs are those of that time.
    jobs(5, "mail", user_id="uid_alice")
    since = (clock.now() - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = api.get("/api/v1/jobs/", user_id="uid_alice", created_after=since)
    assert len(answer.json()["results"]) == 5
