"""The calls of asyncflow, each by the services that the REST API uses.

A call takes an Ask and returns the value of its answer; Refused and other PlatformErrors say why
it did nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from django.db.models import F, Min, Value

from apps.access.rules.clients import Binding, Scope
from apps.asyncflow import dialects as d
from apps.asyncflow.conf import conf
from apps.asyncflow.dialects import Dialect
from apps.asyncflow.translate import (
    MAX_LIMIT,
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
    settings_of,
    task_id,
    task_of,
    text_of,
)
from apps.common import clock
from apps.common.api.paging import MAX_EXAMINED
from apps.common.db import instant
from apps.common.errors import Conflict, Invalid, NotFound, PlatformError
from apps.common.masking import merge, redact
from apps.jobs.errors import LeaseLost
from apps.jobs.models import AnyJob, ArchivedJob, Job, JobType
from apps.jobs.models.bounds import Bounds
from apps.jobs.models.job_columns import JobQuerySet
from apps.jobs.rules import transitions as t
from apps.jobs.rules.caller import Caller
from apps.jobs.rules.type_snapshot import FREE_STAGES, TypeSnapshot
from apps.jobs.services import outside, register, types
from apps.jobs.services.find import find
from apps.jobs.services.leases import Heartbeat, renew
from apps.jobs.services.outside import HELD, HoldRequest
from apps.jobs.services.repeats import key_of_words
from apps.jobs.services.settle import settle
from apps.jobs.services.submit import submit
from apps.jobs.services.type_snapshots import type_snapshots

MAX_COUNTED = 1_000_000
MAX_WORKER = 100
_NEW_TYPE_SECONDS = 0.2
_AT = {name: position for position, name in enumerate(HELD)}
_JSON, _TIMES = {"context", "checkpoint"}, {"run_at", "created_at", "held_at", "finished_at"}


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request with its caller: `values` is the query and the body by readable names, the query
    first.

    `may_hold`: the key may hold tasks, `masks`: the answer masks secrets.
    """

    dialect: Dialect
    values: Mapping[str, Any]
    caller: Caller
    bounds: Bounds
    actor: str
    address: str
    may_hold: bool
    masks: bool

    @property
    def worker(self) -> str:
        """The name of the worker. Copies at one address are one worker for each dialect: their
        calls do not distinguish them."""
        end = f"/{self.dialect.name}"
        return f"{self.caller.client}@{self.address}"[: MAX_WORKER - len(end)] + end


def mark_of(dialect: Dialect) -> str:
    """The mark by which the register knows workers of the dialect."""
    return f"asyncflow {dialect.name}"


# --- types ----------------------------------------------------------------------------------------
def _type(ask: Ask, name: str) -> TypeSnapshot:
    """The type of that name, else the only one that differs in capitals."""
    if not name:
        raise Refused(d.INPUT, "Name the type of task.")
    for max_age in (1.0, _NEW_TYPE_SECONDS):
        found = _spellings(ask, name, max_age)
        if name in found:
            return found[name]
        if len(found) == 1:
            return next(iter(found.values()))
    raise Refused(d.UNKNOWN_TYPE, f"There is no type {name[:80]!r}; register it first.")


def _spellings(ask: Ask, name: str, max_age: float) -> dict[str, TypeSnapshot]:
    """The types of that name, in whatever capitals, that the key may use."""
    return {
        known: type_
        for known, type_ in type_snapshots(max_age=max_age).items()
        if known.lower() == name.lower() and ask.caller.may_use(known)
    }


def list_settings(ask: Ask) -> list[dict[str, Any]]:
    """The types that workers of this key may hold: those it is bound to, else those that only
    workers over HTTP run."""
    bound = ask.caller.types
    rows = JobType.objects.order_by("name")
    rows = rows.filter(handler="", pool=False) if bound is None else rows.filter(name__in=bound)
    return [
        settings_of(
            row.snapshot,
            ask.dialect,
            interval=conf.ASYNCFLOW_INTERVAL,
            times=(row.created_at, row.updated_at),
        )
        for row in rows
    ]


