"""The occurrences that the demo's executors can receive now, and their progress."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q
from django.utils import timezone

from apps.common import clock
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, Membership, OnceTask, RotateTask, Stock
from apps.dispatch.rules.queue import Identity, candidate_of
from taskplatform.client.tables import fit
from taskplatform.demo.company import ACTOR, ROTATIONS, ROUND

# Tasks must not leave the window while executors are at work.
_MARGIN = timedelta(hours=1)

HEADINGS = ("Task", "Mode", ">Quota", ">Handed", ">Done", ">Failed", ">Back", "Who got it", "Met")


@dataclass
class Occurrence:
    """A task with one of the instants at which it is due, what its stock counts, and all of its
    dispatches as of the last `refresh`."""

    task: OnceTask | RotateTask
    at: datetime
    quota: int
    handed: int = 0
    dispatches: Sequence[Dispatch] = ()

    @property
    def identity(self) -> Identity:
        return candidate_of(self.task.planned, self.at).identity

    @property
    def title(self) -> str:
        """The title of the task, for a rotation with the local time."""
        if isinstance(self.task, RotateTask):
            return f"{self.task.title} at {timezone.localtime(self.at):%H:%M}"
        return self.task.title

    @property
    def open(self) -> int:
        return sum(dispatch.is_open for dispatch in self.dispatches)

    @property
    def is_met(self) -> bool:
        return self.handed == self.quota

    @property
    def is_complete(self) -> bool:
        return self.handed >= self.quota and not self.open

    @property
    def cells(self) -> list[str]:
        """The row of the table, in the order of HEADINGS."""
        ends = Counter(dispatch.state for dispatch in self.dispatches)
        names = Counter(d.executor.name for d in self.dispatches if d.holds_stock)
        who = [
            name.removeprefix("uid_") + (f"×{count}" if count > 1 else "")
            for name, count in names.most_common()
        ]
        return [
            fit(self.title),
            self.task.mode,
            f"{'all ' if self.task.dispatch_times is None else ''}{self.quota}",
            str(len(self.dispatches)),
            str(ends["succeeded"]),
            str(ends["failed"]),
            str(ends["released"] + ends["expired"] + ends["cancelled"]),
            " ".join(who[:2] + [f"+{len(who) - 2}"] * (len(who) > 2)),
            "yes" if self.is_met else "NO",
        ]


def refresh(work: Sequence[Occurrence]) -> None:
    """Read stocks and dispatches again."""
    handed = {_identity_of(stock): stock.handed for stock in _rows_of(Stock, work)}
    dispatches: dict[Identity, list[Dispatch]] = defaultdict(list)
    for dispatch in _rows_of(Dispatch, work).select_related("executor").order_by("pk"):
        dispatches[_identity_of(dispatch)].append(dispatch)
    for each in work:
        each.handed = handed.get(each.identity, 0)
        each.dispatches = dispatches[each.identity]


def _rows_of(model: Any, work: Sequence[Occurrence]) -> Any:
    if not work:
        return model.objects.none()
    each = (Q(source=s, task=t, occurrence=o) for s, t, o in (one.identity for one in work))
    return model.objects.filter(reduce(or_, each))


def _identity_of(row: Stock | Dispatch) -> Identity:
    return (row.source, row.task, row.occurrence)


def left_of(work: Sequence[Occurrence]) -> int:
    """How many hand-outs are left until all quotas are met."""
    return sum(each.quota - each.handed for each in work)


def work_at_hand(*, seconds: float = 0) -> list[Occurrence]:
    """The demo's due occurrences whose quotas can be met now, in the order of planning.

    Left out are those too old to be handed out, those of a rotation that end within `seconds`,
    and those that an executor gave back or lost and may not have again yet.
    """
    now = clock.now()
    later = now + timedelta(seconds=seconds)
    oldest = now - conf.DISPATCH_LOOKBACK + _MARGIN
    active = {"created_by": ACTOR, "status": OnceTask.Status.ACTIVE}
    once = OnceTask.objects.filter(**active, start_at__gt=oldest, start_at__lte=now)
    due: list[tuple[OnceTask | RotateTask, datetime]] = [
        (task, task.start_at) for task in once.select_related("executor").order_by("pk")
    ]
    for task in RotateTask.objects.filter(**active).select_related("executor").order_by("pk"):
        lasting = task.due(later).occurrences
        due += [(task, at) for at in task.due(now).occurrences if at > oldest and at in lasting]
    work = [Occurrence(task, at, _quota_of(task)) for task, at in due]
    refresh(work)
    return [each for each in work if not each.is_complete and not _is_kept_from_somebody(each, now)]


def _quota_of(task: OnceTask | RotateTask) -> int:
    """The number of hand-outs of the task; for "every member once" the number of members."""
    if task.dispatch_times is not None or not task.executor.is_group:
        return task.dispatch_times or 1
    return Membership.objects.filter(group=task.executor, user__enabled=True).count()


def _is_kept_from_somebody(work: Occurrence, now: datetime) -> bool:
    cooling_since = now - timedelta(seconds=work.task.lease_seconds)
    return any(
        dispatch.state == Dispatch.State.CANCELLED
        or (
            not dispatch.holds_stock
            and dispatch.finished_at
            and dispatch.finished_at > cooling_since
        )
        for dispatch in work.dispatches
    )


def mishaps_of(work: Sequence[Occurrence]) -> dict[tuple[str, int], deque[str]]:
    """The ends of the first hand-outs, by source and number of tasks that nobody has had yet."""
    planned = {each["title"]: each.get("mishaps", ()) for each in (*ROUND, *ROTATIONS)}
    return {
        (task.source, task.pk): deque(planned.get(task.title.partition(", ")[0], ()))
        for task in (each.task for each in work)
        if not Dispatch.objects.filter(source=task.source, task=task.pk).exists()
    }
