"""The calls of asyncflow by which tasks are looked at: one, lists, a count."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

from django.db.models import Min

from apps.asyncflow import dialects as d
from apps.asyncflow.call_request import CallRequest, find_type, unknown_task
from apps.asyncflow.conf import conf
from apps.asyncflow.dialects import Dialect
from apps.asyncflow.translate import (
    MAX_LIMIT,
    Refused,
    Row,
    limit_of,
    number_of,
    read_task_id,
    task_id,
    text_of,
)
from apps.asyncflow.work import claim, task_answer
from apps.common.api.paging import MAX_EXAMINED
from apps.common.masking import redact
from apps.jobs.models import Job
from apps.jobs.models.job_columns import JobQuerySet
from apps.jobs.rules import transitions as t
from apps.jobs.services.find import find

MAX_COUNTED = 1_000_000


def get(request: CallRequest) -> dict[str, Any]:
    asked = text_of(request.values, "taskid")
    name = read_task_id(asked)
    if not asked:
        raise Refused(d.INPUT, "Name the id of the task.")
    job = find(name.job, bounds=request.bounds) if name else None
    if name is None or job is None or not name.names(job.type):
        raise unknown_task(asked)
    row = Row(*(getattr(job, column) for column in Row._fields))
    # The answer repeats the id that was sent, so it gives no new right to the task.
    return _task_without_secrets(request, row, row.type, asked)


def list_tasks(request: CallRequest) -> list[dict[str, Any]]:
    """Tasks of one type and state: waiting ones in the order of holds. Where a switch says so, the
    list holds them, for workers that know no other way."""
    asked, status = text_of(request.values, "tasktype"), number_of(request.values, "status") or 0
    statuses = request.dialect.statuses(status)
    if not (asked and statuses and number_of(request.values, "limit")):
        raise Refused(d.INPUT, "Give the type, a status and the limit.")
    type_ = find_type(request, asked)
    if t.READY in statuses and request.may_hold and holds_by_list(request.dialect):
        return claim(request, asked, type_)
    limit = limit_of(request.values, 0)
    ours = Job.objects.within(request.bounds).filter(type=type_.name)
    # The order of the index of claims: without sorting, however many there are.
    each = (
        _rows(ours.filter(status=status).order_by("affinity_host", "order_key", "pk")[:limit])
        for status in statuses
    )
    rows = list(chain.from_iterable(each))[:limit]
    return [
        _task_without_secrets(request, row, asked, task_id(request.dialect, row.id, row.type))
        for row in rows
    ]


def holds_by_list(dialect: Dialect) -> bool:
    """Whether its list of waiting tasks holds them, for keys that may hold."""
    return dialect.list_holds and conf.ASYNCFLOW_LIST_HOLDS


def list_of_user(request: CallRequest) -> list[dict[str, Any]]:
    """The newest tasks of a user in states that a bit mask names; among the newest jobs only,
    since users have no index."""
    user, mask = text_of(request.values, "userid"), number_of(request.values, "statuslist")
    if not user:
        raise Refused(d.INPUT, "Name the user.")
    statuses = [
        status
        for status in t.STATUSES
        if not mask or mask & _bit(request.dialect, request.dialect.number(status))
    ]
    newest = Job.objects.order_by("-pk")[:MAX_EXAMINED].aggregate(least=Min("pk"))["least"] or 0
    ours = Job.objects.within(request.bounds).filter(
        pk__gte=newest, user_id=user, status__in=statuses
    )
    rows = _rows(ours.order_by("-pk")[: limit_of(request.values, MAX_LIMIT)])
    return [
        _task_without_secrets(request, row, row.type, task_id(request.dialect, row.id, row.type))
        for row in rows
    ]


def _bit(dialect: Dialect, number: int) -> int:
    """The bit of a state in a mask: the n-th one, unless the numbers are bits themselves."""
    return number if dialect.states[-1] == 8 else 1 << (number - 1)


def count(request: CallRequest) -> int:
    """The tasks of a type in all states together, at most a million."""
    type_ = find_type(request, text_of(request.values, "tasktype"))
    ours = Job.objects.within(request.bounds).filter(type=type_.name).order_by()
    return ours[:MAX_COUNTED].count()


def _rows(jobs: JobQuerySet) -> list[Row]:
    return [Row(*values) for values in jobs.values_list(*Row._fields)]


def _task_without_secrets(request: CallRequest, row: Row, asked: str, name: str) -> dict[str, Any]:
    """The task for somebody who looks at it, and has not held it."""
    if request.masks:
        shown = {
            "task_context": _mask_text(row.newest_context),
            "schedule_log": _mask_text(row.log),
        }
        return task_answer(request, row, asked, name) | request.dialect.spelled_all(shown)
    return task_answer(request, row, asked, name)


def _mask_text(text: str) -> str:
    """The text without secrets, also within the JSON that it usually is; as it was written where
    that has none."""
    try:
        value = json.loads(text)
    except ValueError:
        return str(redact(text))
    shown = redact(value)
    return str(redact(text)) if shown == value else json.dumps(shown, ensure_ascii=False)
