"""What planners should look at next: how many tasks and executors, and which. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet

from apps.common import clock
from apps.common.kept import Kept
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, Executor, OnceTask
from apps.dispatch.models.dispatch import DispatchQuerySet
from apps.dispatch.rules import life
from apps.dispatch.rules.silence import is_silent
from apps.dispatch.services.standing import ends_within, once_by_time, once_in_state

# A quota that is to be full is looked at a day ahead, a task that ends a shift ahead.
UNFILLED_WITHIN = timedelta(hours=24)
ENDING_WITHIN = timedelta(hours=6)
# Tasks of each kind, and open dispatches, that are looked at for a number.
MAX_LOOKED_AT = 1_000
# Executors that a statement names one by one.
MAX_NAMED = 1_000


@dataclass(frozen=True)
class Found:
    """How many rows; not `is_whole` where more than MAX_LOOKED_AT were there to look at."""

    count: int
    is_whole: bool


@dataclass(frozen=True)
class Numbers:
    """Of once tasks: those that end within UNFILLED_WITHIN while their quota is not used up, those
    that end within ENDING_WITHIN, and those overdue; and the executors that are silent with work
    in hand."""

    unfilled: Found
    ending: Found
    overdue: Found
    silent: Found


# By the executors that a person is limited to.
counted: Kept[Numbers] = Kept(30.0)


def numbers(bound: Iterable[str] | None = None) -> Numbers:
    """Those for somebody who sees all executors or those in `bound`, up to 30 seconds old."""
    key = None if bound is None else frozenset(bound)
    return counted.get(key, lambda: _count(key, clock.now()))


def _count(bound: frozenset[str] | None, now: datetime) -> Numbers:
    tasks, dispatches = OnceTask.objects.all(), Dispatch.objects.all()
    if bound is not None:
        seen: Any = Executor.objects.within(bound).values("pk")
        first = [row["pk"] for row in seen[: MAX_NAMED + 1]]
        if len(first) <= MAX_NAMED:
            # As plain ids: the index that starts with the executor is used for nothing else.
            seen = first
        tasks, dispatches = tasks.filter(executor__in=seen), dispatches.filter(executor__in=seen)
    ends, soon = _next_ends(tasks, now), now + ENDING_WITHIN
    late = once_by_time(tasks, life.OVERDUE, now=now).order_by("start_at")
    silent, all_holders = silent_holders(dispatches, now=now)
    return Numbers(
        unfilled=_in_state([pk for _end, pk in ends], life.UNFILLED, now),
        ending=Found(
            sum(end <= soon for end, _pk in ends[:MAX_LOOKED_AT]),
            len(ends) <= MAX_LOOKED_AT or ends[MAX_LOOKED_AT][0] > soon,
        ),
        overdue=_in_state(
            late.values_list("pk", flat=True)[: MAX_LOOKED_AT + 1], life.OVERDUE, now
        ),
        silent=Found(len(silent), all_holders),
    )


def _in_state(pks: Iterable[int], state: str, now: datetime) -> Found:
    """How many of the first of these tasks are in the state."""
    found = list(pks)
    first = OnceTask.objects.filter(pk__in=found[:MAX_LOOKED_AT])
    return Found(once_in_state(first, state, now=now).count(), len(found) <= MAX_LOOKED_AT)


def _next_ends(rows: QuerySet[OnceTask], now: datetime) -> list[tuple[datetime, int]]:
    """The first active tasks to end within UNFILLED_WITHIN, in order: until when each can be had,
    and its number. One more than MAX_LOOKED_AT when there are more."""
    reach, most = conf.DISPATCH_LOOKBACK, MAX_LOOKED_AT + 1
    active = rows.filter(status=life.ACTIVE)
    by_end, by_reach = ends_within(UNFILLED_WITHIN, now)
    found = [
        (min(end, start + reach) if end else start + reach, pk)
        for condition, order in ((by_end, "end_at"), (by_reach, "start_at"))
        for end, start, pk in active.filter(condition)
        .order_by(order)
        .values_list("end_at", "start_at", "pk")[:most]
    ]
    return sorted(found)[:most]


def silent_holders(
    dispatches: DispatchQuerySet, *, now: datetime | None = None
) -> tuple[list[int], bool]:
    """The users who hold one of these dispatches and are silent (rules.silence), of the first
    MAX_LOOKED_AT; and whether these were all."""
    now = clock.now() if now is None else now
    held: QuerySet[Any] = dispatches.filter(open_for__isnull=False).order_by("open_for")
    columns = ("open_for", "dispatched_at", "deadline_at")
    rows = list(
        held.annotate(seen_at=F("executor__last_seen_at")).values_list(*columns, "seen_at")[
            : MAX_LOOKED_AT + 1
        ]
    )
    silent = [
        pk
        for pk, began, deadline, seen in rows[:MAX_LOOKED_AT]
        if is_silent(seen_at=max(began, seen or began), deadline_at=deadline, now=now)
    ]
    return silent, len(rows) <= MAX_LOOKED_AT
