"""Schedules, which make jobs by a rule, and the runs that they have made."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import ClassVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.errors import Invalid
from apps.common.fields import KeyField, References, default_time_zone
from apps.common.messages import Message
from apps.common.shaped import ShapedField
from apps.common.zones import known_zone
from apps.dispatch.models import RotateTask
from apps.dispatch.rules.recurrence import Recurrence, Unreadable, stored_series
from apps.dispatch.rules.summary import summary
from apps.jobs.handlers import registry
from apps.jobs.models import JobScope
from apps.jobs.models.job_type import MAX_NAME
from apps.journal.models import Edited, Source
from apps.schedules.rules import occurrences, trouble
from apps.schedules.rules.limits import MAX_TITLE

MAX_WHY = 500


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> ScheduleQuerySet:
        """The schedules of people, or the ones of the job types that an operator is limited to."""
        return self.within(JobScope.names_of(operator))

    def within(self, types: Collection[str] | None) -> ScheduleQuerySet:
        """The schedules that make jobs of these types; None for all. Those of the platform's own
        types have pages in words of their own."""
        found = self.exclude(job_type__in=registry.system_types())
        return found if types is None else found.filter(job_type__in=types)

    def not_deleted(self) -> ScheduleQuerySet:
        """The schedules that are not deleted."""
        return self.exclude(status=Schedule.Status.DELETED)


class Schedule(Edited):
    """Makes one job of a type at each occurrence of its rule; without a rule once, at the start.

    active ⇄ paused; active, paused → deleted. `next_at` is the first occurrence that the sweep has
    not dealt with, and none before it is made; NULL while there is none, or none is to be made. An
    edit of the rule, a resume, or a later end of what had ended sets it to the first from then on,
    so none of them makes a past. `last_job` is the job made last; `trouble` is what its last runs
    say of it.
    """

    Misfire = RotateTask.Misfire

    class Overlap(models.TextChoices):
        ALLOW = occurrences.ALLOW, _("allow: make the next job all the same")
        SKIP = occurrences.SKIP_OPEN, _("skip: make none while one of its jobs is open")

    class Status(models.TextChoices):
        ACTIVE = "active", _("active")  # makes jobs
        PAUSED = "paused", _("paused")  # kept, makes none
        DELETED = "deleted", _("deleted")  # kept for its history only

    class Trouble(models.TextChoices):
        NONE = trouble.NONE, _("none")
        UNMADE = trouble.UNMADE, _("last run made no job")
        FAILING = trouble.FAILING, _("last three jobs failed")

    journal_source = Source.SCHEDULE
    # An edit of these means another series.
    rule_fields = ("rule", "time_zone", "start_at")

    refers_to: ClassVar[References] = {"job_type": ("jobs.JobType",), "last_job": ("jobs.Job",)}

    title = models.CharField(_("title"), max_length=MAX_TITLE)
    job_type = KeyField(_("job type"), max_length=MAX_NAME)
    context = ShapedField(_("context"), default=dict, blank=True)
    priority = models.SmallIntegerField(
        _("priority"),
        null=True,
        blank=True,
        help_text=_("-100 to 100, higher goes first. Empty: the type's."),
    )
    max_attempts = models.PositiveIntegerField(
        _("maximum tries"), null=True, blank=True, help_text=_("Empty: the type's.")
    )
    rule = models.JSONField(_("rule"), null=True, blank=True)
    time_zone = KeyField(_("time zone"), max_length=64, default=default_time_zone)
    start_at = models.DateTimeField(_("start"))
    end_at = models.DateTimeField(_("end"), null=True, blank=True)
    misfire = KeyField(
        _("missed runs"), max_length=8, choices=Misfire.choices, default=Misfire.SKIP
    )
    misfire_limit = models.PositiveSmallIntegerField(
        _("runs to catch up"), default=10, help_text=_("Only for “all”.")
    )
    overlap = KeyField(
        _("overlap"),
        max_length=8,
        choices=Overlap.choices,
        default=Overlap.ALLOW,
        help_text=_("Whether a run begins while an earlier job of the schedule is open."),
    )
    status = KeyField(
        _("status"), max_length=8, choices=Status.choices, default=Status.ACTIVE, editable=False
    )
    next_at = models.DateTimeField(_("next run"), null=True, editable=False)
    last_job = models.BigIntegerField(_("last job"), null=True, editable=False)
    trouble = KeyField(
        _("trouble"),
        max_length=8,
        choices=Trouble.choices,
        default=Trouble.NONE,
        db_default=Trouble.NONE,
        blank=True,
        editable=False,
    )

    objects: ClassVar[ScheduleQuerySet] = ScheduleQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        permissions = [("view_payload", _("Can see contexts of schedules"))]
        indexes = [
            # The sweep: due schedules, the earliest first.
            models.Index(fields=["status", "next_at"], name="schedule_due"),
            # Schedules in trouble.
            models.Index(fields=["trouble"], name="schedule_trouble"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(end_at=None) | Q(end_at__gt=F("start_at")), name="schedule_ends_later"
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def subject(self) -> str:
        """Its name in the journal and on its jobs: `schedule:7`."""
        return f"schedule:{self.pk}"

    @property
    def journal_name(self) -> str:
        return self.subject

    def key_of(self, occurrence: int) -> str:
        """The key of the job of an occurrence."""
        return f"{self.subject}@{occurrence}"

    @cached_property
    def recurrence(self) -> Recurrence:
        """When it is due; never when the rule cannot be read."""
        rule, zone = None, known_zone(self.time_zone)
        if self.rule is not None:
            rule, zone = stored_series(self.rule, self.time_zone)
        return occurrences.recurrence_of(
            rule=rule,
            zone=zone,
            start_at=self.start_at,
            end_at=self.end_at,
        )

    @property
    def summary(self) -> Message:
        """The rule in plain words."""
        if self.rule is None:
            return Message("once")
        return summary(self.recurrence.rule, self.time_zone)

    def due(self, now: datetime, until: datetime) -> occurrences.Due:
        """The occurrences to make at `now`, up to `until` ahead; `next_at` must be set. Invalid
        when the rule cannot be read."""
        if isinstance(self.recurrence.rule, Unreadable):
            raise Invalid(self.recurrence.rule.why)
        assert self.next_at is not None  # noqa: S101
        return occurrences.due(
            self.recurrence,
            since=self.next_at,
            now=now,
            until=until,
            misfire=self.misfire,
            misfire_limit=self.misfire_limit,
        )

    def next_due(self, limit: int = 10) -> list[datetime]:
        """The next instants at which it makes a job; none unless it is active."""
        if self.next_at is None:
            return []
        return [*islice(self.recurrence.after(max(clock.now(), self.next_at)), limit)]


class ScheduleRun(models.Model):
    """The result of one occurrence: its job, or why none was made.

    `occurrence` is the UTC second, 0 for a schedule without a rule, and minus the number of the job
    for a run that a person began. `outcome` is open until it is noted how the job ended.
    """

    refers_to: ClassVar[References] = {"job": ("jobs.Job",)}

    schedule = models.ForeignKey(
        Schedule, models.PROTECT, related_name="runs", verbose_name=_("schedule")
    )
    occurrence = models.BigIntegerField(_("occurrence"))
    at = models.DateTimeField(_("planned for"))
    job = models.BigIntegerField(_("job"), null=True)
    why = models.CharField(_("why not"), max_length=MAX_WHY, blank=True)
    # One of rules.trouble.
    outcome = KeyField(
        max_length=12, default=trouble.OPEN, db_default=trouble.OPEN, blank=True, editable=False
    )

    class Meta:
        verbose_name = _("schedule run")
        verbose_name_plural = _("schedule runs")
        default_permissions = ("view",)
        indexes = [
            # Runs whose jobs have not ended.
            models.Index(fields=["outcome", "id"], name="schedule_run_open"),
            # Runs of one schedule; the run of a job that goes on after its end.
            models.Index(fields=["schedule", "outcome"], name="schedule_run_outcome"),
            models.Index(fields=["job"], name="schedule_run_job"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["schedule", "occurrence"], name="schedule_run_once"),
        ]

    def __str__(self) -> str:
        return f"schedule:{self.schedule_id}@{self.occurrence}"

    @property
    def by_hand(self) -> bool:
        """Whether a person or program began it, and not the rule."""
        return self.occurrence < 0
