"""How an open dispatch ends: one guarded UPDATE, the stock by policy, one journal entry."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from apps.common import clock
from apps.common.db import execute, table, transactional
from apps.common.errors import Conflict
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.errors import Closed
from apps.dispatch.models import TASK_MODELS, AnyDispatch, Dispatch, Stock
from apps.dispatch.rules import policy
from apps.dispatch.services.find import existing_dispatch
from apps.dispatch.services.parts import parts
from apps.journal import services as journal
from apps.journal.models import Source

State = Dispatch.State
HANDED_OVER = "handed_over"
OVERDUE = _("silent past the deadline")
_MS = timedelta(milliseconds=1)


def end(
    dispatch: Dispatch,
    to_state: str,
    *,
    now: datetime,
    executor: str = "",
    result: dict[str, Any] | None = None,
    message: str = "",
    actor: str = "",
    reason: str = "",
    is_overdue: bool = False,
    to: str = "",
    is_place_kept: bool = False,
) -> bool:
    """Close the dispatch within the caller's transaction; False when it was no longer open, and
    then nothing is changed.

    With `is_overdue` also when its deadline has been moved beyond `now`. On True the object carries
    its new state. The executor's name is read unless it is given. `to`: who gets it instead, as the
    journal says; with `is_place_kept` the stock stays for the claim of that one.
    """
    keeps_stock = is_place_kept or _keeps_stock(dispatch, to_state)
    sql = (
        f"UPDATE {table(Dispatch)} SET state = %s, open_for = NULL, holds_stock = %s, "
        "finished_at = %s, result = %s, message = %s WHERE id = %s AND state = %s"
    )
    written = None if result is None else json.dumps(result)
    values = [str(to_state), keeps_stock, now, written, message, dispatch.pk, State.OPEN.value]
    if is_overdue:
        sql, values = f"{sql} AND deadline_at <= %s", [*values, now]
    if not execute(sql, values):
        return False
    if not keeps_stock:
        Stock.objects.give_back(*dispatch.identity)
    dispatch.state, dispatch.open_for, dispatch.holds_stock = str(to_state), None, keeps_stock
    dispatch.finished_at, dispatch.result, dispatch.message = now, result, message
    entry = end_entry(
        dispatch,
        dispatch.state,
        now=now,
        executor=executor or dispatch.executor.name,
        actor=actor,
        reason=reason,
        error=message if dispatch.state == State.FAILED else "",
    )
    if to:
        entry = replace(entry, event=HANDED_OVER, data={"to": to})
    journal.write([entry])
    if dispatch.part_of is not None:
        parts.ended([dispatch.part_of])
    return True


def end_entry(
    dispatch: Dispatch,
    to_state: str,
    *,
    now: datetime,
    executor: str,
    actor: str = "",
    reason: str = "",
    error: str = "",
) -> journal.Entry:
    """The journal's line on the end of a dispatch."""
    return replace(
        note(dispatch, to_state, now, executor=executor, actor=actor, reason=reason),
        from_state=State.OPEN,
        to_state=to_state,
        wait_ms=(dispatch.dispatched_at - dispatch.occurrence_at) // _MS,
        run_ms=max(0, (now - dispatch.dispatched_at) // _MS),
        error=error,
    )


def note(
    dispatch: AnyDispatch,
    event: str,
    now: datetime,
    *,
    executor: str,
    actor: str,
    reason: str = "",
    data: dict[str, Any] | None = None,
) -> journal.Entry:
    """The journal's line on a dispatch whose state stays."""
    return journal.Entry(
        at=now,
        source=Source.DISPATCH,
        subject_id=dispatch.pk,
        event=event,
        attempt=dispatch.round + 1,
        type_or_task=dispatch.task_label,
        executor=executor,
        actor=actor,
        reason=reason,
        data=data,
    )


def _keeps_stock(dispatch: Dispatch, to_state: str) -> bool:
    """Whether the dispatch still counts against its task's dispatch_times when it ends so."""
    if to_state not in (State.FAILED, State.EXPIRED):
        # The other endings do not depend on a policy.
        return to_state == State.SUCCEEDED
    task = TASK_MODELS[dispatch.source].objects.planning().filter(pk=dispatch.task).first()
    if task is None:
        raise Conflict(
            _(
                "Dispatch {number} cannot end as {state}, because its task {task} is gone from the "
                "database; cancel the dispatch, or restore the task.",
                number=dispatch.pk,
                state=Message(to_state),
                task=dispatch.task_label,
            )
        )
    return policy.keeps_stock(task.policy, to_state)


# In a transaction of its own.
end_alone = transactional(end)


# --- deadlines ---------------------------------------------------------------------------------
def expire_if_due(dispatch: Dispatch, *, now: datetime, executor: str = "") -> bool:
    """End the open dispatch as expired when its deadline has passed; False otherwise.

    The row decides: since it was read, the deadline may have been extended.
    """
    return end_alone(
        dispatch, State.EXPIRED, now=now, executor=executor, reason=OVERDUE, is_overdue=True
    )


# --- operators ---------------------------------------------------------------------------------
def cancel(*, dispatch: AnyDispatch, actor: str, reason: str) -> AnyDispatch:
    """Cancel an open dispatch: the stock returns, this executor never gets the occurrence again.

    Closed when it has ended otherwise; cancelling a cancelled one answers the same.
    """
    return _end_by_operator(dispatch, State.CANCELLED, actor=actor, reason=reason)


def release(*, dispatch: AnyDispatch, actor: str, reason: str = "") -> AnyDispatch:
    """Give an open dispatch back unfinished; a repeat answers the same, Closed otherwise."""
    return _end_by_operator(dispatch, State.RELEASED, actor=actor, reason=reason)


def expire_now(*, dispatch: AnyDispatch, actor: str, reason: str) -> AnyDispatch:
    """End an open dispatch as if its deadline had passed; Closed when it has ended otherwise."""
    return _end_by_operator(dispatch, State.EXPIRED, actor=actor, reason=reason)


def _end_by_operator(dispatch: AnyDispatch, state: str, *, actor: str, reason: str) -> AnyDispatch:
    if isinstance(dispatch, Dispatch) and dispatch.is_open:
        if end_alone(dispatch, state, now=clock.now(), actor=actor, reason=reason):
            return dispatch
    # The dispatch may have gone to the archive since it was read.
    found = existing_dispatch(dispatch.pk)
    if found.state == state:
        return found
    raise Closed(
        _(
            "Dispatch {number} is {state} since {at}.",
            number=found.pk,
            state=Message(found.state),
            at=found.finished_at or "–",
        )
    )
