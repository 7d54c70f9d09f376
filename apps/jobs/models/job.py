"""The jobs that may still move: open ones, and those that ended lately."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField
from apps.common.indexes import VendorIndex
from apps.jobs.models.job_columns import JobColumns, JobQuerySet
from apps.jobs.models.job_type import MAX_NAME
from apps.jobs.rules import transitions
from apps.jobs.rules.submission import MAX_KEY


class Job(JobColumns):
    """A job until JOB_ARCHIVE_AFTER after its end; then it is an ArchivedJob.

    `lease_token` is the right to write; it stays after the attempt, so that a repeated report is
    known. `unique_key` keeps other jobs of its type and key out; it is NULL once the job is final,
    unless it is `unique_for` longer: then whoever wants the key afterwards takes it.
    """

    unique_key = KeyField(  # type: ignore[misc]
        max_length=MAX_NAME + 1 + MAX_KEY, null=True, unique=True, editable=False
    )
    order_key = models.BigIntegerField(_("order"))
    lease_token = KeyField(max_length=32, blank=True, editable=False)
    lease_until = models.DateTimeField(_("lease until"), null=True)
    hard_end_at = models.DateTimeField(_("deadline of the try"), null=True)
    affinity_host = KeyField(_("only on host"), max_length=128, blank=True)
    affinity_until = models.DateTimeField(_("only there until"), null=True)
    cancel_requested = models.BooleanField(_("cancel requested"), default=False)
    # Of a type that limits its jobs by key: the number of the key (rules/key_limit).
    limit_id = models.BigIntegerField(null=True, editable=False)

    # An attribute of every job; only archived jobs have a value.
    archived_at = None

    objects = JobQuerySet.as_manager()

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        indexes = [
            # A business key's jobs, newest last.
            models.Index(fields=["type", "key", "id"], name="job_type_key"),
            # Hold: ready jobs, in the order in which they are taken.
            VendorIndex(
                fields=["status", "type", "affinity_host", "order_key", "id"],
                name="job_claim",
                vendors=("mysql",),
            ),
            VendorIndex(
                fields=["type", "affinity_host", "order_key", "id"],
                name="job_claim_ready",
                condition=Q(status=transitions.READY),
                vendors=("sqlite",),
            ),
            # Promotion: jobs that wait for their time, the earliest first.
            VendorIndex(fields=["status", "run_at", "id"], name="job_due", vendors=("mysql",)),
            VendorIndex(
                fields=["run_at", "id"],
                name="job_due_scheduled",
                condition=Q(status=transitions.SCHEDULED),
                vendors=("sqlite",),
            ),
            # The places of a key, and who is next to get one. Only limited jobs have a key.
            VendorIndex(
                fields=["limit_id", "status", "order_key", "id"],
                name="job_limit",
                vendors=("mysql",),
            ),
            VendorIndex(
                fields=["limit_id", "status", "order_key", "id"],
                name="job_limit_keyed",
                condition=Q(limit_id__isnull=False),
                vendors=("sqlite",),
            ),
            VendorIndex(
                fields=["type", "affinity_host", "order_key"],
                name="job_blocked",
                condition=Q(status=transitions.BLOCKED),
                vendors=("sqlite",),
            ),
            # What went wrong in the same way. Most jobs have no key: theirs are appended in order.
            models.Index(fields=["error_key", "type", "id"], name="job_error"),
            # Rescue: whose lease is over. NULL unless running.
            VendorIndex(fields=["lease_until"], name="job_lease", vendors=("mysql",)),
            VendorIndex(
                fields=["lease_until"],
                name="job_lease_running",
                condition=Q(status=transitions.RUNNING),
                vendors=("sqlite",),
            ),
            # Counts and lists the failed; for others the index of claims does.
            VendorIndex(
                fields=["type", "id"],
                name="job_failed",
                condition=Q(status=transitions.FAILED),
                vendors=("sqlite",),
            ),
        ]
        permissions = [
            ("operate_job", _("Can cancel, retry, run and edit jobs")),
            ("override_job", _("Can mark jobs done and cancel by force")),
            ("view_payload", _("Can see contexts, checkpoints and results")),
        ]
