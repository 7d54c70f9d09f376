"""The rows of submitted jobs, and their insertion beside the jobs that have their keys already."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import DatabaseError, connection

from apps.common import ids
from apps.common.chunks import chunks
from apps.common.db import (
    Statement,
    execute,
    execute_all,
    is_retryable,
    transactional,
    written,
)
from apps.common.errors import Conflict
from apps.common.messages import Message as _
from apps.common.rows import insert_values, insertions
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
from apps.jobs.services.on_twin import TwinChange, change_twins
from apps.jobs.services.request import Request
from apps.jobs.services.twins import open_twins

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
ID, TYPE, _UNIQUE_KEY, _STAGE, STATUS, _PRIORITY, LIMIT = map(
    _COLUMNS.index,
    ("id", "type", "unique_key", "stage", "status", "priority", "limit_id"),
)
# Columns that only some jobs have: follow-ups, those that are part of something, those that keep
# their key, those of one host.
UNDER, PART = ("parent", "depth"), ("part_of",)
_KEEPING, _THERE = ("unique_for",), ("together", "affinity_host")
Row = tuple[Any, ...]


def rows_of(
    jobs: Sequence[Submission],
    contexts: list[str],
    known: dict[str, TypeSnapshot],
    now: datetime,
    by: str,
    *,
    more: tuple[tuple[str, ...], Sequence[Row]] = ((), ()),
    hosts: Sequence[str] = (),
) -> tuple[list[Row], tuple[str, ...]]:
    """The values of each job and their columns; `more` are further columns with their values for
    each job, `hosts` the hosts of a job for everywhere."""
    rows = _rows(jobs, contexts, known, now, by)
    names, values = more
    columns: tuple[str, ...] = (*_COLUMNS, *names)
    if names:
        rows = _with(rows, values)
    if any(job.unique_for for job in jobs):
        rows, columns = _with(rows, [(job.unique_for,) for job in jobs]), (*columns, *_KEEPING)
    if hosts:
        rows, columns = _with(rows, [(rows[0][ID], host) for host in hosts]), (*columns, *_THERE)
    return rows, columns


def insert(
    rows: list[Row],
    columns: tuple[str, ...],
    jobs: Sequence[Submission],
    bounds: Bounds,
    now: datetime,
    by: str,
    *,
    hosts: Sequence[str] = (),
    request: Request | None = None,
) -> list[Submitted]:
    """Insert the rows of these jobs, but those whose key another job has, and the answer to the
    request for them."""
    if any(row[_UNIQUE_KEY] is not None for row in rows):
        return _insert_unless_taken(rows, columns, jobs, bounds, now, by, request)
    answers = [Submitted(row[ID], True, row[STATUS]) for row in rows]
    if hosts:
        answers = [each._replace(host=host) for each, host in zip(answers, hosts, strict=True)]
    _insert(rows, columns, request.keeping(answers) if request else [])
    return answers


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


def _insert(rows: list[Row], columns: tuple[str, ...], beside: Sequence[Statement]) -> None:
    """All rows, and what these statements write, or nothing; one statement needs no transaction of
    its own for that."""
    statements = [*insertions(Job, columns, rows)] if len(rows) <= MAX_AT_ONCE else []
    if len(statements) != 1:
        _insert_together(rows, columns, beside)
        return
    try:
        if beside:
            execute_all([*statements, *beside])
        else:
            execute(*statements[0])
    except DatabaseError as error:
        if connection.in_atomic_block or not is_retryable(error):
            raise
        _insert_together(rows, columns, beside)


@transactional
def _insert_together(
    rows: list[Row], columns: tuple[str, ...], beside: Sequence[Statement] = ()
) -> None:
    for part in chunks(rows, MAX_AT_ONCE):
        insert_values(Job, columns, part)
    for sql, values in beside:
        execute(sql, values)


@transactional
def _insert_unless_taken(
    rows: list[Row],
    columns: tuple[str, ...],
    jobs: Sequence[Submission],
    bounds: Bounds,
    now: datetime,
    by: str,
    request: Request | None,
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
    twins |= {row[_UNIQUE_KEY]: Submitted(row[ID], False, row[STATUS]) for row in fresh}
    answers = []
    wishes = []
    for job, row in zip(jobs, rows, strict=True):
        created = Submitted(row[ID], True, row[STATUS])
        twin = twins.get(row[_UNIQUE_KEY], created)
        if twin.id == created.id:
            answers.append(created)
            continue
        answers.append(twin._replace(twin=RETURNED))
        # Of one that runs no lock is asked for: its worker may have it, and wait for that of a key.
        if job.on_twin != RETURN and twin.status in WAITING:
            wishes.append(TwinChange(twin.id, job, row[_STAGE], row[_PRIORITY], _run_at(job, now)))
    done = change_twins(wishes, now, by) if wishes else {}
    answers = [
        each._replace(status=done[each.id][0], twin=done[each.id][1])
        if not each.created and each.id in done
        else each
        for each in answers
    ]
    if request:
        request.keep_answer(answers)
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
