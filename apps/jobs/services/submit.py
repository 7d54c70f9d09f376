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

from apps.common import clock
from apps.common.errors import Conflict, Invalid, refusal
from apps.common.messages import Message as _
from apps.jobs import wakeup
from apps.jobs.models import Bounds
from apps.jobs.rules.submission import (
    RETURNED,
    Submission,
    Submitted,
)
from apps.jobs.rules.transitions import BLOCKED, READY
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.admission import admit_after_commit
from apps.jobs.services.living import hosts_serving
from apps.jobs.services.request import Request
from apps.jobs.services.submit_check import PLATFORM, check, texts_of, twin_faults
from apps.jobs.services.submit_rows import (
    LIMIT,
    MAX_AT_ONCE,
    PART,
    TYPE,
    UNDER,
    Row,
    insert,
    rows_of,
)
from apps.jobs.services.type_snapshots import type_snapshots

__all__ = [
    "MAX_AT_ONCE",
    "Submission",
    "Submitted",
    "submit",
    "submit_many",
    "submit_part",
]


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
    job: Submission,
    *,
    by: str = "",
    bounds: Bounds | None = None,
    request: Request | None = None,
) -> list[Submitted]:
    """Make the job once for each host with a living worker that serves its type, bound to it; the
    answers name the hosts. Conflict when there is none."""
    bounds = bounds or PLATFORM
    return _submit([job], by=by, bounds=bounds, path="", everywhere=True, request=request)


def submit_many(
    submissions: Sequence[Submission],
    *,
    by: str = "",
    bounds: Bounds | None = None,
    request: Request | None = None,
) -> list[Submitted]:
    """Make all of these jobs or none; the answers are in their order, and kept with the jobs for a
    `request` that may be repeated.

    Types outside the bounds count as unknown. Invalid names wrong fields as `jobs[3].type`.
    Conflict when an open twin is outside the bounds.
    """
    bounds = bounds or PLATFORM
    return _submit(submissions, by=by, bounds=bounds, path="jobs[{}].", request=request)


def submit_under(jobs: Sequence[tuple[Parent, Submission]], *, by: str) -> list[Submitted]:
    """Make these jobs, which `faults_of` found no fault with, each under its parent."""
    parents = [parent for parent, _job in jobs]
    return _submit(
        [job for _parent, job in jobs], by=by, bounds=PLATFORM, path="", more=(UNDER, parents)
    )


def submit_part(jobs: Sequence[Submission], *, part_of: int, by: str) -> list[Submitted]:
    """Make all of these jobs, which are part of that number, or none; the ids ascend.

    Invalid for what `faults_of_parts` finds.
    """
    if found := [fault for name in {job.type for job in jobs} for fault in twin_faults(name)]:
        raise refusal(found)
    own = [(part_of,)] * len(jobs)
    path = "jobs[{}]." if len(jobs) > 1 else ""
    return _submit(jobs, by=by, bounds=PLATFORM, path=path, more=(PART, own))


def _submit(
    jobs: Sequence[Submission],
    *,
    by: str,
    bounds: Bounds,
    path: str,
    more: tuple[tuple[str, ...], Sequence[Row]] = ((), ()),
    everywhere: bool = False,
    request: Request | None = None,
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
    rows, columns = rows_of(jobs, contexts, known, now, by, more=more, hosts=hosts)
    answers = insert(rows, columns, jobs, bounds, now, by, hosts=hosts, request=request)
    ready = {
        answer.id: job.type
        for job, answer in zip(jobs, answers, strict=True)
        if answer.twin != RETURNED and answer.status == READY
    }
    rest = zip(rows, answers, strict=True)
    blocked = [row for row, answer in rest if answer.created and answer.status == BLOCKED]
    admit_after_commit({row[LIMIT]: row[TYPE] for row in blocked})
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
