"""The settings of all jobs of one type: handler, retries, time limits, rates."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField
from apps.common.shaped import TEXTS, ShapedField, misshapen
from apps.jobs.models.scope import JobScope
from apps.jobs.rules import type_snapshot as rules
from apps.jobs.rules.backoff import Backoff
from apps.jobs.rules.breaker import BreakerPolicy
from apps.jobs.rules.key_limit import MAX_PATH, KeyLimit
from apps.jobs.rules.type_settings import SETTINGS
from apps.journal.models import Edited

MAX_NAME = 64

# The titles that types which come with the platform begin with.
BUILT_IN = {
    "Bulk run": _("Bulk run"),
    "Deliveries of alerts": _("Deliveries of alerts"),
    "Echo": _("Echo"),
    "HTTP request": _("HTTP request"),
    "Management command": _("Management command"),
    "Reports that are sent": _("Reports that are sent"),
    "Sleep": _("Sleep"),
    "Start a flow": _("Start a flow"),
}
# How the name and the title of the job type of a queue of Django's Tasks API begin.
QUEUE_PREFIX = "task."
QUEUE_TITLE = "Tasks: "


class JobTypeQuerySet(models.QuerySet["JobType"]):
    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> JobTypeQuerySet:
        """All types, or the ones that an operator is limited to."""
        names = JobScope.names_of(operator)
        return self if names is None else self.filter(name__in=names)


class JobType(Edited):
    """A type of jobs and its settings. An edit applies at the next hold; `version` guards forms.

    `handler` names the function that runs it in-house; empty means that only workers over HTTP do.
    """

    class Lane(models.TextChoices):
        FAST = rules.FAST, _("fast")  # done within seconds
        SLOW = rules.SLOW, _("slow")  # runs apart, so that it never delays fast jobs

    class Unique(models.TextChoices):
        ALLOW = rules.ALLOW, _("when asked for")  # the submitter decides
        ALWAYS = rules.ALWAYS, _("always")  # always one open job per key
        NEVER = rules.NEVER, _("never")  # a submission with unique=true is refused

    class Origin(models.TextChoices):
        NONE = rules.NO_ORIGIN, _("any host")
        PREFER = rules.PREFER_ORIGIN, _("the same host first")

    class Settle(models.TextChoices):
        BATCH = rules.BATCH, _("in batches")  # a result waits some milliseconds for others
        EACH = rules.EACH, _("each at once")  # one commit per result

    # Its name is for ever.
    editable = SETTINGS

    name = KeyField(_("name"), max_length=MAX_NAME, unique=True)
    title = models.CharField(_("title"), max_length=200, blank=True)
    handler = KeyField(_("handler"), max_length=MAX_NAME, blank=True)
    lane = KeyField(_("speed class"), max_length=8, choices=Lane.choices, default=Lane.FAST)
    stages = ShapedField(_("stages"), default=list, blank=True, shape=TEXTS)
    params_schema = models.JSONField(_("schema of the context"), default=dict, blank=True)
    weight = models.PositiveIntegerField(_("weight"), default=1)
    batch_limit = models.PositiveIntegerField(_("jobs per hold"), default=100)
    lease_seconds = models.PositiveIntegerField(_("lease (s)"), default=30)
    max_processing_seconds = models.PositiveIntegerField(_("deadline of a try (s)"), default=900)
    max_attempts = models.PositiveIntegerField(_("tries"), default=3)
    retry_delay_seconds = models.FloatField(_("first retry after (s)"), default=10.0)
    retry_multiplier = models.FloatField(_("multiplier"), default=2.0)
    retry_max_seconds = models.FloatField(_("longest wait (s)"), default=3600.0)
    retry_jitter = models.FloatField(_("jitter"), default=0.1)
    expires_after_seconds = models.PositiveBigIntegerField(
        _("expires after (s)"), null=True, blank=True
    )
    default_priority = models.SmallIntegerField(_("priority"), default=0)
    max_running = models.PositiveIntegerField(_("maximum running"), null=True, blank=True)
    rate_per_minute = models.PositiveIntegerField(_("maximum per minute"), null=True, blank=True)
    limit_by = models.CharField(
        _("limits by"), max_length=MAX_PATH, blank=True, default="", db_default=""
    )
    limit_running = models.PositiveIntegerField(_("at once per key"), null=True, blank=True)
    limit_per_minute = models.PositiveIntegerField(_("per minute per key"), null=True, blank=True)
    limit_burst = models.PositiveIntegerField(_("burst per key"), null=True, blank=True)
    origin = KeyField(_("retries on"), max_length=8, choices=Origin.choices, default=Origin.NONE)
    origin_grace_seconds = models.PositiveIntegerField(_("grace of the same host (s)"), default=60)
    allowed_hosts = ShapedField(_("allowed hosts"), default=list, blank=True, shape=TEXTS)
    pool = models.BooleanField(_("pool"), default=False, db_default=False)
    unique = KeyField(_("unique"), max_length=8, choices=Unique.choices, default=Unique.ALLOW)
    settle = KeyField(_("settle"), max_length=8, choices=Settle.choices, default=Settle.BATCH)
    retention_days = models.PositiveIntegerField(_("kept for (days)"), null=True, blank=True)
    paused = models.BooleanField(_("paused"), default=False)
    pause_reason = models.CharField(_("reason of the pause"), max_length=500, blank=True)
    paused_until = models.DateTimeField(_("paused until"), null=True, blank=True)
    # Who paused the type and since when; set when `paused` changes.
    paused_at = models.DateTimeField(_("paused since"), null=True, editable=False)
    paused_by = models.CharField(
        _("paused by"), max_length=160, blank=True, default="", db_default="", editable=False
    )
    breaker_enabled = models.BooleanField(_("breaker"), default=False)
    breaker_failure_rate = models.FloatField(_("opens at a failure rate of"), default=0.5)
    breaker_window_seconds = models.PositiveIntegerField(_("counted over (s)"), default=60)
    breaker_min_calls = models.PositiveIntegerField(_("minimum tries counted"), default=20)
    breaker_open_seconds = models.PositiveIntegerField(_("stays open (s)"), default=30)

    objects = JobTypeQuerySet.as_manager()

    class Meta:
        verbose_name = _("job type")
        verbose_name_plural = _("job types")
        ordering = ["name"]
        permissions = [("operate_jobtype", _("Can pause and resume job types"))]

    def __str__(self) -> str:
        return self.name

    @property
    def journal_name(self) -> str:
        return self.name

    @property
    def shown_title(self) -> str:
        """The title; one that comes with the platform in the language of the page."""
        if self.name.startswith(QUEUE_PREFIX) and self.title.startswith(QUEUE_TITLE):
            return gettext("Tasks: %s") % self.title.removeprefix(QUEUE_TITLE)
        return str(BUILT_IN.get(self.title, self.title))

    def _duration(self, name: str) -> timedelta:
        """The number of seconds; no more than is allowed, whatever SQL has stored."""
        return timedelta(seconds=min(getattr(self, name), rules.RANGES[name][1]))

    @property
    def snapshot(self) -> rules.TypeSnapshot:
        """Its settings as rules read them; it is paused while some cannot be read."""
        odd = next((value for _field, value in misshapen(self)), None)
        return rules.TypeSnapshot(
            pk=self.pk,
            name=self.name,
            version=self.version,
            handler=self.handler,
            lane=self.lane,
            stages=tuple(self.stages),
            params_schema=self.params_schema,
            weight=self.weight,
            batch_limit=self.batch_limit,
            lease=self._duration("lease_seconds"),
            max_processing=self._duration("max_processing_seconds"),
            max_attempts=self.max_attempts,
            backoff=Backoff(
                delay=self.retry_delay_seconds,
                multiplier=self.retry_multiplier,
                cap=self.retry_max_seconds,
                jitter=self.retry_jitter,
            ),
            expires_after=None
            if self.expires_after_seconds is None
            else self._duration("expires_after_seconds"),
            default_priority=self.default_priority,
            max_running=self.max_running,
            rate_per_minute=self.rate_per_minute,
            key_limit=KeyLimit(
                self.limit_by, self.limit_running, self.limit_per_minute, self.limit_burst
            )
            if self.limit_by
            else None,
            origin=self.origin,
            origin_grace=self._duration("origin_grace_seconds"),
            allowed_hosts=tuple(self.allowed_hosts),
            pool=self.pool,
            # A pool has one open job for each key.
            unique=rules.ALWAYS if self.pool else self.unique,
            settle=self.settle,
            paused=self.paused or odd is not None,
            pause_reason=odd.why if odd else self.pause_reason,
            paused_until=None if odd else self.paused_until,
            paused_at=self.paused_at,
            paused_by=self.paused_by,
            breaker=BreakerPolicy(
                enabled=self.breaker_enabled,
                failure_rate=self.breaker_failure_rate,
                window_seconds=self.breaker_window_seconds,
                min_calls=self.breaker_min_calls,
                open_seconds=self.breaker_open_seconds,
            ),
            is_readable=odd is None,
        )
