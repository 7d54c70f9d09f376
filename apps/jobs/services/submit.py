"""Submitting jobs: one INSERT for up to 1,000 of them, within the caller's transaction.

    from apps.jobs.services.submit import submit

    with transaction.atomic():
        order.save()
        submit("mail", {"to": order.email}, key=f"order-{order.pk}", unique=True)

A rollback removes the job; a commit wakes waiting workers once.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import DatabaseError, connection

from apps.common import clock, ids
from apps.common.db import is_retryable, transactional, written
from apps.common.errors import Conflict, FieldError, refusal
from apps.common.json.schema import MAX_COST
from apps.common.json_rules import MAX_BYTES, check_size
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.rows import MAX_LETTERS, insert_values, letters_of
from apps.jobs import wakeup
from apps.jobs.conf import conf
from apps.jobs.handlers import registry
from apps.jobs.models import Bounds, Job
from apps.jobs.rules.order import order_key, score_key
from apps.jobs.rules.submission import (
    Submission,
    Submitted,
    faults,
    shard_of,
    type_faults,
    unique_key,
)
from apps.jobs.rules.transitions import BLOCKED, READY, SCHEDULED
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.admission import admit_after_commit
from apps.jobs.services.twins import open_twins
from apps.jobs.services.type_snapshots import type_snapshots
from apps.jobs.services.types import open_types

__all__ = [
    "MAX_AT_ONCE",
    "Submission",
    "Submitted",
    "faults_of",
    "field_errors",
    "submit",
    "submit_many",
]

MAX_AT_ONCE = 1000
MAX_ERRORS = 100
MAX_NAMED = 20

_COLUMNS = (
    "id",
    "type",
    "key",
    "is_unique",
    "unique_key",
    "user_id",
    "context",
    "stage",
    "status",
    "shard",
    "priority",
    "order_key",
    "run_at",
    "expected_at",
    "max_attempts",
    "trace_id",
    "submitted_by",
    "created_at",
    "limit_id",
)
_ID, _TYPE, _UNIQUE_KEY, _CONTEXT, _STATUS, _LIMIT = map(
    _COLUMNS.index, ("id", "type", "unique_key", "context", "status", "limit_id")
)
# Of follow-ups.
_UNDER = ("parent", "depth")
Row = tuple[Any, ...]
# The bounds of the platform's own code.
PLATFORM = Bounds()


class Parent(NamedTuple):
    """The job that submits others with its end, and how deep these are."""

    id: int
    depth: int


_FOREIGN_USER = _(
    "Only jobs of some executors are within reach here; write the name of one of their users as "
    "user_id."
)

_SYSTEM = _("The platform itself submits the jobs of {name!r}; choose another job type.")
_FOR_CODE = _(
    "Code enqueues the tasks of {name!r}; choose another job type, or have its queue named in "
    "OPEN_TASK_QUEUES."
)


def submit(
    type: str,  # noqa: A002 - the word of the API
    context: dict[str, Any] | None = None,
    *,
    key: str = "",
    run_at: datetime | None = None,
    delay: timedelta | None = None,
    priority: int | None = None,
    max_attempts: int | None = None,
    unique: bool = False,
    user_id: str = "",
    stage: str | None = None,
    route_key: str = "",
    trace_id: str = "",
    by: str = "",
    bounds: Bounds | None = None,
) -> Submitted:
    """Make a job of the type; what is left out its type decides. Fields: see `Submission`.

    `by` is the caller, who reaches jobs within `bounds` only; without bounds the platform's own
    code asks. Invalid names every wrong field; the type's schema validates the context.
    """
    job = Submission(
        type=type,
        key=key,
        context={} if context is None else context,
        run_at=run_at,
        delay=delay,
        priority=priority,
        max_attempts=max_attempts,
        unique=unique,
        user_id=user_id,
        stage=stage,
        route_key=route_key,
        trace_id=trace_id,
    )
    return _submit([job], by=by, bounds=bounds or PLATFORM, path="")[0]


def submit_many(
    submissions: Sequence[Submission], *, by: str = "", bounds: Bounds | None = None
) -> list[Submitted]:
    """Make all of these jobs or none; the answers are in their order.

    Types outside the bounds count as unknown. Invalid names wrong fields as `jobs[3].type`.
    Conflict when an open twin is outside the bounds.
    """
    return _submit(submissions, by=by, bounds=bounds or PLATFORM, path="jobs[{}].")


def submit_under(jobs: Sequence[tuple[Parent, Submission]], *, by: str) -> list[Submitted]:
    """Make these jobs, which `faults_of` found no fault with, each under its parent."""
    parents = [parent for parent, _job in jobs]
    return _submit([job for _parent, job in jobs], by=by, bounds=PLATFORM, path="", under=parents)


def _submit(
    jobs: Sequence[Submission],
    *,
    by: str,
    bounds: Bounds,
    path: str,
    under: Sequence[Parent] = (),
) -> list[Submitted]:
    if not jobs:
        return []
    now = clock.now()
    known = type_snapshots({job.type for job in jobs})
    if bounds.types is not None:
        known = {name: type_ for name, type_ in known.items() if name in bounds.types}
    _check(jobs, known, bounds, now, path)
    contexts = _texts(jobs, path)
    rows = _rows(jobs, contexts, known, now, by)
    if under:
        rows = [(*row, *parent) for row, parent in zip(rows, under, strict=True)]
    if any(row[_UNIQUE_KEY] is not None for row in rows):
        answers = _insert_unless_open(rows, bounds)
    else:
        _insert(rows)
        answers = [Submitted(row[_ID], True, row[_STATUS]) for row in rows]
    ready = {
        answer.id: job.type
        for job, answer in zip(jobs, answers, strict=True)
        if answer.created and answer.status == READY
    }
    rest = zip(rows, answers, strict=True)
    blocked = [row for row, answer in rest if answer.created and answer.status == BLOCKED]
    admit_after_commit({row[_LIMIT]: row[_TYPE] for row in blocked})
    types = set(ready.values())
    for lane in {known[name].lane for name in types}:
        type_ = types.pop() if len(types) == 1 else ""
        wakeup.announce(lane, type_, next(iter(ready)) if len(ready) == 1 else 0)
    return answers


def field_errors(job: Submission, bounds: Bounds) -> list[FieldError]:
    """Everything that `submit` would refuse, except a context that is too large."""
    return faults_of([job], bounds)[0]


def faults_of(jobs: Sequence[Submission], bounds: Bounds) -> list[list[FieldError]]:
    """`field_errors` of each."""
    users, now = _users_of(jobs, bounds), clock.now()
    known = type_snapshots({job.type for job in jobs}) if jobs else {}
    if bounds.types is not None:
        known = {name: type_ for name, type_ in known.items() if name in bounds.types}
    return [list(_faults(job, known.get(job.type), bounds, users, now)) for job in jobs]


# --- validating ---------------------------------------------------------------------------------
def _check(
    jobs: Sequence[Submission],
    known: dict[str, TypeSnapshot],
    bounds: Bounds,
    now: datetime,
    path: str,
) -> None:
    """Raise one error that lists what is wrong with the jobs, or with the first of them."""
    found: list[FieldError] = []
    cost = 0
    users = _users_of(jobs, bounds)
    for position, job in enumerate(jobs):
        type_ = known.get(job.type)
        wrong = list(_faults(job, type_, bounds, users, now))
        if wrong:
            prefix = path.format(position)
            found += [FieldError(prefix + e.field, e.code, e.message) for e in wrong]
            if type_ is not None and type_.checker is not None:
                cost += type_.checker.cost(job.context)
            if len(found) >= MAX_ERRORS or cost > MAX_COST:
                break
    if found:
        raise refusal(found[:MAX_ERRORS])


def _users_of(jobs: Sequence[Submission], bounds: Bounds) -> set[str] | None:
    """Those users of the jobs that are within the bounds; None for all."""
    if bounds.users is None:
        return None
    users = bounds.users.among({job.user_id for job in jobs})
    return users | {""} if bounds.takes_nobodys else users


def _faults(
    job: Submission,
    type_: TypeSnapshot | None,
    bounds: Bounds,
    users: set[str] | None,
    now: datetime,
) -> Iterator[FieldError]:
    if type_ is None:
        yield unknown_type(job.type, bounds.types)
    elif bounds is not PLATFORM and registry.is_closed(job.type):
        message = _SYSTEM if registry.is_system(job.type) else _FOR_CODE
        yield FieldError("type", "invalid", Message(message, name=job.type))
    if users is not None and job.user_id not in users:
        yield FieldError("user_id", "invalid", _FOREIGN_USER)
    is_context = True
    for fault in faults(job, now):
        is_context = is_context and not fault.field.startswith("context")
        yield fault
    if type_ is not None:
        yield from type_faults(job, type_, is_context=is_context)


def unknown_type(name: str, bound: Collection[str] | None) -> FieldError:
    """No such type exists, or the API key may not use it; the message names known ones."""
    known = list(open_types(bound).values_list("name", flat=True)[: MAX_NAMED + 1])
    short = name[:80]
    if near := difflib.get_close_matches(name, known, n=1):
        message = _("There is no job type {name!r}; did you mean {near}?", name=short, near=near[0])
    elif known:
        some = ", ".join([*known[:MAX_NAMED], *(["…"] if len(known) > MAX_NAMED else [])])
        message = _("There is no job type {name!r}; known are: {known}.", name=short, known=some)
    else:
        message = _("There is no job type {name!r}; make one first.", name=short)
    return FieldError("type", "invalid", message)


def _texts(jobs: Sequence[Submission], path: str) -> list[str]:
    """The contexts as JSON text; TooLarge when one exceeds the limit."""
    texts = [json.dumps(job.context) for job in jobs]
    for position, text in enumerate(texts):
        # Escaped text is never shorter than UTF-8.
        if len(text) > MAX_BYTES:
            check_size(jobs[position].context, field=f"{path.format(position)}context")
    return texts


# --- writing ------------------------------------------------------------------------------------
def _rows(
    jobs: Sequence[Submission],
    contexts: list[str],
    known: dict[str, TypeSnapshot],
    now: datetime,
    by: str,
) -> list[Row]:
    """The values of each job in the order of _COLUMNS."""
    weight_ms = conf.JOB_PRIORITY_WEIGHT_MS
    written_now = written(now)
    by = by[:160]
    order_keys: dict[int, int] = {}
    rows = []
    for job, context, pk in zip(jobs, contexts, ids.next_ids(len(jobs), now), strict=True):
        type_ = known[job.type]
        priority = type_.default_priority if job.priority is None else job.priority
        number = type_.limit_id(key=job.key, user_id=job.user_id, context=job.context)
        run_at = _run_at(job, now)
        if run_at is now:
            status, at = READY if number is None else BLOCKED, written_now
            place = order_keys.get(priority)
            if place is None:
                place = order_key(now, priority=priority, attempts=0, weight_ms=weight_ms)
                order_keys[priority] = place
        else:
            status, at = SCHEDULED, written(run_at)
            place = order_key(run_at, priority=priority, attempts=0, weight_ms=weight_ms)
        if job.score is not None:
            place = score_key(job.score)
        is_unique = job.is_unique(type_)
        rows.append(
            (
                pk,
                job.type,
                job.key,
                is_unique,
                unique_key(job.type, job.key) if is_unique else None,
                job.user_id,
                context,
                job.first_stage(type_),
                status,
                shard_of(job.route_key or job.key or str(pk)),
                priority,
                place,
                at,
                at,
                job.max_attempts or type_.max_attempts,
                job.trace_id,
                by,
                written_now,
                number,
            )
        )
    return rows


def _run_at(job: Submission, now: datetime) -> datetime:
    if job.run_at is not None:
        return job.run_at if job.run_at > now else now
    return now + job.delay if job.delay else now


def _insert(rows: list[Row]) -> None:
    """All rows or none; one statement needs no transaction of its own for that."""
    if len(rows) > MAX_AT_ONCE or letters_of(row[_CONTEXT] for row in rows) > MAX_LETTERS:
        _insert_together(rows)
        return
    try:
        insert_values(Job, _columns_of(rows), rows)
    except DatabaseError as error:
        if connection.in_atomic_block or not is_retryable(error):
            raise
        _insert_together(rows)


@transactional
def _insert_together(rows: list[Row]) -> None:
    for start in range(0, len(rows), MAX_AT_ONCE):
        insert_values(Job, _columns_of(rows), rows[start : start + MAX_AT_ONCE])


def _columns_of(rows: Sequence[Row]) -> tuple[str, ...]:
    return _COLUMNS if not rows or len(rows[0]) == len(_COLUMNS) else (*_COLUMNS, *_UNDER)


@transactional
def _insert_unless_open(rows: list[Row], bounds: Bounds) -> list[Submitted]:
    """Insert all rows but those with an open twin, in the table or before them in the list.

    No statement fails for it, so nothing spoils the caller's transaction.
    """
    first: dict[str, Row] = {}
    for row in rows:
        if row[_UNIQUE_KEY] is not None:
            first.setdefault(row[_UNIQUE_KEY], row)
    twins = open_twins(first)
    _require_within(bounds, [twin.id for twin in twins.values()])
    fresh = [row for key, row in first.items() if key not in twins]
    _insert_together(fresh + [row for row in rows if row[_UNIQUE_KEY] is None])
    twins |= {row[_UNIQUE_KEY]: Submitted(row[_ID], False, row[_STATUS]) for row in fresh}
    answers = []
    for row in rows:
        created = Submitted(row[_ID], True, row[_STATUS])
        twin = twins.get(row[_UNIQUE_KEY], created)
        answers.append(created if twin.id == created.id else twin)
    return answers


def _require_within(bounds: Bounds, twins: Sequence[int]) -> None:
    """Conflict, without their numbers, when some of these jobs are outside the bounds."""
    if bounds.users is None or not twins:
        return
    if Job.objects.within(bounds).filter(pk__in=twins).count() < len(twins):
        raise Conflict(
            _(
                "A job of this type and key is open for a user who is out of reach here; use "
                "another key of the job, or wait until that one ends."
            )
        )
