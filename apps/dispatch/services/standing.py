"""How tasks stand: their states, quotas, and until when they can be had. Writes nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from apps.common import clock
from apps.common.db import fetch_each, force_index, table
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, Executor, Membership, OnceTask, RotateTask, Stock
from apps.dispatch.rules import life
from apps.dispatch.rules.life import Standing, state_of
from apps.dispatch.rules.plan import ONLY, Planned
from apps.dispatch.rules.queue import Identity
from apps.dispatch.rules.recurrence import occurrence_of

AnyTask = OnceTask | RotateTask


def read_standings(tasks: Sequence[AnyTask], *, now: datetime | None = None) -> None:
    """Set `standing` on each task, with one read of each kind of fact for all of them."""
    now = clock.now() if now is None else now
    present = [_present(task.planned, now) for task in tasks]
    identities = [
        (str(task.source), task.pk, _number(task, due_at))
        for task, due_at in zip(tasks, present, strict=True)
    ]
    handed = _handed(identities)
    to_all = [
        (identity, task.executor_id)
        for task, identity in zip(tasks, identities, strict=True)
        if task.dispatch_times is None
    ]
    members = members_of({owner for _identity, owner in to_all})
    had = had_by_members(each for each in to_all if handed.get(each[0]))
    for task, due_at, identity in zip(tasks, present, identities, strict=True):
        count = handed.get(identity, 0)
        quota = task.dispatch_times
        is_full = quota is not None and count >= quota
        shown = count
        if quota is None:
            owner = task.executor_id
            quota, shown = members[owner], had.get((identity, owner), 0)
            is_full = count > 0 and shown >= quota
        until = None if due_at is None else task.planned.until(due_at, conf.DISPATCH_LOOKBACK)
        state = state_of(
            status=task.status,
            due_at=due_at,
            until=until,
            is_full=is_full,
            is_handed_out=count > 0,
            overdue_after=_overdue_after(),
            now=now,
        )
        task.standing = Standing(state, due_at, until, shown, quota)


def _present(planned: Planned, now: datetime) -> datetime | None:
    """When the occurrence of interest is due: a once task's only one, the current one of a
    rotation, or else its first; None when there is none."""
    series = planned.recurrence
    if series is None:
        return planned.start_at
    current = next(series.before(now), None)
    return next(series.after(now), None) if current is None else current


def _number(task: AnyTask, due_at: datetime | None) -> int:
    """The number of the occurrence; no occurrence has that of None."""
    if isinstance(task, OnceTask):
        return ONLY
    return -1 if due_at is None else occurrence_of(due_at)


def _handed(identities: Sequence[Identity]) -> dict[Identity, int]:
    found = Stock.objects.filter(
        source__in={source for source, _task, _occurrence in identities},
        task__in=[task for _source, task, _occurrence in identities],
        occurrence__in={occurrence for _source, _task, occurrence in identities},
    )
    rows = found.values_list("source", "task", "occurrence", "handed")
    return {(source, task, occurrence): handed for source, task, occurrence, handed in rows}


def _overdue_after() -> timedelta:
    return timedelta(hours=conf.TASK_OVERDUE_HOURS)


# --- every member once ---------------------------------------------------------------------------
def members_of(owners: Iterable[int | None]) -> dict[int, int]:
    """How many people there are behind each executor: the members of a group, or the user."""
    known = {owner for owner in owners if owner is not None}
    if not known:
        return {}
    counted = Executor.objects.filter(pk__in=known).order_by().annotate(Count("members"))
    return {
        pk: 1 if kind == Executor.Kind.USER else count
        for pk, kind, count in counted.values_list("pk", "kind", "members__count")
    }


def had_by_members(
    occurrences: Iterable[tuple[Identity, int]],
) -> dict[tuple[Identity, int], int]:
    """How many of the people behind the executor have each occurrence, or had it and it counts.

    Stock cannot say it: who had it may have left the group since, and somebody else joined.
    """
    select = _had_statement()
    parts = ((select, [*which, owner, owner, owner, *which]) for which, owner in occurrences)
    return {
        ((source, task, occurrence), owner): had
        for source, task, occurrence, owner, had in fetch_each(parts)
    }


@functools.cache
def _had_statement() -> str:
    return (
        "SELECT %s, %s, %s, %s, COUNT(DISTINCT p.id) FROM ("
        f"SELECT user_id AS id FROM {table(Membership)} WHERE group_id = %s UNION ALL "
        f"SELECT id FROM {table(Executor)} WHERE id = %s AND kind = '{Executor.Kind.USER.value}'"
        f") p JOIN {table(Dispatch)} d{force_index('dispatch_once_per_round')} "
        "ON d.executor_id = p.id AND d.source = %s AND d.task = %s AND d.occurrence = %s "
        "AND d.holds_stock"
    )


# --- lists of one state --------------------------------------------------------------------------
def once_in_state(
    rows: QuerySet[OnceTask], state: str, *, now: datetime | None = None
) -> QuerySet[OnceTask]:
    """The once tasks that `read_standings` would give this state, found by the database."""
    now = clock.now() if now is None else now
    stock = Stock.objects.of(OnceTask.source, OuterRef("pk"), ONLY)
    is_handed_out = Exists(stock.filter(handed__gt=0))
    is_full = Exists(stock.filter(handed__gte=OuterRef("dispatch_times"))) | (
        Q(dispatch_times=None) & is_handed_out & _everybody_has_it()
    )
    conditions: dict[str, Any] = {
        life.FULL: is_full,
        life.UNFILLED: ~is_full,
        life.OVER: ~is_full,
        life.WAITING: ~is_full,
        life.OVERDUE: ~is_handed_out,
        life.OPEN: (Q(start_at__gt=now - _overdue_after()) | is_handed_out) & ~is_full,
    }
    rows = once_by_time(rows, state, now=now)
    return rows.filter(conditions[state]) if state in conditions else rows


def once_by_time(
    rows: QuerySet[OnceTask], state: str, *, now: datetime | None = None
) -> QuerySet[OnceTask]:
    """The once tasks that can be in this state as far as their own rows show."""
    now = clock.now() if now is None else now
    reach = now - conf.DISPATCH_LOOKBACK
    is_over = Q(start_at__lte=reach) | Q(end_at__lte=now)
    # In words that an index of starts can follow, which it cannot for the opposite of the above.
    is_there = Q(start_at__gt=reach) & (Q(end_at=None) | Q(end_at__gt=now))
    conditions = {
        life.FULL: Q(),
        life.OVER: is_over,
        life.WAITING: Q(start_at__gt=now),
        life.OVERDUE: Q(start_at__lte=now - _overdue_after()) & is_there,
        life.OPEN: Q(start_at__lte=now) & is_there,
        life.UNFILLED: is_there,
    }
    if state not in conditions:
        return rows.filter(status=state)
    return rows.filter(conditions[state], status=OnceTask.Status.ACTIVE)


def _everybody_has_it() -> Any:
    def has_it(who: str, task: OuterRef) -> Exists:
        held = Dispatch.objects.of(OnceTask.source, task, ONLY).filter(holds_stock=True)
        return Exists(held.filter(executor=OuterRef(who)))

    members = Membership.objects.filter(group=OuterRef("executor_id"))
    is_group = Exists(Executor.objects.groups().filter(pk=OuterRef("executor_id")))
    lacks_it = members.filter(~has_it("user_id", OuterRef(OuterRef("pk"))))
    return ~Exists(lacks_it) & (is_group | has_it("executor_id", OuterRef("pk")))


def in_state(tasks: Sequence[AnyTask], state: str) -> list[AnyTask]:
    """Those of the tasks that are in this state, with their standings."""
    read_standings(tasks)
    return [task for task in tasks if task.standing.state in life.meant_by(state)]
