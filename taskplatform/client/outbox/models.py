"""The one table of the outbox."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _


class OutgoingJob(models.Model):
    """A job that is not on the server yet.

    waiting → in a request → deleted, when the server has it
    waiting → in a request → refused, with an error, → waiting, or discarded

    Rows of one `request_id` are sent together, always the same ones and unchanged, so that the
    server knows a repeat. `claimed_until` keeps other senders from repeating it while one is at it;
    `tried_at` is when it was sent first.
    """

    type = models.CharField(_("type"), max_length=255)
    key = models.CharField(_("key"), max_length=255, blank=True)
    body = models.TextField(_("job"))
    created_at = models.DateTimeField(_("written"), auto_now_add=True)
    request_id = models.CharField(_("request"), max_length=64, blank=True, default="")
    claimed_until = models.DateTimeField(null=True, editable=False)
    tried_at = models.DateTimeField(_("first sent"), null=True)
    refused_at = models.DateTimeField(_("refused"), null=True)
    error = models.TextField(_("reason"), blank=True, default="")

    objects: models.Manager[Any] = models.Manager()

    class Meta:
        verbose_name = _("job to be sent")
        verbose_name_plural = _("jobs to be sent")
        indexes = [
            # What waits in its order, and which requests are to be repeated.
            models.Index(fields=["refused_at", "request_id", "id"], name="outbox_waiting"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.key}".strip()
