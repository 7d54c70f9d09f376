"""Finding dispatches and tasks by a filter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from apps.common import ids
from apps.common.json_search import holding
from apps.common.readers import read_number
from apps.dispatch.models import Executor, Membership, OnceTask, RotateTask, Source
from apps.dispatch.models.dispatch import DispatchQuerySet
from apps.dispatch.rules import names, policy
from apps.dispatch.rules.dispatch_filter import DispatchFilter
from apps.dispatch.rules.task_filter import TaskFilter

# An id is made after the instant its row names, and waiting for locks may lie between the two.
_ID_SLACK = ids.lowest_id_at(ids.EPOCH + timedelta(minutes=10))


def users_behind(name: str) -> list[int]:
    """The user of that name, or the members of the group.

    As plain ids, because the index that starts with the executor is used for nothing else.
    """
    users = Executor.objects.within([name]).users()
    return list(users.values_list("pk", flat=True))


def reaching(name: str) -> list[int]:
    """The executor of that name and the groups that it is in, as plain ids for the same reason."""
    groups = Membership.objects.filter(user__name=name).values("group")
    reached = Executor.objects.filter(Q(name=name) | Q(pk__in=groups))
    return list(reached.values_list("pk", flat=True))


def tasks_meant(model: type[OnceTask] | type[RotateTask], wanted: TaskFilter) -> QuerySet[Any]:
    """The tasks that the filter means, rotations with their rule as text in `rule_json`; Invalid
    when it is about what is masked."""
    rows: QuerySet[Any] = model.objects.all()
    if wanted.ids:
        rows = rows.filter(pk__in=wanted.ids)
    if wanted.executor:
        rows = rows.filter(executor__in=reaching(wanted.executor))
    if wanted.statuses:
        rows = rows.filter(status__in=wanted.statuses)
    if wanted.mode:
        rows = rows.filter(mode=wanted.mode)
    # As the search of a list has it.
    for word in wanted.text.split():
        rows = rows.filter(title__icontains=word)
    for name, bounded in zip(wanted.PERIOD, (tasks_since, tasks_before), strict=True):
        if (instant := getattr(wanted, name)) is not None:
            rows = bounded(rows, instant)
    if model is RotateTask:
        rows = rows.annotate(rule_json=Cast("rule", TextField()))
    return holding(rows, wanted.where)


def tasks_since(rows: QuerySet[Any], instant: datetime) -> QuerySet[Any]:
    """The once tasks that start then or later; the rotations that do not end by then."""
    if rows.model is OnceTask:
        return rows.filter(start_at__gte=instant)
    return rows.filter(Q(end_at=None) | Q(end_at__gt=instant))


def tasks_before(rows: QuerySet[Any], instant: datetime) -> QuerySet[Any]:
    """The tasks of either kind that start before it."""
    return rows.filter(start_at__lt=instant)


def narrowed(rows: DispatchQuerySet, wanted: DispatchFilter) -> DispatchQuerySet:
    """Those of the dispatches that the filter means; Invalid when it is about what is masked."""
    if wanted.ids:
        rows = rows.filter(pk__in=wanted.ids)
    if wanted.executor:
        rows = rows.filter(executor__in=users_behind(wanted.executor))
    if wanted.states == (policy.OPEN,):
        # Only open ones have it, and it has an index.
        rows = rows.filter(open_for__isnull=False)
    elif wanted.states:
        rows = rows.filter(state__in=wanted.states)
    if wanted.source:
        rows = rows.filter(source=wanted.source)
    if wanted.task is not None:
        rows = rows.filter(source__in=Source.values, task=wanted.task)
    if wanted.text:
        rows = rows.filter(_says(wanted.text))
    return holding(_handed_out_between(rows, wanted), wanted.where)


def few(rows: DispatchQuerySet, wanted: DispatchFilter, *, most: int) -> Sequence[int] | None:
    """The numbers of all dispatches that can be meant, if an index finds them and they are at most
    so many; else None."""
    if wanted.ids:
        return wanted.ids
    indexed = wanted.only(["executor", "states", "task"])
    if wanted.states != (policy.OPEN,):
        indexed = indexed.without("states")
    if not indexed.given:
        return None
    found = narrowed(rows, indexed).order_by().values_list("pk", flat=True)[: most + 1]
    return list(found) if len(found) <= most else None


def _says(text: str) -> Q:
    if (number := read_number(text)) is not None:
        return Q(pk=number)
    known = Executor.objects.filter(name=text) if names.is_name(text) else Executor.objects.none()
    return Q(executor__in=list(known.values_list("pk", flat=True)))


def _handed_out_between(rows: DispatchQuerySet, wanted: DispatchFilter) -> DispatchQuerySet:
    # The bound on the id is what keeps the scan short; no index has the instant.
    after, before = wanted.dispatched_after, wanted.dispatched_before
    if after is not None:
        floor = ids.lowest_id_at(after) - _ID_SLACK
        rows = rows.filter(id__gte=floor, dispatched_at__gte=after)
    if before is not None:
        ceiling = ids.lowest_id_at(before) + _ID_SLACK
        rows = rows.filter(id__lt=ceiling, dispatched_at__lt=before)
    return rows
