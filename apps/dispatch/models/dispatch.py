"""The hand-outs: one row each, and the log number that clients call back with."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from apps.common.db import fetch, instant, raise_by_one, table
from apps.common.indexes import VendorIndex
from apps.dispatch.models.dispatch_columns import AnyDispatchQuerySet, DispatchColumns
from apps.dispatch.rules import policy

# Open, by the index of `open_for`; SQLite would read the whole table for IS NOT NULL.
IS_OPEN = Q(open_for__gt=0)


class InFlight(NamedTuple):
    """How many dispatches are open, how many of them are past their deadline, and the earliest
    deadline of all of them."""

    open: int
    late: int
    deadline: datetime | None


class DispatchQuerySet(AnyDispatchQuerySet):
    def open_of(self, executor_id: int) -> Dispatch | None:
        """The one dispatch that the executor has in flight."""
        return self.filter(open_for=executor_id).first()

    def count_pull(self, number: int) -> int | None:
        """Count a repeated pull of an open dispatch; returns the new count, None when it is
        over."""
        return raise_by_one(Dispatch, "redo", number, f"state = '{policy.OPEN}'")

    def in_flight(self, limit: int, *, now: datetime) -> InFlight:
        """The open dispatches, each count up to a limit."""
        # By a literal, because SQLite would not use its partial index for a parameter.
        is_open = f"FROM {table(Dispatch)} WHERE state = '{policy.OPEN}'"
        count = f"(SELECT COUNT(*) FROM (SELECT 1 {is_open}{{}} LIMIT {int(limit)}) counted)"
        [(open_, late, deadline_at)] = fetch(
            f"SELECT {count.format('')}, {count.format(' AND deadline_at <= %s')}, "
            f"(SELECT MIN(deadline_at) {is_open})",
            [now],
        )
        return InFlight(open_, late, instant(deadline_at))


class Dispatch(DispatchColumns):
    """A dispatch until DISPATCH_ARCHIVE_AFTER after its end; then it is an ArchivedDispatch.

    `open_for` is the executor while open and NULL afterwards: its unique key is what keeps a user
    at one task in flight, whatever clients do.
    """

    open_for = models.BigIntegerField(null=True, unique=True, editable=False)

    # An attribute of every dispatch; only archived dispatches have a value.
    archived_at = None

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
            # The expiry sweep: dispatches that are open past their deadline.
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
