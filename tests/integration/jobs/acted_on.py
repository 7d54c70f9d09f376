"""Jobs in every state, for tests of what people do to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from apps.jobs.models import ArchivedJob, Job
from apps.jobs.models.job_columns import COLUMNS
from apps.jobs.rules import transitions as t
from apps.journal.models import JournalEntry
from tests import factories

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
WHO: Any = {"actor": "admin:olga", "reason": "The customer called"}


def job_in(status: str, **fields: Any) -> Job:
    """A job in this state, as submitting, holding and settling leave it."""
    if status == t.RUNNING:
        return factories.running_job(**fields)
    if status == t.SCHEDULED:
        return factories.job(delay=timedelta(hours=1), **fields)
    if status == t.READY:
        return factories.job(**fields)
    if status == t.BLOCKED:
        return factories.job(into={"status": status}, **fields)
    ended = {"status": status, "attempts": 3, "holds": 3, "finished_at": NOW, "unique_key": None}
    return factories.job(into={**ended, "lease_token": "t" * 32, "version": 7}, **fields)


def entries(job: Job) -> list[JournalEntry]:
    return list(JournalEntry.objects.timeline("job", job.pk))


def row(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def archived_row(number: int) -> ArchivedJob:
    return ArchivedJob.objects.get(pk=number)


def columns_of(job: Job | ArchivedJob, *without: str) -> dict[str, Any]:
    """What both tables have of a job."""
    return {name: getattr(job, name) for name in COLUMNS if name not in without}
