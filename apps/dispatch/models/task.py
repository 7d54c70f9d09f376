"""The tasks that operators plan."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import ClassVar, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.common import clock
from apps.common.fields import KeyField, default_time_zone
from apps.common.messages import Message
from apps.common.shaped import ShapedField
from apps.dispatch.models.executor import Executor, OperatorScope
from apps.dispatch.models.template import Template
from apps.dispatch.rules import life, plan, policy
from apps.dispatch.rules import recurrence as rules
from apps.dispatch.rules.life import Availability
from apps.dispatch.rules.recurrence import DueOccurrences, Recurrence
from apps.dispatch.rules.summary import summary
from apps.dispatch.rules.task import MAX_TITLE, RANGES
from apps.journal.models import Edited

TaskT = TypeVar("TaskT", bound="Task")


class Source(models.TextChoices):
    """The table of tasks that a stock or dispatch belongs to; ids of the tables overlap."""

    ONCE = plan.ONCE, _("once task")
    ROTATE = plan.ROTATE, _("repeating task")


def _within(name: str) -> Q:
    low, high = RANGES[name]
    return Q(**{f"{name}__gte": low, f"{name}__lte": high})


class TaskQuerySet(models.QuerySet[TaskT]):
    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> TaskQuerySet[TaskT]:
        """All tasks, or the ones within the scopes of an operator who has some."""
        bound = OperatorScope.names_of(operator)
        return self if bound is None else self.within(bound)

    def within(self, bound: Iterable[str]) -> TaskQuerySet[TaskT]:
        """The tasks addressed to these users or groups, or to members of the groups."""
        return self.filter(executor__in=Executor.objects.within(bound))

    def not_deleted(self) -> TaskQuerySet[TaskT]:
        """The tasks that are not deleted."""
        return self.exclude(status=Task.Status.DELETED)

    def planning(self) -> TaskQuerySet[TaskT]:
        """The tasks without the columns that a queue does not need."""
        return self.defer("title", "params")


class Task(Edited):
    """The fields that once and rotate tasks share.

    active ⇄ paused; active, paused → deleted. `dispatch_times` counts per occurrence; None means
    every member once.
    """

    class Mode(models.TextChoices):
        SINGLE = policy.SINGLE, _("single: one user gets it")
        MULTI = policy.MULTI, _("multi: several different users get it")
        BLOCKING = (
            policy.BLOCKING,
            _("blocking: the same user may get it again until the quota is used up"),
        )

    class OnFailure(models.TextChoices):
        FINISH = policy.FINISH, _("finish: it counts")
        GIVE_BACK = policy.GIVE_BACK, _("give back: others may try")
        RETRY_SAME = policy.RETRY_SAME, _("retry: the same user tries again")

    class OnExpiry(models.TextChoices):
        GIVE_BACK = policy.GIVE_BACK, _("give back: others may try")
        KEEP = policy.KEEP, _("keep: it counts")

    class Status(models.TextChoices):
        ACTIVE = life.ACTIVE, _("active")  # handed out when due
        PAUSED = life.PAUSED, _("paused")  # kept, not handed out
        DELETED = life.DELETED, _("deleted")  # kept for its history only

    class State(models.TextChoices):
        """The state of a task, worked out and never stored: see rules/life.py."""

        WAITING = life.WAITING, _("waiting")
        OPEN = life.OPEN, pgettext_lazy("task", "open")
        OVERDUE = life.OVERDUE, _("overdue")
        FULL = life.FULL, _("full")
        OVER = life.OVER, pgettext_lazy("task", "over")
        PAUSED = life.PAUSED, _("paused")
        DELETED = life.DELETED, _("deleted")

    source: ClassVar[str]
    # Set by services.availability.read_availability.
    availability: Availability

    title = models.CharField(_("title"), max_length=MAX_TITLE)
    executor = models.ForeignKey(
        Executor, models.PROTECT, related_name="%(class)ss", verbose_name=_("who")
    )
    template = models.ForeignKey(
        Template,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="%(class)ss",
        verbose_name=_("template"),
    )
    params = ShapedField(_("params"), default=dict, blank=True)
    start_at = models.DateTimeField(_("start"))
    end_at = models.DateTimeField(_("end"), null=True, blank=True)
    mode = KeyField(_("mode"), max_length=8, choices=Mode.choices, default=Mode.SINGLE)
    dispatch_times = models.PositiveIntegerField(
        _("quota"),
        null=True,
        blank=True,
        default=1,
        help_text=_(
            "How often it is handed out in all. Empty (mode multi only): once to every member."
        ),
    )
    priority = models.SmallIntegerField(
        _("priority"), default=0, help_text=_("-100 to 100; higher is handed out first.")
    )
    lease_seconds = models.PositiveIntegerField(
        _("lease (s)"),
        default=3600,
        help_text=_("Seconds until a user that does not report loses it."),
    )
    on_failure = KeyField(
        _("on failure"), max_length=12, choices=OnFailure.choices, default=OnFailure.FINISH
    )
    on_expiry = KeyField(
        _("on expiry"), max_length=12, choices=OnExpiry.choices, default=OnExpiry.GIVE_BACK
    )
    max_rounds = models.PositiveSmallIntegerField(
        _("most tries"),
        default=3,
        help_text=_("Maximum number of dispatches when failures are retried."),
    )
    status = KeyField(_("status"), max_length=8, choices=Status.choices, default=Status.ACTIVE)

    class Meta:
        abstract = True
        constraints = [
            models.CheckConstraint(
                condition=_within("priority"),
                name="%(class)s_priority",
            ),
            models.CheckConstraint(
                condition=_within("lease_seconds"),
                name="%(class)s_lease",
            ),
            models.CheckConstraint(
                condition=Q(mode=policy.MULTI, dispatch_times=None)
                | Q(mode=policy.SINGLE, dispatch_times=1)
                | Q(
                    mode__in=[policy.MULTI, policy.BLOCKING],
                    dispatch_times__gte=RANGES["dispatch_times"][0],
                ),
                name="%(class)s_times",
            ),
            models.CheckConstraint(
                condition=Q(max_rounds__gte=RANGES["max_rounds"][0]), name="%(class)s_rounds"
            ),
            models.CheckConstraint(
                condition=Q(end_at=None) | Q(end_at__gt=F("start_at")), name="%(class)s_ends_later"
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def journal_name(self) -> str:
        return f"{self.source}:{self.pk}"

    @property
    def journal_executor(self) -> str:  # type: ignore[override]
        return self.executor.name

    @property
    def planned(self) -> plan.Planned:
        """The task as the queue sees it."""
        raise NotImplementedError(f"{type(self).__name__} must say when it is due")

    def _planned(self, start_at: datetime, end_at: datetime | None) -> plan.Planned:
        """The plan's part that all kinds of tasks share."""
        return plan.Planned(
            self.source,
            self.pk,
            self.priority,
            start_at,
            end_at,
            self.policy,
            self.executor_id,
            self.version,
        )

    @property
    def policy(self) -> policy.Policy:
        return policy.Policy(
            mode=self.mode,
            dispatch_times=self.dispatch_times,
            lease_seconds=self.lease_seconds,
            on_failure=self.on_failure,
            on_expiry=self.on_expiry,
            max_rounds=self.max_rounds,
        )


