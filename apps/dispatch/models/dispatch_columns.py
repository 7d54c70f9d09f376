"""The columns that a dispatch has all its life, whichever table it is in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import OuterRef
from django.utils.translation import gettext_lazy as _

from apps.common.fields import KeyField, References
from apps.dispatch.models.executor import Executor, OperatorScope
from apps.dispatch.models.task import Source
from apps.dispatch.rules import policy


class AnyDispatchQuerySet(models.QuerySet[Any]):
    def of(self, source: str, task: int | OuterRef, occurrence: int) -> Self:
        return self.filter(source=source, task=task, occurrence=occurrence)

    def within(self, bound: Iterable[str]) -> Self:
        """The dispatches of these users and of the members of these groups."""
        return self.filter(executor__in=Executor.objects.within(bound).users())

    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> Self:
        bound = OperatorScope.names_of(operator)
        return self if bound is None else self.within(bound)


class DispatchColumns(models.Model):
    """One hand-out of one occurrence to one user executor.

    open → succeeded | failed | expired | released | cancelled, and nothing else. No foreign key
    reaches a configuration row in the database, because an insert would wait for its writers.
    """

    class State(models.TextChoices):
        OPEN = policy.OPEN, _("open")  # handed out, not yet called back
        SUCCEEDED = policy.SUCCEEDED, _("succeeded")
        FAILED = policy.FAILED, _("failed")
        EXPIRED = policy.EXPIRED, _("expired")  # no callback before the deadline
        RELEASED = policy.RELEASED, _("released")  # given back by its executor or an operator
        CANCELLED = policy.CANCELLED, _("cancelled")  # taken away by an operator

    refers_to: ClassVar[References] = {
        "task": ("dispatch.OnceTask", "dispatch.RotateTask"),
        "template_name": ("dispatch.Template",),
    }

    id = models.BigIntegerField(_("number"), primary_key=True)
    executor = models.ForeignKey(
        Executor,
        models.PROTECT,
        db_constraint=False,
        db_index=False,
        related_name="%(class)ses",
        verbose_name=_("who"),
    )
    source = KeyField(_("source"), max_length=8, choices=Source.choices)
    task = models.BigIntegerField(_("task"))
    occurrence = models.BigIntegerField(_("occurrence"))
    occurrence_at = models.DateTimeField(_("due"))
    title = models.CharField(_("title"), max_length=200)
    params = models.JSONField(_("params"))
    template_name = KeyField(_("template"), max_length=100, blank=True)
    template_version = models.PositiveIntegerField(_("template version"), null=True)
    state = KeyField(_("state"), max_length=12, choices=State.choices, default=State.OPEN)
    round = models.PositiveIntegerField(_("try"), default=0)
    holds_stock = models.BooleanField(_("counts to quota"), default=True)
    redo = models.PositiveIntegerField(_("repeated pulls"), default=0)
    dispatched_at = models.DateTimeField(_("handed out"))
    deadline_at = models.DateTimeField(_("deadline"))
    finished_at = models.DateTimeField(_("finished"), null=True)
    result = models.JSONField(_("result"), null=True)
    message = models.TextField(_("message"), blank=True)
    part_of = models.BigIntegerField(_("part of"), null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def is_open(self) -> bool:
        return self.state == self.State.OPEN

    @property
    def identity(self) -> tuple[str, int, int]:
        """The occurrence: source, task and number."""
        return (self.source, self.task, self.occurrence)

    @property
    def task_label(self) -> str:
        """How the journal names the task: `once:12`."""
        return f"{self.source}:{self.task}"


COLUMNS = tuple(field.attname for field in DispatchColumns._meta.local_fields)
