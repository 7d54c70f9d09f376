"""The answers to requests of clients over HTTP that may be repeated."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField
from apps.common.shaped import NUMBERS, ShapedField


class Hold(models.Model):
    """The jobs that one request has held, until the last of their leases ends, or the `answer` to
    a submission: the number of each job, whether it was made, and its state.

    It is written with them, so a request whose answer was lost gets the same jobs again. `body_key`
    is the hash of what was asked: another request under the same id is a conflict.
    """

    client = KeyField(max_length=64)
    request_id = KeyField(max_length=64)
    body_key = KeyField(max_length=32)
    token = KeyField(max_length=32)
    job_ids = ShapedField(default=list, shape=NUMBERS)
    # Always false; programs of the version before read and write it while an update is under way.
    is_alone = models.BooleanField(default=False)
    answer = models.JSONField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        verbose_name = _("hold")
        verbose_name_plural = _("holds")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["client", "request_id"], name="hold_request"),
        ]
        indexes = [
            # The sweep that removes rows whose time is over.
            models.Index(fields=["expires_at"], name="hold_expiry"),
        ]

    def __str__(self) -> str:
        return self.request_id
