"""The personal queue: what an executor could get now and in the next hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Subquery

from apps.common.conf import conf
from apps.dispatch.models import Dispatch, Executor, Membership, OnceTask, RotateTask, Stock
from apps.dispatch.rules.policy import PastDispatch, Policy, verdict
from apps.dispatch.rules.queue import Candidate, split
from apps.dispatch.rules.recurrence import occurrence_of
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


@dataclass(frozen=True, slots=True)
class _Prospect:
    """A candidate with what decides about it: policy, stock (None = no row) and latest dispatch."""

    candidate: Candidate
    policy: Policy
    handed: int | None
    last: PastDispatch | None


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
    owners = [executor.pk, *groups]
    rotations, next_at = _rotations(executor, owners, frame, now)
    open_to, cooling_until = _open_to([*_once(executor, owners, frame), *rotations], now)
    parted = split(open_to, now=now, window=frame)
    ahead = [at for at in (parted.next_at, next_at, cooling_until) if at is not None]
    return PersonalQueue(parted.due, min(ahead, default=None))


def _once(executor: Executor, owners: list[int], frame: Window) -> list[_Prospect]:
    """The once tasks that start within the window."""
    handed = Stock.objects.of(OnceTask.source, OuterRef("pk"), OnceTask.occurrence)
    mine = Dispatch.objects.of(OnceTask.source, OuterRef("pk"), OnceTask.occurrence).filter(
        executor=executor
    )
    tasks: list[Any] = list(
        OnceTask.objects.filter(
            executor_id__in=owners,
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
    latest = Dispatch.objects.defer("params", "result", "message").in_bulk(
        [task.latest for task in tasks if task.latest is not None]
    )
    return [
        _prospect(
            task,
            OnceTask.occurrence,
            task.start_at,
            handed=task.handed,
            last=latest.get(task.latest),
        )
        for task in tasks
    ]


def _rotations(
    executor: Executor, owners: list[int], frame: Window, now: datetime
) -> tuple[list[_Prospect], datetime | None]:
    """The due occurrences within the window, and the instant at which the next one will be."""
    tasks = RotateTask.objects.filter(
        executor_id__in=owners, status=RotateTask.Status.ACTIVE, start_at__lt=frame.upper
    ).exclude(end_at__lte=now)
    due: list[tuple[RotateTask, datetime]] = []
    next_at: datetime | None = None
    for task in tasks.defer("params", "title"):
        instants, following = task.due(now)
        due += [(task, instant) for instant in instants if instant in frame]
        if following is not None:
            next_at = min(next_at or following, following)
    numbers = {task.pk for task, _ in due}
    occurrences = {occurrence_of(instant) for _, instant in due}
    handed = {
        (task, occurrence): count
        for task, occurrence, count in Stock.objects.filter(
            source=RotateTask.source, task__in=numbers, occurrence__in=occurrences
        ).values_list("task", "occurrence", "handed")
    }
    latest = {
        (dispatch.task, dispatch.occurrence): dispatch
        for dispatch in Dispatch.objects.filter(
            executor=executor,
            source=RotateTask.source,
            task__in=numbers,
            occurrence__in=occurrences,
        )
        .defer("params", "result", "message")
        .order_by("round")
    }
    prospects = []
    for task, instant in due:
        key = (task.pk, occurrence_of(instant))
        prospects.append(
            _prospect(task, key[1], instant, handed=handed.get(key), last=latest.get(key))
        )
    return prospects, next_at


def _prospect(
    task: OnceTask | RotateTask,
    occurrence: int,
    instant: datetime,
    *,
    handed: int | None,
    last: Dispatch | None,
) -> _Prospect:
    candidate = Candidate(
        source=task.source,
        task=task.pk,
        occurrence=occurrence,
        occurrence_at=instant,
        end_at=task.end_at,
        priority=task.priority,
        has_stock=handed is not None,
    )
    return _Prospect(candidate, task.policy, handed, None if last is None else last.as_past)


def _open_to(prospects: list[_Prospect], now: datetime) -> tuple[list[Candidate], datetime | None]:
    """Those that stock and earlier dispatches leave open, and the first instant at which one that
    is cooling down will be."""
    open_to: list[Candidate] = []
    cooling_until: datetime | None = None
    for prospect in prospects:
        answer = verdict(prospect.policy, prospect.last, now)
        if answer.until is not None:
            cooling_until = min(cooling_until or answer.until, answer.until)
        limit = prospect.policy.dispatch_times
        used_up = limit is not None and (prospect.handed or 0) >= limit
        if answer.allows and (answer.carried is not None or not used_up):
            open_to.append(prospect.candidate)
    return open_to, cooling_until
