"""The archive: jobs that ended some time ago, out of the way of those that wait."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.jobs.models.job_columns import JobColumns, JobQuerySet


class ArchivedJob(JobColumns):
    """A job that ended JOB_ARCHIVE_AFTER ago or earlier. It is read, and retried by coming back.

    What a job needs to wait, to be held and to be unique is left behind.
    """

    archive_of: ClassVar[tuple[str, ...]] = ("jobs.Job",)

    archived_at = models.DateTimeField(_("older since"))

    # The fields that only a waiting or running job has: pages and answers read both kinds alike.
    order_key = None
    lease_until = None
    hard_end_at = None
    affinity_host = ""
    affinity_until = None
    cancel_requested = False
    limit_id = None

    objects = JobQuerySet.as_manager()

    class Meta:
        db_table = "jobs_archived"
        verbose_name = _("older job")
        verbose_name_plural = _("older jobs")
        # Who may see and operate jobs may do the same here.
        default_permissions = ()
        indexes = [
            models.Index(fields=["type", "key", "id"], name="archived_type_key"),
            models.Index(fields=["error_key", "type", "id"], name="archived_error"),
        ]
