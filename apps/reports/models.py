"""What the journal adds up to, in stretches of time."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField


class Rollup(models.Model):
    """What ended in one stretch of time, of one value of one dimension.

    Starts are UTC epoch seconds, levels the seconds that a stretch takes (rules.cover); `value` is
    empty for the dimension `all`. An entry of the journal belongs to the stretch in which its id
    was made, within milliseconds of its `at`. wait and run are packed histograms.
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


class Stretch(models.Model):
    """A stretch whose totals are stored; of how many entries of the journal they were made, and the
    hand-outs among them.

    It is written with them in one transaction, so totals without it are no longer to be read.
    """

    pk = models.CompositePrimaryKey("level", "start")
    level = models.PositiveIntegerField()
    start = models.PositiveBigIntegerField()
    entries = models.PositiveBigIntegerField()
    handed_out = models.PositiveBigIntegerField(db_default=0)

    class Meta:
        verbose_name = _("stretch of totals")
        verbose_name_plural = _("stretches of totals")

    def __str__(self) -> str:
        return f"{self.level} s from {self.start}"


class ErrorGroup(models.Model):
    """What went wrong in the same way: a job type or task, and an error whatever numbers it has.

    `first_entry` and `last_entry` are ids of the journal, and so tell their instants; `sample` and
    `subject_id` (of a job or dispatch) are those of the last.
    """

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