def register_type(ask: Ask) -> None:
    name = text_of(ask.values, "tasktype")
    if not name:
        raise Refused(d.INPUT, "Name the type of task.")
    if any(known.lower() == name.lower() for known in type_snapshots(max_age=0)):
        raise Refused(d.REGISTERED, f"The type {name[:80]} is registered already.")
    _make(ask, name, {})


def configure(ask: Ask) -> None:
    """Change the settings of the type of exactly that name; an unknown one is registered with
    them."""
    values = ask.values
    changes = {
        "batch_limit": number_of(values, "schedulelimit"),
        "max_processing_seconds": number_of(values, "maxprocessingtime"),
        "retry_delay_seconds": number_of(values, "retryinterval"),
        "retry_max_seconds": number_of(values, "maxretryinterval"),
    }
    tries = number_of(values, "maxretrynum")
    changes["max_attempts"] = None if tries is None else tries + 1
    given = {name: value for name, value in changes.items() if value is not None}
    name = text_of(values, "tasktype")
    if not name:
        raise Refused(d.INPUT, "Name the type of task.")
    known = _spellings(ask, name, 0)
    if name in known:
        row = types.find(name, bound=ask.caller.types)
        types.update_type(job_type=row, changes=given, actor=ask.actor)
    elif known:
        raise Refused(d.REGISTERED, f"The type is called {min(known)}; change it by that name.")
    else:
        _make(ask, name, given)


def _make(ask: Ask, name: str, settings: Mapping[str, Any]) -> None:
    if not ask.caller.may_use(name):
        raise Invalid(f"This API key is not bound to the type {name[:80]}.")
    types.create_type(name=name, actor=ask.actor, stages=[FREE_STAGES], **settings)


# --- work -----------------------------------------------------------------------------------------
def hold(ask: Ask) -> list[dict[str, Any]]:
    """Hold due tasks by an atomic claim; the answer has them as they are after it."""
    asked = text_of(ask.values, "tasktype")
    type_ = _type(ask, asked)
    status = number_of(ask.values, "status")
    if status is not None and t.READY not in ask.dialect.statuses(status):
        raise Refused(d.INPUT, "Only waiting tasks can be held.")
    return _claim(ask, asked, type_)


def _claim(ask: Ask, asked: str, type_: TypeSnapshot) -> list[dict[str, Any]]:
    wish = HoldRequest(
        types=[type_.name],
        limit=limit_of(ask.values, type_.batch_limit),
        host=ask.address,
        version=mark_of(ask.dialect),
    )
    given = outside.hold_for(ask.caller, ask.worker, wish)
    # A worker that is given a type of another spelling takes none of the batch.
    return [
        _task(ask, row, asked, task_id(ask.dialect, row.id, row.type, row.holds))
        for row in map(_row_of_held, given.rows)
    ]


def _row_of_held(values: Sequence[Any]) -> Row:
    """The row of a held job, as the driver gives it."""
    found: dict[str, Any] = {name: values[_AT[name]] for name in Row._fields}
    found |= {name: instant(found[name]) for name in _TIMES}
    found |= {name: json.loads(found[name] or "null") for name in _JSON}
    return Row(**found)


def set_task(ask: Ask) -> None:
    """Take a report. Only the hold that its task id names counts; an exact repeat is answered as
    at first."""
    sent = Sent.of(ask.values)
    sent.require_small(d.SET)
    name = read_task_id(sent.task_id)
    if name is None:
        raise Refused(d.SET, f"{sent.task_id[:80]!r} is no task id of this server.")
    client, token, row = _last_hold_of(name.job)
    if row is None or not name.names(row.type) or not ask.caller.may_use(row.type):
        raise _unknown_task(sent.task_id)
    is_held = row.holds > 0 and client == ask.caller.client
    hold = row.holds if name.hold is None else name.hold
    if name.hold is None and not is_held:
        raise Refused(d.SET, "This key does not hold the task; report the id that a hold gave.")
    register.touch(client=ask.caller.client, name=ask.worker, version=mark_of(ask.dialect))
    try:
        _report(ask, sent, row, token if hold == row.holds else "", hold)
    except NotFound as error:
        raise _unknown_task(sent.task_id) from error
    except (LeaseLost, Conflict) as error:
        if not ask.dialect.late_is_ok:
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


