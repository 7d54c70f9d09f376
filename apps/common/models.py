"""Leases of processes, and the settings, views and forms of each person."""

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


class SentForm(models.Model):
    """A form that has made something: its number, and the key of the row if it was one."""

    number = models.BigIntegerField(primary_key=True)
    row = models.BigIntegerField(null=True)
    sent_at = models.DateTimeField()

    class Meta:
        verbose_name = _("sent form")
        verbose_name_plural = _("sent forms")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.number)


class Preference(models.Model):
    """The settings of a person for all pages; an empty `time_zone` is that of the server."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    time_zone = models.CharField(max_length=64, blank=True)
    shortcuts = models.BooleanField(default=True, db_default=True)

    class Meta:
        verbose_name = _("settings")
        verbose_name_plural = _("settings")
        # Everybody chooses for themselves, on a page of their own.
        default_permissions = ()

    def __str__(self) -> str:
        return self.time_zone or "–"


class SavedView(models.Model):
    """A list as somebody likes to see it: the part of its address after the `?`.

    `list` is what the admin calls the list (`jobs_job`). Whoever opens a shared view sees the rows
    that they may see.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    list = KeyField(max_length=64)
    title = models.CharField(_("title"), max_length=60)
    query = models.CharField(max_length=2000)
    shared = models.BooleanField(_("shared"), default=False)
    is_default = models.BooleanField(_("default"), default=False)

    class Meta:
        verbose_name = _("view of a list")
        verbose_name_plural = _("views of lists")
        # Everybody keeps their own.
        default_permissions = ()
        permissions = [("share_savedview", _("Can share views of lists"))]
        constraints = [
            models.UniqueConstraint(fields=["owner", "list", "title"], name="saved_view_once"),
        ]
        indexes = [
            # The views of a list that others share.
            models.Index(fields=["list", "shared"], name="saved_view_shared"),
        ]

    def __str__(self) -> str:
        return self.title
