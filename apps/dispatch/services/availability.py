"""The availability of tasks: states, quotas, and until when they can be had. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.common import clock
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, Executor, Membership, OnceTask, RotateTask, Stock
from apps.dispatch.rules import life
from apps.dispatch.rules.life import Availability, state_of
from apps.dispatch.rules.plan import ONLY, Planned
from apps.dispatch.rules.queue import candidate_of
from apps.dispatch.services.past import past_in_all

AnyTask = OnceTask | RotateTask


def read_availability(tasks: Sequence[AnyTask], *, now: datetime | None = None) -> None:
    """Set `availability` on each task, with one read of each kind of fact for all of them."""
    now = clock.now() if now is None else now
    plans = [task.planned for task in tasks]
    present = [_present_instant(planned, now) for planned in plans]
    candidates = [candidate_of(*each) for each in zip(plans, present, strict=True)]
    past = past_in_all(candidates)
    for task, planned, due_at, candidate in zip(tasks, plans, present, candidates, strict=True):
        until = None if due_at is None else planned.until(due_at, conf.DISPATCH_LOOKBACK)
        shown, quota = past.taken(candidate), past.quota(candidate)
        is_handed_out = past.handed.get(candidate.identity, 0) > 0
        state = state_of(
            status=task.status,
            due_at=due_at,
            until=until,
            is_full=is_handed_out and shown >= quota,
            is_handed_out=is_handed_out,
            overdue_after=_overdue_after(),
            now=now,
        )
        task.availability = Availability(state, due_at, until, shown, quota)


def _present_instant(planned: Planned, now: datetime) -> datetime | None:
    """When the occurrence of interest is due: a once task's only one, the current one of a
    rotation, or else its first; None when there is none."""
    series = planned.recurrence
    if series is None:
        return planned.start_at
    current = next(series.before(now), None)
    return next(series.after(now), None) if current is None else current


def _overdue_after() -> timedelta:
    return timedelta(hours=conf.TASK_OVERDUE_HOURS)


# --- once tasks, found by the database -----------------------------------------------------------
def once_by_time(
    rows: QuerySet[OnceTask], state: str, *, now: datetime | None = None
) -> QuerySet[OnceTask]:
    """The once tasks that can be in this state as far as their own rows show."""
    by_time, _by_stock = _conditions(state, clock.now() if now is None else now)
    return rows.filter(by_time)


def once_in_state(
    rows: QuerySet[OnceTask], state: str, *, now: datetime | None = None
) -> QuerySet[OnceTask]:
    """The once tasks that `read_availability` would give this state."""
    return rows.filter(*_conditions(state, clock.now() if now is None else now))


def _conditions(state: str, now: datetime) -> tuple[Q, Q]:
    """The conditions of the state on the row of a task, and on its hand-outs."""
    reach, overdue_since = now - conf.DISPATCH_LOOKBACK, now - _overdue_after()
    is_active = Q(status=OnceTask.Status.ACTIVE)
    is_over = Q(start_at__lte=reach) | Q(end_at__lte=now)
    # The opposite of the above, in a form that an index of starts can serve.
    is_there = is_active & Q(start_at__gt=reach) & (Q(end_at=None) | Q(end_at__gt=now))
    stock = Stock.objects.of(OnceTask.source, OuterRef("pk"), ONLY)
    is_handed_out = Q(Exists(stock.filter(handed__gt=0)))
    is_full = Q(Exists(stock.filter(handed__gte=OuterRef("dispatch_times")))) | (
        Q(dispatch_times=None) & is_handed_out & _everybody_has_it()
    )
    conditions = {
        life.FULL: (is_active, is_full),
        life.UNFILLED: (is_there, ~is_full),
        life.OVER: (is_active & is_over, ~is_full),
        life.WAITING: (is_active & Q(start_at__gt=now), ~is_full),
        life.OVERDUE: (is_there & Q(start_at__lte=overdue_since), ~is_handed_out),
        life.OPEN: (
            is_there & Q(start_at__lte=now),
            (Q(start_at__gt=overdue_since) | is_handed_out) & ~is_full,
        ),
    }
    return conditions.get(state, (Q(status=state), Q()))


def _everybody_has_it() -> Any:
    def has_it(who: str, task: OuterRef) -> Exists:
        held = Dispatch.objects.of(OnceTask.source, task, ONLY).filter(holds_stock=True)
        return Exists(held.filter(executor=OuterRef(who)))

    members = Membership.objects.filter(group=OuterRef("executor_id"))
    is_group = Exists(Executor.objects.groups().filter(pk=OuterRef("executor_id")))
    lacks_it = members.filter(~has_it("user_id", OuterRef(OuterRef("pk"))))
    return ~Exists(lacks_it) & (is_group | has_it("executor_id", OuterRef("pk")))


def ending_within(
    rows: QuerySet[OnceTask], within: timedelta, *, now: datetime | None = None
) -> QuerySet[OnceTask]:
    """The tasks that can be had now or later, and no longer once that time has passed."""
    by_end, by_reach = ends_within(within, clock.now() if now is None else now)
    return rows.filter(by_end | by_reach)


def ends_within(within: timedelta, now: datetime) -> tuple[Q, Q]:
    """The conditions of `ending_within`, by end and by start: each has an index, which an "or"
    between them would not follow."""
    last, reach = now + within, conf.DISPATCH_LOOKBACK
    is_there = Q(start_at__gt=now - reach)
    by_reach = Q(start_at__lte=last - reach) & (Q(end_at=None) | Q(end_at__gt=last))
    return is_there & Q(end_at__gt=now, end_at__lte=last), is_there & by_reach


def ending_next(rows: QuerySet[OnceTask], most: int, *, now: datetime) -> list[OnceTask]:
    """The active tasks that can be had now or later, those first that can be had no longer first,
    with their availability; at most so many with an end and so many without."""
    there = rows.filter(status=OnceTask.Status.ACTIVE, start_at__gt=now - conf.DISPATCH_LOOKBACK)
    found = [
        *there.filter(end_at__gt=now).order_by("end_at")[:most],
        *there.filter(end_at=None).order_by("start_at")[:most],
    ]
    read_availability(found, now=now)
    return sorted(found, key=lambda task: (task.availability.until or now, task.pk))


# --- both kinds -----------------------------------------------------------------------------------
def in_state(tasks: Sequence[AnyTask], state: str) -> list[AnyTask]:
    """The tasks that are in this state, with their availability."""
    read_availability(tasks)
    return [task for task in tasks if task.availability.state in life.meant_by(state)]
