"""Locks by which unique jobs with the same key are submitted one after the other."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

UNIQUE_LOCKS = 1024


class UniqueLock(models.Model):
    """A row to lock before a key is taken, on MariaDB/MySQL; keys share locks by hash.

    There a second insert of a uncommitted key locks the gap beside it, and callers deadlock on
    inserts of quite other keys; a primary key that exists is locked alone.
    """

    shard = models.PositiveSmallIntegerField(primary_key=True)

    class Meta:
        verbose_name = _("lock of unique keys")
        verbose_name_plural = _("locks of unique keys")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.pk)
