"""The personal queue: what an executor could get now and in the next hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Subquery

from apps.common.conf import conf
from apps.dispatch.models import Dispatch, Executor, Membership, OnceTask, Stock
from apps.dispatch.rules import policy
from apps.dispatch.rules.queue import Candidate, split
from apps.dispatch.rules.window import Window, window

State = Dispatch.State
_DONE = (State.SUCCEEDED, State.FAILED)


@dataclass(frozen=True, slots=True)
class PersonalQueue:
    """What is due, in hand-out order, and when to look again; `next_at` None = nothing ahead."""

    due: list[Candidate]
    next_at: datetime | None


def window_of(executor: Executor, *, now: datetime) -> Window:
    """The window that the executor is served from at `now`."""
    latest = (
        Dispatch.objects.filter(executor=executor, state__in=_DONE)
        .order_by("-id")
        .values_list("occurrence_at", flat=True)
        .first()
    )
    return window(
        now=now,
        latest_done=latest,
        hours=conf.DISPATCH_WINDOW_HOURS,
        lookback=conf.DISPATCH_LOOKBACK,
    )


def build(executor: Executor, *, now: datetime) -> PersonalQueue:
    """The queue of a user executor, computed from the tables alone.

    It may be behind by the time it is used: a hand-out checks everything again.
    """
    if not executor.enabled:
        return PersonalQueue([], None)
    frame = window_of(executor, now=now)
    groups = Membership.objects.filter(user=executor, group__enabled=True).values_list(
        "group_id", flat=True
    )
    open_to, cooling_until = _open_to(executor, _once_tasks(executor, [*groups], frame), now)
    parted = split(
        [
            Candidate(
                source=OnceTask.source,
                task=task.pk,
                occurrence=OnceTask.occurrence,
                occurrence_at=task.start_at,
                end_at=task.end_at,
                priority=task.priority,
                has_stock=task.handed is not None,
            )
            for task in open_to
        ],
        now=now,
        window=frame,
    )
    ahead = [at for at in (parted.next_at, cooling_until) if at is not None]
    return PersonalQueue(parted.due, min(ahead, default=None))


def _once_tasks(executor: Executor, groups: list[int], frame: Window) -> list[Any]:
    """The executor's tasks in the window, with how often each was handed out (None = never) and
    the number of the executor's latest dispatch of it."""
    handed = Stock.objects.of(OnceTask.source, OuterRef("pk"), OnceTask.occurrence)
    mine = Dispatch.objects.of(OnceTask.source, OuterRef("pk"), OnceTask.occurrence).filter(
        executor=executor
    )
    return list(
        OnceTask.objects.filter(
            executor_id__in=[executor.pk, *groups],
            status=OnceTask.Status.ACTIVE,
            start_at__gte=frame.lower,
            start_at__lt=frame.upper,
        )
        .defer("params", "title")
        .annotate(
            handed=Subquery(handed.values("handed")[:1]),
            latest=Subquery(mine.latest_first().values("pk")[:1]),
        )
    )


def _open_to(
    executor: Executor, tasks: list[Any], now: datetime
) -> tuple[list[Any], datetime | None]:
    """Those tasks that stock and earlier dispatches leave open to the executor, and the first
    instant at which one that is cooling down will be."""
    latest = Dispatch.objects.defer("params", "result", "message").in_bulk(
        [task.latest for task in tasks if task.latest is not None]
    )
    open_to: list[Any] = []
    cooling_until: datetime | None = None
    for task in tasks:
        last = latest.get(task.latest)
        verdict = policy.verdict(task.policy, None if last is None else last.as_past, now)
        if verdict.until is not None:
            cooling_until = min(cooling_until or verdict.until, verdict.until)
        used_up = task.dispatch_times is not None and (task.handed or 0) >= task.dispatch_times
        if verdict.allows and (verdict.carried is not None or not used_up):
            open_to.append(task)
    return open_to, cooling_until
