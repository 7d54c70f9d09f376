"""Whose turn it is to submit unique jobs with certain keys."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

UNIQUE_SLOTS = 1024


class UniqueSlot(models.Model):
    """A row to lock before a key is taken, on MariaDB/MySQL; keys share slots by hash.

    There a second insert of a uncommitted key locks the gap beside it, and callers deadlock on
    inserts of quite other keys; a primary key that exists is locked alone.
    """

    slot = models.PositiveSmallIntegerField(primary_key=True)

    class Meta:
        verbose_name = _("slot of unique keys")
        verbose_name_plural = _("slots of unique keys")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.pk)
