"""S2.13, S1.21: a page of jobs over REST reads no more than it may, whatever is filtered for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.jobs.api import jobs as view
from apps.jobs.models import Job
from tests.jobs import job_type, jobs
from tests.statements import analyze, index_reads, other_reads

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]

EXAMINED = 300
LIMIT = 10


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of jobs of two types, most of them ended."""
    monkeypatch.setattr(view, "MAX_EXAMINED", EXAMINED)
    for name in ("bill", "mail"):
        job_type(name)
        jobs(4000, name, status="succeeded", finished_at=clock.now())
        jobs(1000, name, status="failed", finished_at=clock.now())
        jobs(1000, name)
    jobs(2000, "mail", key="daily")
    analyze(Job)


QUERIES: list[dict[str, Any]] = [
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


def test_page_reads_a_bounded_number_of_rows(crowd: None, api: Any) -> None:
    api.get("/api/v1/jobs/", limit=LIMIT)
    for query in QUERIES:
        before = index_reads() + other_reads()

        answer = api.get("/api/v1/jobs/", limit=LIMIT, **query)

        read = index_reads() + other_reads() - before
        assert answer.status_code == 200, answer.content
        # Twice to find where to stop, once to filter, and what belongs to the request itself.
        assert read <= 3 * EXAMINED + 60, (read, query)
    # Filtered by a time of creation, the examined jobs are those of that time.
    jobs(5, "mail", user_id="uid_alice")
    since = (clock.now() - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = api.get("/api/v1/jobs/", user_id="uid_alice", created_after=since)
    assert len(answer.json()["results"]) == 5
