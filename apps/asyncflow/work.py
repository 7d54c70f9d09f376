"""The calls of asyncflow by which tasks are made, held and reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db.models import F, Value

from apps.asyncflow import dialects as d
from apps.asyncflow.call_request import CallRequest, find_type, mark_of, unknown_task
from apps.asyncflow.translate import (
    MAX_PRIORITY,
    Refused,
    Row,
    Sent,
    checkpoint_of,
    context_of,
    is_alive,
    limit_of,
    number_of,
    outcome_of,
    priority_of,
    read_task_id,
    task_id,
    task_of,
    text_of,
)
from apps.common import clock
from apps.common.db import instant
from apps.common.errors import Conflict, NotFound, PlatformError
from apps.common.masking import merge
from apps.jobs.errors import LeaseLost
from apps.jobs.models import AnyJob, ArchivedJob, Job
from apps.jobs.rules import transitions as t
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import outside, register
from apps.jobs.services.leases import Heartbeat, renew
from apps.jobs.services.outside import HELD, HoldRequest
from apps.jobs.services.repeats import key_of_words
from apps.jobs.services.settle import settle
from apps.jobs.services.submit import submit
from apps.jobs.services.type_snapshots import type_snapshots

_AT = {name: position for position, name in enumerate(HELD)}
_JSON, _TIMES = {"context", "checkpoint"}, {"run_at", "created_at", "held_at", "finished_at"}


def hold(request: CallRequest) -> list[dict[str, Any]]:
    """Hold due tasks by an atomic claim; the answer has them as they are after it."""
    asked = text_of(request.values, "tasktype")
    type_ = find_type(request, asked)
    status = number_of(request.values, "status")
    if status is not None and t.READY not in request.dialect.statuses(status):
        raise Refused(d.INPUT, "Only waiting tasks can be held.")
    return claim(request, asked, type_)


def claim(request: CallRequest, asked: str, type_: TypeSnapshot) -> list[dict[str, Any]]:
    hold_request = HoldRequest(
        types=[type_.name],
        limit=limit_of(request.values, type_.batch_limit),
        host=request.address,
        version=mark_of(request.dialect),
    )
    hold_answer = outside.hold_for(request.caller, request.worker, hold_request)
    # A worker that is given a type of another spelling takes none of the batch.
    return [
        task_answer(request, row, asked, task_id(request.dialect, row.id, row.type, row.holds))
        for row in map(_row_of_held, hold_answer.rows)
    ]


def _row_of_held(values: Sequence[Any]) -> Row:
    """The row of a held job, as the driver gives it."""
    found: dict[str, Any] = {name: values[_AT[name]] for name in Row._fields}
    found |= {name: instant(found[name]) for name in _TIMES}
    found |= {name: json.loads(found[name] or "null") for name in _JSON}
    return Row(**found)


def set_task(request: CallRequest) -> None:
    """Take a report. Only the hold that its task id names counts; an exact repeat is answered as
    at first."""
    sent = Sent.of(request.values)
    sent.require_small(d.SET)
    name = read_task_id(sent.task_id)
    if name is None:
        raise Refused(d.SET, f"{sent.task_id[:80]!r} is no task id of this server.")
    client, token, row = _last_hold_of(name.job)
    if row is None or not name.names(row.type) or not request.caller.may_use(row.type):
        raise unknown_task(sent.task_id)
    is_held = row.holds > 0 and client == request.caller.client
    hold = row.holds if name.hold is None else name.hold
    if name.hold is None and not is_held:
        raise Refused(d.SET, "This key does not hold the task; report the id that a hold gave.")
    register.touch(
        client=request.caller.client, name=request.worker, version=mark_of(request.dialect)
    )
    try:
        _report(request, sent, row, token if hold == row.holds else "", hold)
    except NotFound as error:
        raise unknown_task(sent.task_id) from error
    except (LeaseLost, Conflict) as error:
        if not request.dialect.late_is_ok:
            raise Refused(d.SET, error.detail) from error


def _last_hold_of(number: int) -> tuple[str, str, Row | None]:
    """API key and token of the last hold of the job, and its row; archived jobs have no token."""
    tables: Sequence[tuple[type[AnyJob], Any]] = (
        (Job, F("lease_token")),
        (ArchivedJob, Value("")),
    )
    for model, token in tables:
        rows = model._default_manager.filter(pk=number)
        for client, kept, *values in rows.values_list("client", token, *Row._fields):
            return client, kept, Row(*values)
    return "", "", None


def _report(request: CallRequest, sent: Sent, row: Row, token: str, hold: int) -> None:
    """Settle, or renew the lease and keep what was done so far."""
    answer: Any
    if is_alive(sent, request.dialect):
        heartbeat = Heartbeat(id=row.id, token=token, checkpoint=checkpoint_of(sent, row))
        [answer] = renew(heartbeats=[heartbeat], caller=request.caller)
        answer = getattr(answer, "refused", answer)
    else:
        report = key_of_words(sent.canonical_text, token, job=row.id, hold=hold)
        outcome = outcome_of(sent, row, request.dialect, clock.now(), token=token, report=report)
        [answer] = settle(outcomes=[outcome], caller=request.caller)
    if isinstance(answer, PlatformError):
        raise answer


def create(request: CallRequest) -> str:
    sent = Sent.of(request.values)
    type_ = find_type(request, sent.type)
    if not 0 <= sent.priority <= MAX_PRIORITY:
        raise Refused(d.INPUT, f"priority is not from 0 to {MAX_PRIORITY}.")
    sent.require_small(d.CREATE)
    if request.masks:
        merge(sent.context, None, field="task_context")
    made = submit(
        type_.name,
        context_of(sent),
        user_id=sent.user_id,
        stage=sent.stage or None,
        priority=priority_of(sent.priority) if sent.priority else None,
        by=request.actor,
        bounds=request.bounds,
    )
    return task_id(request.dialect, made.id, type_.name)


def task_answer(request: CallRequest, row: Row, asked: str, name: str) -> dict[str, Any]:
    """The task by the type and the id that the caller knows."""
    type_ = type_snapshots([row.type]).get(row.type)
    return task_of(row, request.dialect, type_=type_, task_id=name, task_type=asked)
