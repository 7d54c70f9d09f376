"""The items of a pool that one worker holds."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField, References
from apps.common.shaped import NUMBERS, ShapedField
from apps.jobs.models.job_type import MAX_NAME


class Bucket(models.Model):
    """One worker's bucket of one pool; each of its calls locks this row first.

    `job_ids` only says where to look: which of these jobs the worker holds stands in their rows.
    """

    refers_to: ClassVar[References] = {"type": ("jobs.JobType",), "worker": ("jobs.Worker",)}

    type = KeyField(_("type"), max_length=MAX_NAME)
    client = KeyField(_("API key"), max_length=64, blank=True)
    worker = KeyField(_("worker"), max_length=160)
    job_ids = ShapedField(default=list, shape=NUMBERS)
    seen_at = models.DateTimeField(_("last call"))

    class Meta:
        verbose_name = _("bucket")
        verbose_name_plural = _("buckets")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["type", "client", "worker"], name="bucket_owner"),
        ]
        indexes = [
            # The sweep that removes buckets nobody uses any more.
            models.Index(fields=["seen_at"], name="bucket_seen"),
        ]

    def __str__(self) -> str:
        return f"{self.type}/{self.worker}"