def _report(ask: Ask, sent: Sent, row: Row, token: str, hold: int) -> None:
    """Settle, or renew the lease and keep what was done so far."""
    answer: Any
    if is_alive(sent, ask.dialect):
        heartbeat = Heartbeat(id=row.id, token=token, checkpoint=checkpoint_of(sent, row))
        [answer] = renew(heartbeats=[heartbeat], caller=ask.caller)
        answer = getattr(answer, "refused", answer)
    else:
        report = key_of_words(sent.canonical_text, token, job=row.id, hold=hold)
        outcome = outcome_of(sent, row, ask.dialect, clock.now(), token=token, report=report)
        [answer] = settle(outcomes=[outcome], caller=ask.caller)
    if isinstance(answer, PlatformError):
        raise answer


def _unknown_task(task: str) -> Refused:
    return Refused(d.UNKNOWN_TASK, f"There is no task {task[:80]!r}.")


def create(ask: Ask) -> str:
    sent = Sent.of(ask.values)
    type_ = _type(ask, sent.type)
    if not 0 <= sent.priority <= MAX_PRIORITY:
        raise Refused(d.INPUT, f"priority is not from 0 to {MAX_PRIORITY}.")
    sent.require_small(d.CREATE)
    if ask.masks:
        merge(sent.context, None, field="task_context")
    made = submit(
        type_.name,
        context_of(sent),
        user_id=sent.user_id,
        stage=sent.stage or None,
        priority=priority_of(sent.priority) if sent.priority else None,
        by=ask.actor,
        bounds=ask.bounds,
    )
    return task_id(ask.dialect, made.id, type_.name)


# --- looking --------------------------------------------------------------------------------------
def get(ask: Ask) -> dict[str, Any]:
    asked = text_of(ask.values, "taskid")
    name = read_task_id(asked)
    if not asked:
        raise Refused(d.INPUT, "Name the id of the task.")
    job = find(name.job, bounds=ask.bounds) if name else None
    if name is None or job is None or not name.names(job.type):
        raise _unknown_task(asked)
    row = Row(*(getattr(job, column) for column in Row._fields))
    # The answer repeats the id that was sent, so it gives no new right to the task.
    return _task_without_secrets(ask, row, row.type, asked)


def list_tasks(ask: Ask) -> list[dict[str, Any]]:
    """Tasks of one type and state: waiting ones in the order of holds. Where a switch says so, the
    list holds them, for workers that know no other way."""
    asked, status = text_of(ask.values, "tasktype"), number_of(ask.values, "status") or 0
    statuses = ask.dialect.statuses(status)
    if not (asked and statuses and number_of(ask.values, "limit")):
        raise Refused(d.INPUT, "Give the type, a status and the limit.")
    type_ = _type(ask, asked)
    if t.READY in statuses and ask.may_hold and holds_by_list(ask.dialect):
        return _claim(ask, asked, type_)
    limit = limit_of(ask.values, 0)
    ours = Job.objects.within(ask.bounds).filter(type=type_.name)
    # The order of the index of claims: without sorting, however many there are.
    each = (
        _rows(ours.filter(status=status).order_by("affinity_host", "order_key", "pk")[:limit])
        for status in statuses
    )
    rows = list(chain.from_iterable(each))[:limit]
    return [
        _task_without_secrets(ask, row, asked, task_id(ask.dialect, row.id, row.type))
        for row in rows
    ]


def holds_by_list(dialect: Dialect) -> bool:
    """Whether its list of waiting tasks holds them, for keys that may hold."""
    return dialect.list_holds and conf.ASYNCFLOW_LIST_HOLDS


