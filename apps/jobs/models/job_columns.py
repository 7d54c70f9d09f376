"""The columns that a job has all its life, whichever table it is in."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField, References
from apps.jobs.models.bounds import Bounds
from apps.jobs.models.job_type import MAX_NAME
from apps.jobs.models.scope import bounds_of
from apps.jobs.rules import transitions
from apps.jobs.rules.submission import MAX_KEY


class JobQuerySet(models.QuerySet[Any]):
    def within(self, bounds: Bounds) -> JobQuerySet:
        """The jobs that somebody with these bounds may reach."""
        return self.filter(bounds.condition())

    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> JobQuerySet:
        """All jobs, or the ones within the limits of an operator."""
        bounds = bounds_of(operator)
        return self if bounds.are_open else self.within(bounds)


class JobColumns(models.Model):
    """One retryable unit of work of a type. The arrows between its states: rules/transitions.py.

    `run_at` is when it may run next, `expected_at` when a person or program last wanted it to.
    `attempts` counts the holds of the present stage since the last operator's retry, `holds` all.
    `error_key` is that of the journal for what went wrong last, until an attempt ends well.
    `client` is the API key whose worker held it last, "" for a worker in-house.
    `parent` is the job that submitted it with its end, `depth` how many led to it in this way; NULL
    for most.
    `unique_for` is for how many seconds after its end a unique job keeps its key, NULL for none.
    `together` is the first of the jobs that one submission made everywhere; NULL for others.
    `part_of` is the number of what it is part of, known to an app above; NULL for most. It has no
    index: the jobs of one part are a range of numbers.
    `version` grows by one with every change of state or setting.
    """

    class Status(models.TextChoices):
        SCHEDULED = transitions.SCHEDULED, _("scheduled")  # waits for its time
        BLOCKED = transitions.BLOCKED, _("blocked")  # waits for a free place of its key
        READY = transitions.READY, _("ready")  # may run now
        RUNNING = transitions.RUNNING, _("running")  # held by a worker under a lease
        SUCCEEDED = transitions.SUCCEEDED, _("succeeded")
        FAILED = transitions.FAILED, _("failed")  # will not be tried again by itself
        CANCELLED = transitions.CANCELLED, _("cancelled")  # a person or program took it back

    class End(models.TextChoices):
        NONE = "", _("none yet")
        SUCCEEDED = transitions.END_SUCCEEDED, _("succeeded")
        FAILED = transitions.END_FAILED, _("failed")
        TIMED_OUT = transitions.END_TIMED_OUT, _("timed out")  # past its deadline
        LOST = transitions.END_LOST, _("offline")  # its worker died or its lease ended
        STAGE_DONE = transitions.END_STAGE_DONE, _("stage done")
        RELEASED = transitions.END_RELEASED, _("released")
        YIELDED = transitions.END_YIELDED, _("yielded")  # its worker put it off
        INTERRUPTED = transitions.END_INTERRUPTED, _("interrupted")  # its worker stopped
        CANCELLED = transitions.END_CANCELLED, _("cancelled")

    refers_to: ClassVar[References] = {
        "type": ("jobs.JobType",),
        "parent": ("jobs.Job",),
        "together": ("jobs.Job",),
    }

    id = models.BigIntegerField(_("number"), primary_key=True)
    type = KeyField(_("type"), max_length=MAX_NAME)
    key = KeyField(_("key"), max_length=MAX_KEY, blank=True)
    is_unique = models.BooleanField(_("unique"), default=False)
    user_id = KeyField(_("user"), max_length=128, blank=True)
    context = models.JSONField(_("context"), default=dict)
    stage = KeyField(_("stage"), max_length=64, blank=True)
    status = KeyField(_("status"), max_length=12, choices=Status.choices)
    shard = models.PositiveSmallIntegerField(_("shard"), default=0)
    priority = models.SmallIntegerField(_("priority"), default=0)
    run_at = models.DateTimeField(_("next run"))
    expected_at = models.DateTimeField(_("scheduled for"))
    attempts = models.PositiveIntegerField(_("tries"), default=0)
    max_attempts = models.PositiveIntegerField(_("maximum tries"))
    holds = models.PositiveIntegerField(_("all tries"), default=0)
    last_end = KeyField(_("end of the last try"), max_length=12, choices=End.choices, blank=True)
    held_at = models.DateTimeField(_("held"), null=True)
    worker = KeyField(_("worker"), max_length=160, blank=True)
    client = KeyField(_("API key"), max_length=64, blank=True, default="", db_default="")
    host = KeyField(_("host"), max_length=128, blank=True)
    checkpoint = models.JSONField(_("checkpoint"), null=True)
    sequence = models.PositiveBigIntegerField(_("checkpoint number"), default=0)
    progress = models.PositiveSmallIntegerField(_("progress (%)"), null=True)
    memo = models.TextField(_("last error"), blank=True)
    result = models.JSONField(_("result"), null=True)
    error_key = KeyField(_("error key"), max_length=32, blank=True)
    trace_id = KeyField(_("trace"), max_length=64, blank=True)
    submitted_by = models.CharField(_("submitted by"), max_length=160, blank=True)
    parent = models.BigIntegerField(_("submitted with the end of"), null=True)
    depth = models.PositiveSmallIntegerField(_("depth"), null=True)
    unique_for = models.PositiveIntegerField(_("unique for (s)"), null=True)
    together = models.BigIntegerField(_("submitted together with"), null=True)
    part_of = models.BigIntegerField(_("part of"), null=True)
    version = models.PositiveIntegerField(_("version"), default=1)
    created_at = models.DateTimeField(_("created"))
    started_at = models.DateTimeField(_("started"), null=True)
    finished_at = models.DateTimeField(_("finished"), null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def percent(self) -> int | None:
        """Progress in per cent; None when the handler reports none."""
        is_through = self.progress is not None and self.status == transitions.SUCCEEDED
        return 100 if is_through else self.progress

    @property
    def is_final(self) -> bool:
        return self.status in transitions.FINAL


COLUMNS = tuple(field.attname for field in JobColumns._meta.local_fields)
