"""The keys that limited types count by."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.common.fields import KeyField, References
from apps.jobs.models.job_type import MAX_NAME


class KeyState(models.Model):
    """The lock under which the places of a key are counted, and the clock of its rate.

    Nothing is counted here: the status of the jobs is the only truth. `look_at` is when the rate
    allows the next job that is blocked by it, NULL while none is.
    """

    refers_to: ClassVar[References] = {"type": ("jobs.JobType",)}

    limit_id = models.BigIntegerField(primary_key=True)
    type = KeyField(max_length=MAX_NAME)
    clock = models.DateTimeField(null=True)
    look_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["look_at"], name="key_look")]

    def __str__(self) -> str:
        return f"{self.type} {self.limit_id}"
