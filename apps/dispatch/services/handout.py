"""The hand-out: one transaction in which everything is checked again."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common import ids
from apps.common.db import Statement, execute_each, run_each, shared_lock, table, transactional
from apps.common.rows import insertion
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, Membership, Stock, Task, Template
from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.policy import PastDispatch, verdict
from apps.dispatch.rules.queue import Candidate
from apps.dispatch.services.plan import columns_of, planned_from
from apps.dispatch.services.queue import Opening
from apps.dispatch.services.standing import Standing
from apps.journal import services as journal
from apps.journal.models import Source

_MS = timedelta(milliseconds=1)


class _Locked(NamedTuple):
    """A task that may be handed to the executor, with what its dispatch says of it."""

    planned: Planned
    title: str
    params: Any
    template_name: str
    template_version: int | None


class Lost(Exception):
    """What seemed free cannot be had any more; the transaction must be rolled back."""


def hand_out(standing: Standing, opening: Opening, now: datetime) -> Dispatch | None:
    """Hand the opening out, if everything still holds; None when it does not.

    IntegrityError when the user has got another dispatch meanwhile, or another user has begun the
    stock.
    """
    try:
        return _hand_out(standing, opening, now)
    except Lost:
        return None


def give(
    standing: Standing,
    opening: Opening,
    now: datetime,
    *,
    closing: Sequence[Statement] = (),
    told_before: Sequence[journal.Entry] = (),
) -> Dispatch:
    """The hand-out within the caller's transaction, told in the journal after those entries.

    What `closing` does comes first; it has to change a row.

    Task, executors and membership stay locked (shared) until commit, so that a delete, a
    disabling or a leave that has been answered is never overtaken by a hand-out. That `last` of the
    opening is still the latest dispatch, the unique key of its round proves. The dispatch comes
    before the stock: who loses to another pull of the same user has then touched no stock, and
    nobody waits for a new stock row that is taken back.

    Lost when something does not hold any more; IntegrityError as above. Who begins a stock that
    another has begun lets go of it: to count on, holding what a failed INSERT has locked, would be
    a deadlock of two.
    """
    candidate, last, has_stock = opening
    task = _locked_task(standing, candidate, now, closing)
    due_at = None if task is None else task.planned.due_at(candidate.occurrence, now)
    if task is None or due_at is None:
        raise Lost
    answer = verdict(task.planned.policy, last, now)
    if not answer.allows:
        raise Lost
    row = _row(standing, candidate, task, due_at, 0 if last is None else last.rounds, now)
    dispatch = Dispatch(**row)
    if answer.carried is not None:
        # The failed round's stock goes over to this one.
        stock = _carrying(answer.carried)
    elif has_stock:
        stock = Stock.objects.taking(
            *candidate.identity, at_most=task.planned.policy.dispatch_times
        )
    else:
        stock = Stock.objects.beginning(*candidate.identity)
    _, taken, _ = execute_each(
        insertion(Dispatch, [row]),
        stock,
        journal.insertion([*told_before, _entry(standing, dispatch, last)]),
    )
    if not taken:
        raise Lost
    return dispatch


_hand_out = transactional(give)


@functools.cache
def _lock_statement(source: str) -> str:
    model = TASK_MODELS[source]
    people = table(Executor)
    return (
        f"SELECT p.name, p.version, t.title, t.params, {columns_of(source, 't')} "  # noqa: S608
        f"FROM {table(model)} t "
        f"JOIN {people} u ON u.id = %s JOIN {people} e ON e.id = t.executor_id "
        f"LEFT JOIN {table(Membership)} m ON m.group_id = e.id AND m.user_id = u.id "
        f"LEFT JOIN {table(Template)} p ON p.id = t.template_id "
        "WHERE t.id = %s AND t.status = %s AND u.enabled AND e.enabled "
        "AND (e.id = u.id OR m.id IS NOT NULL) "
        f"AND (t.end_at IS NULL OR t.end_at > %s){shared_lock()}"
    )


def _locked_task(
    standing: Standing, candidate: Candidate, now: datetime, closing: Sequence[Statement]
) -> _Locked | None:
    """The task, locked, if it may be handed to the executor now; Lost when nothing was closed."""
    lock = _lock_statement(candidate.source)
    *closed, (rows, _) = run_each(
        *closing, (lock, [standing.pk, candidate.task, Task.Status.ACTIVE.value, now])
    )
    if closed and not closed[0][1]:
        raise Lost
    if not rows:
        return None
    template, version, title, params, *values = rows[0]
    planned = planned_from(candidate.source, values, {})
    return _Locked(planned, title, json.loads(params), template or "", version)


def _carrying(number: int) -> Statement:
    return (
        f"UPDATE {table(Dispatch)} SET holds_stock = %s WHERE id = %s AND holds_stock",  # noqa: S608
        [False, number],
    )


def _row(
    standing: Standing,
    candidate: Candidate,
    task: _Locked,
    due_at: datetime,
    earlier: int,
    now: datetime,
) -> dict[str, Any]:
    return {
        "id": ids.next_id(),
        "executor_id": standing.pk,
        "open_for": standing.pk,
        "source": candidate.source,
        "task": candidate.task,
        "occurrence": candidate.occurrence,
        "occurrence_at": due_at,
        "title": task.title,
        "params": task.params,
        "template_name": task.template_name,
        "template_version": task.template_version,
        "round": earlier,
        "dispatched_at": now,
        "deadline_at": now + timedelta(seconds=task.planned.policy.lease_seconds),
    }


def _entry(standing: Standing, dispatch: Dispatch, last: PastDispatch | None) -> journal.Entry:
    """A repeat tells how the round before it ended."""
    return journal.Entry(
        at=dispatch.dispatched_at,
        source=Source.DISPATCH,
        subject_id=dispatch.pk,
        event="handed_out",
        from_state="" if last is None else last.state,
        to_state=Dispatch.State.OPEN,
        attempt=dispatch.round + 1,
        type_or_task=dispatch.task_label,
        executor=standing.name,
        actor=standing.name,
        wait_ms=(dispatch.dispatched_at - dispatch.occurrence_at) // _MS,
    )
