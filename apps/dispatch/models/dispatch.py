"""The hand-outs: one row each, and the log number that clients call back with."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import OuterRef, Q
from django.utils.translation import gettext_lazy as _

from apps.common.db import fetch, instant, raise_by_one, table
from apps.common.fields import KeyField
from apps.common.indexes import VendorIndex
from apps.dispatch.models.executor import Executor, OperatorScope
from apps.dispatch.models.task import Source
from apps.dispatch.rules import policy


class DispatchQuerySet(models.QuerySet["Dispatch"]):
    def open_of(self, executor_id: int) -> Dispatch | None:
        """The one dispatch that the executor has in flight."""
        return self.filter(open_for=executor_id).first()

    def count_pull(self, number: int) -> int | None:
        """Count a repeated pull of an open dispatch; which one it is, None when it is over."""
        return raise_by_one(Dispatch, "redo", number, f"state = '{policy.OPEN}'")

    def in_flight(self, limit: int) -> tuple[int, datetime | None]:
        """How many are open, counted up to a limit, and the earliest deadline of all of them."""
        # By a literal, because SQLite would not use its partial index for a parameter.
        is_open = f"FROM {table(Dispatch)} WHERE state = '{policy.OPEN}'"
        [(count, deadline_at)] = fetch(
            f"SELECT (SELECT COUNT(*) FROM (SELECT 1 {is_open} LIMIT {int(limit)}) counted), "
            f"(SELECT MIN(deadline_at) {is_open})"
        )
        return count, instant(deadline_at)

    def of(self, source: str, task: int | OuterRef, occurrence: int) -> DispatchQuerySet:
        return self.filter(source=source, task=task, occurrence=occurrence)

    def within(self, bound: Iterable[str]) -> DispatchQuerySet:
        """Those of these users and of the members of these groups."""
        return self.filter(executor__in=Executor.objects.within(bound).users())

    def visible_to(self, operator: AbstractBaseUser | AnonymousUser) -> DispatchQuerySet:
        bound = OperatorScope.names_of(operator)
        return self if bound is None else self.within(bound)


class Dispatch(models.Model):
    """One hand-out of one occurrence to one user executor.

    open → succeeded | failed | expired | released | cancelled, and nothing else. `open_for` is the
    executor while open and NULL afterwards: its unique key is what keeps a user at one task in
    flight, whatever clients do. No foreign key reaches a configuration row in the database,
    because an insert would wait for its writers.
    """

    class State(models.TextChoices):
        OPEN = policy.OPEN, _("open")  # handed out, not yet called back
        SUCCEEDED = policy.SUCCEEDED, _("succeeded")
        FAILED = policy.FAILED, _("failed")
        EXPIRED = policy.EXPIRED, _("expired")  # no callback before the deadline
        RELEASED = policy.RELEASED, _("released")  # given back by its executor or an operator
        CANCELLED = policy.CANCELLED, _("cancelled")  # taken away by an operator

    id = models.BigIntegerField(_("number"), primary_key=True)
    executor = models.ForeignKey(
        Executor,
        models.PROTECT,
        db_constraint=False,
        db_index=False,
        related_name="dispatches",
        verbose_name=_("executor"),
    )
    open_for = models.BigIntegerField(null=True, unique=True, editable=False)
    source = KeyField(_("source"), max_length=8, choices=Source.choices)
    task = models.BigIntegerField(_("task"))
    occurrence = models.BigIntegerField(_("occurrence"))
    occurrence_at = models.DateTimeField(_("due"))
    title = models.CharField(_("title"), max_length=200)
    params = models.JSONField(_("params"))
    template_name = KeyField(_("template"), max_length=100, blank=True)
    template_version = models.PositiveIntegerField(_("template version"), null=True)
    state = KeyField(_("state"), max_length=12, choices=State.choices, default=State.OPEN)
    round = models.PositiveIntegerField(_("round"), default=0)
    holds_stock = models.BooleanField(_("holds stock"), default=True)
    redo = models.PositiveIntegerField(_("repeated pulls"), default=0)
    dispatched_at = models.DateTimeField(_("handed out"))
    deadline_at = models.DateTimeField(_("deadline"))
    finished_at = models.DateTimeField(_("finished"), null=True)
    result = models.JSONField(_("result"), null=True)
    message = models.TextField(_("message"), blank=True)

    objects = DispatchQuerySet.as_manager()

    class Meta:
        verbose_name = _("dispatch")
        verbose_name_plural = _("dispatches")
        constraints = [
            models.UniqueConstraint(
                fields=["executor", "source", "task", "occurrence", "round"],
                name="dispatch_once_per_round",
            ),
        ]
        indexes = [
            # The dispatches of one executor and of one task, newest first.
            models.Index(fields=["executor", "id"], name="dispatch_of_executor"),
            models.Index(fields=["source", "task", "id"], name="dispatch_task"),
            # The expiry sweep: what is open past its deadline.
            VendorIndex(
                fields=["state", "deadline_at"], name="dispatch_expiry", vendors=("mysql",)
            ),
            VendorIndex(
                fields=["deadline_at"],
                name="dispatch_expiry_open",
                condition=Q(state=policy.OPEN),
                vendors=("sqlite",),
            ),
        ]
        permissions = [
            ("operate_dispatch", _("Can release, expire and cancel dispatches")),
            ("view_payload", _("Can see params and results")),
        ]

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
