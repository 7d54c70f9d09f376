"""How the archive of jobs rolls."""

from __future__ import annotations

from datetime import datetime

from apps.common.db import transactional
from apps.common.rolling import RollingArchive
from apps.jobs.conf import conf
from apps.jobs.models import ArchivedJob
from apps.jobs.services import archive, job_log
from apps.jobs.services.parts import parts
from apps.jobs.services.retention import FORGOTTEN
from apps.journal import services as journal


def _forget(jobs: int, partition: str, now: datetime) -> None:
    # Some at a time, because they are in no partition.
    job_log.forget_of_partition(partition)
    _record(jobs, partition, now)


@transactional
def _record(jobs: int, partition: str, now: datetime) -> None:
    journal.note(FORGOTTEN, {"archived_jobs": jobs, "partition": partition}, at=now)


ROLLING = RollingArchive(
    ArchivedJob,
    rows="older jobs",
    sweep="jobs.roll",
    mover=archive.SWEEP,
    retention=lambda: conf.JOB_RETENTION,
    record=_forget,
    is_needed=parts.is_kept_among,
)
