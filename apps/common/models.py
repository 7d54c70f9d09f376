"""Leases of processes, what each person has chosen, and the columns of rows that people edit."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField


class NodeLease(models.Model):
    """The right of one process to make ids with this node number."""

    node = models.PositiveSmallIntegerField(primary_key=True)
    token = KeyField(max_length=32)
    leased_until = models.DateTimeField()

    class Meta:
        verbose_name = _("node lease")
        verbose_name_plural = _("node leases")

    def __str__(self) -> str:
        return f"node {self.node}"


class SweepLease(models.Model):
    """The lease of a sweep and its last run.

    `holder` differs in every run; `fence` counts the runs.
    """

    name = KeyField(max_length=64, primary_key=True)
    holder = KeyField(max_length=160, blank=True)
    fence = models.PositiveBigIntegerField(default=0)
    held_until = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)
    position = models.JSONField(null=True)

    class Meta:
        verbose_name = _("sweep")
        verbose_name_plural = _("sweeps")

    def __str__(self) -> str:
        return self.name


class Preference(models.Model):
    """What a person has chosen for all pages; an empty `time_zone` is that of the server."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    time_zone = models.CharField(max_length=64, blank=True)
    shortcuts = models.BooleanField(default=True)

    class Meta:
        verbose_name = _("settings")
        verbose_name_plural = _("settings")
        # Everybody chooses for themselves, on a page of their own.
        default_permissions = ()

    def __str__(self) -> str:
        return self.time_zone or "–"


class Edited(models.Model):
    """What people and programs edit: by whom and when. `version` grows by one with every edit."""

    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(_("created"), editable=False)
    created_by = models.CharField(max_length=160, blank=True, editable=False)
    updated_at = models.DateTimeField(_("changed"), editable=False)
    updated_by = models.CharField(max_length=160, blank=True, editable=False)

    class Meta:
        abstract = True