class OnceTask(Task):
    """A task with one occurrence, due at start_at; its occurrence number is 0."""

    source = Source.ONCE

    # Known to the app above; what is handed out of it has the same.
    part_of = models.BigIntegerField(_("part of"), null=True, editable=False)

    objects: ClassVar[TaskQuerySet[OnceTask]] = TaskQuerySet.as_manager()  # type: ignore[assignment]

    class Meta(Task.Meta):
        abstract = False
        verbose_name = _("once task")
        verbose_name_plural = _("once tasks")
        indexes = [
            # The candidates of one executor: equality before range, though time selects more.
            models.Index(fields=["executor", "status", "start_at"], name="oncetask_candidates"),
            # Tasks that end soon, and tasks due long ago.
            models.Index(fields=["status", "end_at"], name="oncetask_ending"),
            models.Index(fields=["status", "start_at"], name="oncetask_due"),
        ]

    @property
    def planned(self) -> plan.Planned:
        return self._planned(self.start_at, self.end_at)


class RotateTask(Task):
    """A task that is due again and again by its rule; an occurrence is named by its UTC second.

    `effective_from` is start_at at first, then the instant of the last edit of the rule, of the
    last resume, or of the last edit of an end that had passed. Occurrences before it do not exist:
    editing or resuming a rotation never creates occurrences in the past.
    """

    class Misfire(models.TextChoices):
        SKIP = rules.SKIP, _("skip: only the current occurrence")
        ONCE = rules.ONCE, _("once: the newest missed one, too")
        ALL = rules.ALL, _("all: the newest missed ones up to the limit, too")

    source = Source.ROTATE
    # An edit of these means another series.
    rule_fields = ("rule", "time_zone", "start_at")

    rule = models.JSONField(_("rule"))
    time_zone = KeyField(_("time zone"), max_length=64, default=default_time_zone)
    misfire = KeyField(
        _("missed runs"), max_length=8, choices=Misfire.choices, default=Misfire.SKIP
    )
    misfire_limit = models.PositiveSmallIntegerField(
        _("runs to catch up"), default=10, help_text=_("Only for “all”.")
    )
    effective_from = models.DateTimeField(editable=False)

    objects: ClassVar[TaskQuerySet[RotateTask]] = TaskQuerySet.as_manager()  # type: ignore[assignment]

    class Meta(Task.Meta):
        abstract = False
        verbose_name = _("repeating task")
        verbose_name_plural = _("repeating tasks")
        indexes = [
            # The rotations of one executor, and how many of them are active.
            models.Index(fields=["executor", "status"], name="rotatetask_candidates"),
        ]

    @cached_property
    def recurrence(self) -> Recurrence:
        """The rule with its zone and limits; never due when it cannot be read."""
        rule, zone = rules.stored_series(self.rule, self.time_zone)
        return Recurrence(
            rule=rule,
            zone=zone,
            start_at=self.start_at,
            end_at=self.end_at,
            effective_from=self.effective_from,
        )

    @property
    def summary(self) -> Message:
        """The rule in plain words."""
        return summary(self.recurrence.rule, self.time_zone)

    def next_due(self, limit: int = 10) -> list[datetime]:
        """The next instants at which it is due."""
        return [*islice(self.recurrence.after(clock.now()), limit)]

    def due(self, now: datetime) -> DueOccurrences:
        """The occurrences that may be handed out at `now`, and the next instant."""
        return self.planned.due(now)

    @property
    def planned(self) -> plan.Planned:
        return self._planned(self.start_at, self.end_at)._replace(
            recurrence=self.recurrence, misfire=self.misfire, misfire_limit=self.misfire_limit
        )


TASK_MODELS: dict[str, type[OnceTask] | type[RotateTask]] = {
    OnceTask.source: OnceTask,
    RotateTask.source: RotateTask,
}
