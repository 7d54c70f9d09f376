"""The claim: one transaction in which everything is checked again and the dispatch is made."""

from __future__ import annotations

import functools
import json
from datetime import datetime, timedelta
from typing import Any

from apps.common import ids
from apps.common.db import fetch, shared_lock, table, transactional
from apps.common.rows import insert_rows
from apps.common.shaped import is_object
from apps.dispatch.models import (
    TASK_MODELS,
    Dispatch,
    Executor,
    Membership,
    OnceTask,
    Stock,
    Task,
    Template,
)
from apps.dispatch.rules.queue import Candidate
from apps.dispatch.services.candidates import Eligible
from apps.dispatch.services.executor_state import ExecutorState
from apps.journal import services as journal
from apps.journal.models import Source

_MS = timedelta(milliseconds=1)


class Lost(Exception):
    """The candidate is no longer available; the transaction must be rolled back."""


@transactional
def claim(
    state: ExecutorState, eligible: Eligible, now: datetime, *, actor: str = "", reason: str = ""
) -> Dispatch:
    """Hand the candidate out to the executor; the `actor` is another than that when it is given.

    1. Lock task, executors and membership (shared) until commit: a delete, a disabling, a leave or
       an edit that has been answered is never overtaken.
    2. Insert the dispatch; its unique keys prove that the user has no other one open, and that
       `last` is still the latest dispatch of the occurrence. This comes before the stock, so that
       the loser of two pulls of one user never touches a stock.
    3. Count it in the stock.
    4. Write the journal.

    Lost when it is no longer available. IntegrityError when the user has got another dispatch, or
    another transaction created the stock row first: roll back and retry, because waiting while
    holding the lock of the failed INSERT would deadlock.
    """
    candidate, last, carried, has_stock = eligible
    fields = _locked_task(candidate, state.pk, now)
    row = {
        # Not of `now`: the later the id, the sooner its commit, and the fewer readers it surprises.
        "id": ids.next_id(),
        "executor_id": state.pk,
        "open_for": state.pk,
        "source": candidate.source,
        "task": candidate.task,
        "occurrence": candidate.occurrence,
        "occurrence_at": candidate.occurrence_at,
        "round": 0 if last is None else last.rounds,
        "dispatched_at": now,
        "deadline_at": now + timedelta(seconds=candidate.policy.lease_seconds),
        **fields,
    }
    insert_rows(Dispatch, [row])
    dispatch = Dispatch(**row)
    if carried is not None:
        # The stock of the failed round, or of who had it before, goes over to this one.
        failed = Dispatch.objects.filter(pk=carried, holds_stock=True)
        is_counted = bool(failed.update(holds_stock=False))
    elif has_stock:
        limit = candidate.policy.dispatch_times
        is_counted = Stock.objects.take(*candidate.identity, limit=limit)
    else:
        Stock.objects.begin(*candidate.identity)
        is_counted = True
    if not is_counted:
        raise Lost
    before = "" if last is None else last.state
    journal.write([_entry(dispatch, state.name, before, actor or state.name, reason)])
    return dispatch


def _locked_task(candidate: Candidate, user: int, now: datetime) -> dict[str, Any]:
    """The fields that the dispatch takes from its task, which stays locked; Lost when the task may
    not be handed to the user now, or has another version than its candidate."""
    sql = _task_statement(candidate.source, is_own=candidate.owner == user)
    status = Task.Status.ACTIVE.value
    rows = fetch(sql, [candidate.task, candidate.version, status, user, now])
    if not rows:
        raise Lost
    title, params, part_of, template_name, template_version = rows[0]
    return {
        "title": title,
        "params": json.loads(params),
        "template_name": template_name or "",
        "template_version": template_version,
        "part_of": part_of,
    }


@functools.cache
def _task_statement(source: str, *, is_own: bool) -> str:
    people = table(Executor)
    part_of = "t.part_of" if source == OnceTask.source else "NULL"
    reaches = (
        f"JOIN {people} u ON u.id = t.executor_id "
        if is_own
        else f"JOIN {people} e ON e.id = t.executor_id AND e.enabled "
        f"JOIN {table(Membership)} m ON m.group_id = e.id "
        f"JOIN {people} u ON u.id = m.user_id "
    )
    return (
        f"SELECT t.title, t.params, {part_of}, p.name, p.version "
        f"FROM {table(TASK_MODELS[source])} t {reaches}"
        f"LEFT JOIN {table(Template)} p ON p.id = t.template_id "
        "WHERE t.id = %s AND t.version = %s AND t.status = %s AND u.id = %s AND u.enabled "
        f"AND (t.end_at IS NULL OR t.end_at > %s) AND {is_object('t.params')}{shared_lock()}"
    )


def _entry(
    dispatch: Dispatch, executor: str, from_state: str, actor: str, reason: str
) -> journal.Entry:
    """The journal's line on the dispatch; `from_state` is how the round before it ended."""
    return journal.Entry(
        at=dispatch.dispatched_at,
        source=Source.DISPATCH,
        subject_id=dispatch.pk,
        event="handed_out",
        from_state=from_state,
        to_state=Dispatch.State.OPEN,
        attempt=dispatch.round + 1,
        type_or_task=dispatch.task_label,
        executor=executor,
        actor=actor,
        reason=reason,
        wait_ms=(dispatch.dispatched_at - dispatch.occurrence_at) // _MS,
    )