def list_of_user(ask: Ask) -> list[dict[str, Any]]:
    """The newest tasks of a user in states that a bit mask names; among the newest jobs only,
    since users have no index."""
    user, mask = text_of(ask.values, "userid"), number_of(ask.values, "statuslist")
    if not user:
        raise Refused(d.INPUT, "Name the user.")
    statuses = [
        status
        for status in t.STATUSES
        if not mask or mask & _bit(ask.dialect, ask.dialect.number(status))
    ]
    newest = Job.objects.order_by("-pk")[:MAX_EXAMINED].aggregate(least=Min("pk"))["least"] or 0
    ours = Job.objects.within(ask.bounds).filter(pk__gte=newest, user_id=user, status__in=statuses)
    rows = _rows(ours.order_by("-pk")[: limit_of(ask.values, MAX_LIMIT)])
    return [
        _task_without_secrets(ask, row, row.type, task_id(ask.dialect, row.id, row.type))
        for row in rows
    ]


def _bit(dialect: Dialect, number: int) -> int:
    """The bit of a state in a mask: the n-th one, unless the numbers are bits themselves."""
    return number if dialect.states[-1] == 8 else 1 << (number - 1)


def count(ask: Ask) -> int:
    """The tasks of a type in all states together, at most a million."""
    type_ = _type(ask, text_of(ask.values, "tasktype"))
    ours = Job.objects.within(ask.bounds).filter(type=type_.name).order_by()
    return ours[:MAX_COUNTED].count()


def _rows(jobs: JobQuerySet) -> list[Row]:
    return [Row(*values) for values in jobs.values_list(*Row._fields)]


def _task(ask: Ask, row: Row, asked: str, name: str) -> dict[str, Any]:
    """The task by the type and the id that the caller knows."""
    type_ = type_snapshots([row.type]).get(row.type)
    return task_of(row, ask.dialect, type_=type_, task_id=name, task_type=asked)


def _task_without_secrets(ask: Ask, row: Row, asked: str, name: str) -> dict[str, Any]:
    """The task for somebody who looks at it, and has not held it."""
    if ask.masks:
        shown = {
            "task_context": _mask_text(row.newest_context),
            "schedule_log": _mask_text(row.log),
        }
        return _task(ask, row, asked, name) | ask.dialect.spelled_all(shown)
    return _task(ask, row, asked, name)


def _mask_text(text: str) -> str:
    """The text without secrets, also within the JSON that it usually is."""
    try:
        return json.dumps(redact(json.loads(text)), ensure_ascii=False)
    except ValueError:
        return str(redact(text))


# --- all of them ----------------------------------------------------------------------------------
class Call(NamedTuple):
    """A call: the function that carries it out, its scope, and its number for a failure."""

    run: Callable[[Ask], Any]
    scope: Scope
    failure: int

    @property
    def bindings(self) -> frozenset[Binding]:
        """The bindings that a key may have for the call: holding is not narrowed by users."""
        takes_users = self.scope in (Scope.READ, Scope.SUBMIT)
        return frozenset(Binding) if takes_users else frozenset({Binding.JOB_TYPES})


CALLS: Mapping[str, Call] = {
    "settings": Call(list_settings, Scope.HOLD, d.CONFIG),
    "hold": Call(hold, Scope.HOLD, d.INPUT),
    "set": Call(set_task, Scope.HOLD, d.SET),
    "create": Call(create, Scope.SUBMIT, d.CREATE),
    "get": Call(get, Scope.READ, d.UNKNOWN_TASK),
    "list": Call(list_tasks, Scope.READ, d.LIST),
    "list_of_user": Call(list_of_user, Scope.READ, d.LIST),
    "count": Call(count, Scope.READ, d.INPUT),
    "register": Call(register_type, Scope.OPERATE, d.REGISTER),
    "configure": Call(configure, Scope.OPERATE, d.CONFIG),
}
