"""What the overview costs: as much however much there is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.common import clock
from apps.jobs.models import JobType
from apps.jobs.services import register
from apps.reports.services import lately
from tests import factories
from tests.frozen import FrozenClock
from tests.jobs import jobs

pytestmark = pytest.mark.django_db


def statements(client: Client, **query: Any) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        client.get(reverse("overview"), query)
    return [each["sql"] for each in queries]


def test_as_many_statements_however_much_there_is(admin_client: Client, scene: FrozenClock) -> None:
    until = lately.closed_until()
    known = str(int(until.timestamp())) if until else ""
    jobs(1)
    few = statements(admin_client)
    refresh = statements(admin_client, known=known)
    now = clock.now()
    JobType.objects.bulk_create(
        [JobType(name=f"type-{n}", created_at=now, updated_at=now) for n in range(60)]
    )
    jobs(300, "type-7")
    for n in range(20):
        register.register(name=f"w{n}", host=f"h{n}", capacity=4)
        factories.group(f"gid_{n}", members=[f"uid_{n}"])

    assert len(statements(admin_client)) == len(few) <= 28
    assert len(statements(admin_client, known=known)) == len(refresh) <= 16


@pytest.mark.django_db(transaction=True)  # ANALYZE TABLE commits
def test_no_statement_reads_jobs_that_are_over(admin_client: Client, scene: FrozenClock) -> None:
    """S4.12: history never slows what is asked every few seconds."""
    jobs(400, status="succeeded", finished_at=clock.now())
    jobs(5, status="failed", finished_at=clock.now())
    jobs(5)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE" if connection.vendor == "sqlite" else "ANALYZE TABLE jobs_job")
        cursor.fetchall()
    asked = [sql for sql in statements(admin_client) if 'FROM "jobs_job"' in sql.replace("`", '"')]
    assert len(asked) >= 3

    for sql in asked:
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute("EXPLAIN QUERY PLAN " + sql.replace("%", "%%"))
                steps = [str(row[-1]) for row in cursor.fetchall()]
                for step in (step for step in steps if "jobs_job" in step):
                    own = r"job_(claim_ready|due_scheduled|lease_running|failed)|id>\? AND id<\?"
                    assert re.search(own, step), steps
            else:
                cursor.execute("EXPLAIN " + sql.replace("%", "%%"))
                columns = [column[0] for column in cursor.description]
                for row in cursor.fetchall():
                    step = dict(zip(columns, row, strict=True))
                    if step["table"] == "jobs_job":
                        assert step["key"] in {"job_claim", "job_due", "PRIMARY"}, step
                        assert step["key"] != "PRIMARY" or step["type"] == "range", step
                        assert "filesort" not in str(step["Extra"]), step
