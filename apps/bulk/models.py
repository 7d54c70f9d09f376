"""Bulk runs: one change of all rows that a filter means, and the outcome of each row."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField, References
from apps.common.shaped import ShapedField
from apps.jobs.models import bounds_of


class BulkRunQuerySet(models.QuerySet[Any]):
    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> BulkRunQuerySet:
        """All runs; for a person with limits only their own, because others have rows beyond
        them."""
        if bounds_of(operator).are_open:
            return self
        return self.filter(actor=f"admin:{operator.get_username()}")


class BulkRun(models.Model):
    """One verb over all rows that a filter meant when the run was started.

    collecting → acting → done; from the first two also stopped, by a person or when the starter may
    not go on, and back; failed when more rows match than `at_most`: nothing is changed then.
    Collecting goes on `below` this number, None at the end. `job` carries the run out.
    `collected` is the number of rows, of which `done`, `skipped` and `failed` are through. The
    present attempt, or the last one, began to change rows at `paced_at`, after `paced_from` rows.
    """

    class State(models.TextChoices):
        COLLECTING = "collecting", _("collecting")  # the rows are being written down
        ACTING = "acting", _("acting")  # the rows are being changed
        DONE = "done", _("done")
        STOPPED = "stopped", _("stopped")  # may be continued
        FAILED = "failed", _("failed")  # nothing was changed

    refers_to: ClassVar[References] = {"job": ("jobs.Job",)}

    kind = KeyField(_("of"), max_length=16)
    verb = KeyField(_("action"), max_length=16)
    params = ShapedField(_("fields"), default=dict)
    filter = ShapedField(_("filter"), default=dict)
    below = models.BigIntegerField(null=True, editable=False)
    at_most = models.PositiveIntegerField(_("at most"), null=True)
    rate = models.PositiveSmallIntegerField(_("rows per second"))
    reason = models.CharField(_("reason"), max_length=500)
    actor = models.CharField(_("by"), max_length=160)
    bound = ShapedField(default=dict, editable=False)
    request_id = KeyField(max_length=128, null=True, unique=True, editable=False)  # type: ignore[misc]
    job = models.BigIntegerField(_("job"), null=True)
    state = KeyField(_("state"), max_length=12, choices=State.choices, default=State.COLLECTING)
    why = models.CharField(_("why"), max_length=500, blank=True)
    collected = models.PositiveIntegerField(_("rows"), default=0)
    done = models.PositiveIntegerField(_("done"), default=0)
    skipped = models.PositiveIntegerField(_("skipped"), default=0)
    failed = models.PositiveIntegerField(_("failed"), default=0)
    paced_at = models.DateTimeField(null=True, editable=False)
    paced_from = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    created_at = models.DateTimeField(_("started"))
    ended_at = models.DateTimeField(_("ended"), null=True)

    objects = BulkRunQuerySet.as_manager()

    class Meta:
        verbose_name = _("bulk run")
        verbose_name_plural = _("bulk runs")
        # People who may change the rows may start and stop runs over them.
        default_permissions = ("view",)

    # The title of its page, set by the admin, which has the words of kinds and verbs.
    page_title = ""

    def __str__(self) -> str:
        return self.page_title or f"{self.pk}"

    @property
    def handled(self) -> int:
        """The number of rows that have had their turn."""
        return self.done + self.skipped + self.failed

    @property
    def is_under_way(self) -> bool:
        return self.state in (self.State.COLLECTING, self.State.ACTING)


class BulkRow(models.Model):
    """One row of a run with its outcome, which is empty until its turn comes."""

    class Outcome(models.TextChoices):
        WAITING = "", _("waiting")
        DONE = "done", _("done")
        SKIPPED = "skipped", _("skipped")  # its state did not allow it
        FAILED = "failed", _("failed")  # the database refused it

    refers_to: ClassVar[References] = {
        "target": ("jobs.Job", "dispatch.Dispatch", "dispatch.OnceTask", "dispatch.RotateTask")
    }

    id = models.BigAutoField(primary_key=True)
    # Written by the thousand: a constraint would make each wait for changes of the run.
    run = models.ForeignKey(
        BulkRun, models.CASCADE, db_constraint=False, db_index=False, related_name="rows"
    )
    number = models.PositiveIntegerField(_("position"))
    target = models.BigIntegerField(_("number"))
    outcome = KeyField(_("outcome"), max_length=8, choices=Outcome.choices, blank=True)
    why = models.CharField(_("why"), max_length=300, blank=True)

    class Meta:
        verbose_name = _("row of a bulk run")
        verbose_name_plural = _("rows of bulk runs")
        default_permissions = ()
        indexes = [
            # The next rows of a run, and those of one outcome.
            models.Index(fields=["run", "outcome", "id"], name="bulk_row_outcome"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="bulk_row_once"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}.{self.number}"
