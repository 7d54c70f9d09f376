"""The state of a limited type that changes with every hold: its tokens and its breaker."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField, References
from apps.jobs.models.job_type import MAX_NAME
from apps.jobs.rules import breaker as rules


class TypeState(models.Model):
    """One row per type with a limit, a rate or a breaker; a hold of the type locks it first.

    So the jobs of a limited type are counted and taken one hold after the other, cluster-wide.
    """

    class Breaker(models.TextChoices):
        CLOSED = rules.CLOSED, _("closed")  # everything runs
        OPEN = rules.OPEN, _("open")  # nothing runs for a while
        HALF_OPEN = rules.HALF_OPEN, _("half open")  # one probe at a time

    refers_to: ClassVar[References] = {"type": ("jobs.JobType",)}

    type = KeyField(_("type"), max_length=MAX_NAME, primary_key=True)
    tokens = models.FloatField(_("tokens"), null=True)
    filled_at = models.DateTimeField(null=True)
    breaker = KeyField(_("breaker"), max_length=12, choices=Breaker.choices, default=Breaker.CLOSED)
    breaker_since = models.DateTimeField(_("since"), null=True)
    window_at = models.DateTimeField(null=True)
    window_calls = models.PositiveIntegerField(default=0)
    window_failures = models.PositiveIntegerField(default=0)
    # The latest rebuild of the pool.
    pool_epoch = models.BigIntegerField(_("rebuild of the pool"), default=0, db_default=0)

    class Meta:
        verbose_name = _("state of a job type")
        verbose_name_plural = _("states of job types")

    def __str__(self) -> str:
        return self.type

    @property
    def breaker_state(self) -> rules.BreakerState:
        """The breaker as rules read it."""
        return rules.BreakerState(
            state=self.breaker,
            since=self.breaker_since,
            window_at=self.window_at,
            calls=self.window_calls,
            failures=self.window_failures,
        )

    @breaker_state.setter
    def breaker_state(self, state: rules.BreakerState) -> None:
        self.breaker = state.state
        self.breaker_since = state.since
        self.window_at = state.window_at
        self.window_calls = state.calls
        self.window_failures = state.failures
