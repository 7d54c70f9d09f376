"""Rollups: what the journal adds up to, by buckets of time."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.common.fields import KeyField, References


class Rollup(models.Model):
    """The ends in one bucket of time, counted for one value of one dimension.

    `start` is in UTC epoch seconds, `level` is the length of the bucket in seconds
    (rules.coverage). `value` is empty for the dimension `all`. A journal entry belongs to the
    bucket in which its id was made, within milliseconds of its `at`. `wait` and `run` are packed
    sketches.
    """

    pk = models.CompositePrimaryKey("level", "source", "dimension", "start", "value")
    level = models.PositiveIntegerField()
    source = KeyField(max_length=8)
    dimension = KeyField(max_length=8)
    start = models.PositiveBigIntegerField()
    value = KeyField(max_length=160, blank=True)
    total = models.PositiveBigIntegerField()
    succeeded = models.PositiveBigIntegerField()
    failed = models.PositiveBigIntegerField()
    retried = models.PositiveBigIntegerField()
    timed_out = models.PositiveBigIntegerField()
    expired = models.PositiveBigIntegerField()
    released = models.PositiveBigIntegerField()
    cancelled = models.PositiveBigIntegerField()
    stage_done = models.PositiveBigIntegerField()
    wait = models.BinaryField()
    run = models.BinaryField()

    class Meta:
        verbose_name = _("total")
        verbose_name_plural = _("totals")
        indexes = [
            # One value through time.
            models.Index(
                fields=["level", "source", "dimension", "value", "start"], name="rollup_value"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.dimension} {self.value} {self.level} s from {self.start}"


class RollupBucket(models.Model):
    """A bucket of time whose rollups are stored, with the journal entries and hand-outs counted.

    It is written with its rollups in one transaction. Rollups without their bucket are not read.
    """

    pk = models.CompositePrimaryKey("level", "start")
    level = models.PositiveIntegerField()
    start = models.PositiveBigIntegerField()
    entries = models.PositiveBigIntegerField()
    handed_out = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name = _("rollup bucket")
        verbose_name_plural = _("rollup buckets")

    def __str__(self) -> str:
        return f"{self.level} s from {self.start}"


class ErrorGroup(models.Model):
    """One error of a job type or task; texts that differ only in numbers are the same error.

    `first_entry` and `last_entry` are journal ids, which contain their instants. `sample` and
    `subject_id` (of a job or dispatch) belong to the last one.
    """

    refers_to: ClassVar[References] = {"last_entry": ("journal.JournalEntry",)}

    source = KeyField(max_length=8)
    type_or_task = KeyField(max_length=128)
    error_key = KeyField(max_length=32)
    first_entry = models.BigIntegerField()
    last_entry = models.BigIntegerField()
    subject_id = models.BigIntegerField()
    sample = models.CharField(max_length=500)

    class Meta:
        verbose_name = _("error")
        verbose_name_plural = _("errors")
        constraints = [
            models.UniqueConstraint(
                fields=["error_key", "type_or_task", "source"], name="error_group_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type_or_task}: {self.sample}"


class Problem(models.Model):
    """The last remark of a person about a problem (see State), or that the problem is new again.

    `kind` and `key` name the problem: of a trouble the key of the watch and the subject, of an
    error `error` and its key. A snooze ends at `until`. `first_seen` and `changed_at` are the times
    of the first and the last remark; `last_seen` is that of the last remark or return.
    """

    class State(models.TextChoices):
        NEW = "new", pgettext_lazy("problem", "new")
        SEEN = "seen", pgettext_lazy("problem", "seen")
        SNOOZED = "snoozed", _("snoozed")
        SOLVED = "solved", pgettext_lazy("problem", "solved")

    MAX_NOTE = 500

    kind = KeyField(max_length=32)
    key = KeyField(max_length=200)
    state = KeyField(max_length=8, choices=State.choices, default=State.NEW, db_default=State.NEW)
    by = models.CharField(max_length=160, blank=True, default="", db_default="")
    note = models.CharField(max_length=MAX_NOTE, blank=True, default="", db_default="")
    until = models.DateTimeField(null=True)
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        verbose_name = _("problem")
        verbose_name_plural = _("problems")
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["key", "kind"], name="problem_once")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.key}"


class StandingMinute(models.Model):
    """How things stood at the beginning of a minute (`start`, epoch seconds): jobs waiting,
    dispatches open, people silent with work in hand and troubles, each counted up to a limit."""

    start = models.PositiveBigIntegerField(primary_key=True)
    waiting = models.PositiveIntegerField(default=0, db_default=0)
    open = models.PositiveIntegerField(default=0, db_default=0)
    silent = models.PositiveIntegerField(default=0, db_default=0)
    troubles = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        verbose_name = _("minute of the standing")
        verbose_name_plural = _("minutes of the standing")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.start}"
