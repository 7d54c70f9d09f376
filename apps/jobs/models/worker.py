"""The processes that hold jobs."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.common.fields import KeyField
from apps.common.shaped import COUNTS, TEXTS, ShapedField


class Worker(models.Model):
    """One process; alive while its heartbeat is.

    `client` is the API key of a worker over HTTP, "" in-house; names are unique for each.
    `promises_beats`: it has registered, so silence means that it is lost; other workers over HTTP
    are there while they call. With `is_quiet` it takes nothing new until an operator resumes it.
    `node` is the Celery worker that the process belongs to, `machine` is equal for all processes
    that can see each other's process ids. `types` are those it has handlers for, `drains` counts
    its drains per lane, and `capacity` is how many of them it can run at once.
    """

    class Kind(models.TextChoices):
        CELERY = "celery", _("in-house")  # runs handlers from the table
        HTTP = "http", _("over HTTP")  # holds and settles by REST

    class State(models.TextChoices):
        ACTIVE = "active", pgettext_lazy("worker", "active")  # takes work
        DRAINING = "draining", _("stopping")  # ends what it has, takes nothing new
        GONE = "gone", _("offline")  # left, or was lost

    client = KeyField(_("API key"), max_length=64, blank=True, default="", db_default="")
    name = KeyField(_("name"), max_length=160)
    host = KeyField(_("host"), max_length=128)
    node = KeyField(max_length=120, blank=True, editable=False)
    machine = KeyField(max_length=8, blank=True, editable=False)
    pid = models.PositiveIntegerField(_("process"), default=0)
    kind = KeyField(_("kind"), max_length=8, choices=Kind.choices, default=Kind.CELERY)
    state = KeyField(_("state"), max_length=12, choices=State.choices, default=State.ACTIVE)
    lanes = ShapedField(_("speed classes"), default=list, shape=TEXTS)
    types = ShapedField(_("types"), default=list, shape=TEXTS)
    capacity = models.PositiveIntegerField(_("capacity"), default=1)
    drains = ShapedField(_("worker loops"), default=dict, shape=COUNTS)
    running = models.PositiveIntegerField(_("running"), default=0)
    promises_beats = models.BooleanField(_("sends heartbeats"), default=True, db_default=True)
    is_quiet = models.BooleanField(_("takes nothing new"), default=False, db_default=False)
    version = models.CharField(_("version"), max_length=64, blank=True)
    started_at = models.DateTimeField(_("started"))
    last_heartbeat_at = models.DateTimeField(_("last heartbeat"))

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        constraints = [
            models.UniqueConstraint(fields=["client", "name"], name="worker_client_name"),
        ]
        indexes = [
            # Live workers, and the hosts that a retry may wait for.
            models.Index(fields=["state", "last_heartbeat_at"], name="worker_alive"),
        ]

    def __str__(self) -> str:
        return self.name
