"""Submitting jobs: one INSERT for up to 1,000 of them, within the caller's transaction.

    from apps.jobs.services.submit import submit

    with transaction.atomic():
        order.save()
        submit("mail", {"to": order.email}, key=f"order-{order.pk}", unique=True)

A rollback removes the job; a commit wakes waiting workers once. `everywhere=True` makes a job for
each host where a worker is alive that serves the type.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, overload

from django.db import DatabaseError, connection

from apps.common import clock, ids
from apps.common.db import is_retryable, transactional, written
from apps.common.errors import Conflict, Invalid, refusal
from apps.common.messages import Message as _
from apps.common.rows import MAX_LETTERS, insert_values, letters_of
from apps.jobs import wakeup
from apps.jobs.conf import conf
from apps.jobs.models import Bounds, Job
from apps.jobs.rules.order import order_key, score_key
from apps.jobs.rules.submission import (
    RETURN,
    RETURNED,
    Submission,
    Submitted,
    shard_of,
    unique_key,
)
from apps.jobs.rules.transitions import BLOCKED, READY, SCHEDULED, WAITING
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.admission import admit_after_commit
from apps.jobs.services.living import hosts_serving
from apps.jobs.services.on_twin import TwinChange, change_twins
from apps.jobs.services.submit_check import PLATFORM, check, texts_of, twin_faults
from apps.jobs.services.twins import open_twins
from apps.jobs.services.type_snapshots import type_snapshots

__all__ = [
    "MAX_AT_ONCE",
    "Submission",
    "Submitted",
    "submit",
    "submit_many",
    "submit_part",
]

MAX_AT_ONCE = 1000

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
_ID, _TYPE, _UNIQUE_KEY, _CONTEXT, _STATUS, _PRIORITY, _LIMIT = map(
    _COLUMNS.index,
    ("id", "type", "unique_key", "context", "status", "priority", "limit_id"),
)
# Columns that only some jobs have: follow-ups, those that are part of something, those that keep
# their key, those of one host.
_UNDER, _PART = ("parent", "depth"), ("part_of",)
_KEEPING, _THERE = ("unique_for",), ("together", "affinity_host")
Row = tuple[Any, ...]


class Parent(NamedTuple):
    """The job that submits others with its end, and how deep these are."""

    id: int
    depth: int


class SubmissionFields(TypedDict, total=False):
    """The optional fields of a submission, see `Submission`."""

    key: str
    run_at: datetime | None
    delay: timedelta | None
    priority: int | None
    max_attempts: int | None
    unique: bool
    unique_for: int | None
    on_twin: str
    user_id: str
    stage: str | None
    route_key: str
    trace_id: str


@overload
def submit(
    type: str,
    context: dict[str, Any] | None = None,
    *,
    everywhere: Literal[False] = False,
    by: str = "",
    bounds: Bounds | None = None,
    **fields: Unpack[SubmissionFields],
) -> Submitted: ...
@overload
def submit(
    type: str,
    context: dict[str, Any] | None = None,
    *,
    everywhere: Literal[True],
    by: str = "",
    bounds: Bounds | None = None,
    **fields: Unpack[SubmissionFields],
) -> list[Submitted]: ...
def submit(
    type: str,  # noqa: A002 - the word of the API
    context: dict[str, Any] | None = None,
    *,
    everywhere: bool = False,
    by: str = "",
    bounds: Bounds | None = None,
    **fields: Unpack[SubmissionFields],
) -> Submitted | list[Submitted]:
    """Make a job of the type; what is left out its type decides. Fields: see `Submission`.

    `by` is the caller, who reaches jobs within `bounds` only; without bounds the platform's own
    code asks. Invalid names every wrong field; the type's schema validates the context. With
    `everywhere` a job for each host, as `submit_everywhere`.
    """
    job = Submission(type, {} if context is None else context, **fields)
    if everywhere:
        return submit_everywhere(job, by=by, bounds=bounds)
    return _submit([job], by=by, bounds=bounds or PLATFORM, path="")[0]


def submit_everywhere(
    job: Submission, *, by: str = "", bounds: Bounds | None = None
) -> list[Submitted]:
    """Make the job once for each host with a living worker that serves its type, bound to it; the
    answers name the hosts. Conflict when there is none."""
    return _submit([job], by=by, bounds=bounds or PLATFORM, path="", everywhere=True)


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
    return _submit(
        [job for _parent, job in jobs], by=by, bounds=PLATFORM, path="", more=(_UNDER, parents)
    )


def submit_part(jobs: Sequence[Submission], *, part_of: int, by: str) -> list[Submitted]:
    """Make all of these jobs, which are part of that number, or none; the ids ascend.

    Invalid for what `faults_of_part` finds.
    """
    if found := [fault for name in {job.type for job in jobs} for fault in twin_faults(name)]:
        raise refusal(found)
    own = [(part_of,)] * len(jobs)
    path = "jobs[{}]." if len(jobs) > 1 else ""
    return _submit(jobs, by=by, bounds=PLATFORM, path=path, more=(_PART, own))


def _submit(
    jobs: Sequence[Submission],
    *,
    by: str,
    bounds: Bounds,
    path: str,
    more: tuple[tuple[str, ...], Sequence[Row]] = ((), ()),
    everywhere: bool = False,
) -> list[Submitted]:
    if not jobs:
        return []
    now = clock.now()
    known = type_snapshots({job.type for job in jobs})
    if bounds.types is not None:
        known = {name: type_ for name, type_ in known.items() if name in bounds.types}
    check(jobs, known, bounds, now, path)
    contexts = texts_of(jobs, path)
    hosts: Sequence[str] = ()
    if everywhere:
        hosts = _hosts(jobs[0], known[jobs[0].type], now)
        jobs, contexts = [*jobs] * len(hosts), contexts * len(hosts)
    rows = _rows(jobs, contexts, known, now, by)
    names, values = more
    columns: tuple[str, ...] = (*_COLUMNS, *names)
    if names:
        rows = _with(rows, values)
    if any(job.unique_for for job in jobs):
        rows, columns = _with(rows, [(job.unique_for,) for job in jobs]), (*columns, *_KEEPING)
    if hosts:
        rows, columns = _with(rows, [(rows[0][_ID], host) for host in hosts]), (*columns, *_THERE)
    if any(row[_UNIQUE_KEY] is not None for row in rows):
        answers = _insert_unless_taken(rows, columns, jobs, bounds, now, by)
    else:
        _insert(rows, columns)
        answers = [Submitted(row[_ID], True, row[_STATUS]) for row in rows]
    if hosts:
        answers = [each._replace(host=host) for each, host in zip(answers, hosts, strict=True)]
    ready = {
        answer.id: job.type
        for job, answer in zip(jobs, answers, strict=True)
        if answer.twin != RETURNED and answer.status == READY
    }
    rest = zip(rows, answers, strict=True)
    blocked = [row for row, answer in rest if answer.created and answer.status == BLOCKED]
    admit_after_commit({row[_LIMIT]: row[_TYPE] for row in blocked})
    types = set(ready.values())
    for lane in {known[name].lane for name in types}:
        type_ = types.pop() if len(types) == 1 else ""
        wakeup.announce(lane, type_, next(iter(ready)) if len(ready) == 1 else 0)
    return answers


# --- the steps ------------------------------------------------------------------------------------
def _hosts(job: Submission, type_: TypeSnapshot, now: datetime) -> list[str]:
    """Where a job for everywhere is to run; Invalid for a unique one, Conflict for nowhere."""
    if job.is_unique(type_):
        raise Invalid.field(
            "everywhere", _("A job for each host is not unique; leave one of both out.")
        )
    hosts = hosts_serving(type_, now)
    if not hosts:
        raise Conflict(
            _(
                "No worker is alive that serves {type} on a host with a name; start one, or submit "
                "it without everywhere.",
                type=type_.name,
            )
        )
    return hosts


# --- writing ------------------------------------------------------------------------------------
def _with(rows: Sequence[Row], more: Sequence[Row]) -> list[Row]:
    return [(*row, *values) for row, values in zip(rows, more, strict=True)]


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


def _insert(rows: list[Row], columns: tuple[str, ...]) -> None:
    """All rows or none; one statement needs no transaction of its own for that."""
    if len(rows) > MAX_AT_ONCE or letters_of(row[_CONTEXT] for row in rows) > MAX_LETTERS:
        _insert_together(rows, columns)
        return
    try:
        insert_values(Job, columns, rows)
    except DatabaseError as error:
        if connection.in_atomic_block or not is_retryable(error):
            raise
        _insert_together(rows, columns)


@transactional
def _insert_together(rows: list[Row], columns: tuple[str, ...]) -> None:
    for start in range(0, len(rows), MAX_AT_ONCE):
        insert_values(Job, columns, rows[start : start + MAX_AT_ONCE])


@transactional
def _insert_unless_taken(
    rows: list[Row],
    columns: tuple[str, ...],
    jobs: Sequence[Submission],
    bounds: Bounds,
    now: datetime,
    by: str,
) -> list[Submitted]:
    """Insert all rows but those whose key another job has, in the table or before them in the
    list, which does with it what is wished.

    No statement fails for it, so nothing spoils the caller's transaction.
    """
    first: dict[str, Row] = {}
    for row in rows:
        if row[_UNIQUE_KEY] is not None:
            first.setdefault(row[_UNIQUE_KEY], row)
    twins = open_twins(first)
    _require_within(bounds, [twin.id for twin in twins.values()])
    fresh = [row for key, row in first.items() if key not in twins]
    _insert_together(fresh + [row for row in rows if row[_UNIQUE_KEY] is None], columns)
    twins |= {row[_UNIQUE_KEY]: Submitted(row[_ID], False, row[_STATUS]) for row in fresh}
    answers = []
    wishes = []
    for job, row in zip(jobs, rows, strict=True):
        created = Submitted(row[_ID], True, row[_STATUS])
        twin = twins.get(row[_UNIQUE_KEY], created)
        if twin.id == created.id:
            answers.append(created)
            continue
        answers.append(twin._replace(twin=RETURNED))
        # Of one that runs no lock is asked for: its worker may have it, and wait for that of a key.
        if job.on_twin != RETURN and twin.status in WAITING:
            wishes.append(TwinChange(twin.id, job, row[_PRIORITY], _run_at(job, now)))
    done = change_twins(wishes, now, by) if wishes else {}
    return [
        each._replace(status=done[each.id][0], twin=done[each.id][1])
        if not each.created and each.id in done
        else each
        for each in answers
    ]


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
