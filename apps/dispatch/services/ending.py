"""How an open dispatch ends: one guarded UPDATE, the stock by policy, one journal entry."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from apps.common import clock
from apps.common.db import execute, table, transactional
from apps.common.errors import Closed, NotFound
from apps.common.sentences import Sentence
from apps.common.sentences import sentence as _
from apps.dispatch.models import TASK_MODELS, Dispatch, Stock
from apps.dispatch.rules import policy
from apps.journal import services as journal
from apps.journal.models import Source as JournalSource

State = Dispatch.State
_MS = timedelta(milliseconds=1)


@transactional
def end(
    dispatch: Dispatch,
    to_state: str,
    *,
    now: datetime,
    result: dict[str, Any] | None = None,
    message: str = "",
    actor: str = "",
    reason: str = "",
) -> bool:
    """Close the dispatch; False when it was no longer open, and then nothing is changed.

    On True the object carries its new state.
    """
    if not close(dispatch, to_state, now=now, result=result, message=message):
        return False
    name = dispatch.executor.name
    journal.write([entry_of(dispatch, executor=name, now=now, actor=actor, reason=reason)])
    return True


def close(
    dispatch: Dispatch,
    to_state: str,
    *,
    now: datetime,
    result: dict[str, Any] | None = None,
    message: str = "",
) -> bool:
    """`end` without its journal entry, within the caller's transaction."""
    keeps = keeps_its_stock(dispatch, to_state)
    written = None if result is None else json.dumps(result)
    closed = execute(
        f"UPDATE {table(Dispatch)} SET state = %s, open_for = NULL, holds_stock = %s, "  # noqa: S608
        "finished_at = %s, result = %s, message = %s WHERE id = %s AND state = %s",
        [str(to_state), keeps, now, written, message, dispatch.pk, State.OPEN.value],
    )
    if not closed:
        return False
    if not keeps:
        Stock.objects.give_back(dispatch.source, dispatch.task, dispatch.occurrence)
    dispatch.state, dispatch.open_for, dispatch.holds_stock = to_state, None, keeps
    dispatch.finished_at, dispatch.result, dispatch.message = now, result, message
    return True


def keeps_its_stock(dispatch: Dispatch, to_state: str) -> bool:
    """Whether the dispatch still counts against its task's dispatch_times when it ends so."""
    if to_state not in (State.FAILED, State.EXPIRED):
        # No policy has a say in the other endings.
        return to_state == State.SUCCEEDED
    return policy.keeps_stock(policy_of(dispatch), to_state)


def policy_of(dispatch: Dispatch) -> policy.Policy:
    """That of its task, as it is now."""
    return TASK_MODELS[dispatch.source].objects.planning().get(pk=dispatch.task).policy


def entry_of(
    dispatch: Dispatch, *, executor: str, now: datetime, actor: str, reason: str = ""
) -> journal.Entry:
    """The journal's line on a dispatch of that executor that has ended."""
    return journal.Entry(
        at=now,
        source=JournalSource.DISPATCH,
        subject_id=dispatch.pk,
        event=dispatch.state,
        from_state=State.OPEN,
        to_state=dispatch.state,
        attempt=dispatch.round + 1,
        type_or_task=dispatch.task_label,
        executor=executor,
        actor=actor,
        reason=reason,
        wait_ms=(dispatch.dispatched_at - dispatch.occurrence_at) // _MS,
        run_ms=max(0, (now - dispatch.dispatched_at) // _MS),
        error=dispatch.message if dispatch.state == State.FAILED else "",
    )


def find_dispatch(number: int, *, bound: Iterable[str] | None = None) -> Dispatch:
    """The dispatch of that number; NotFound when unknown or outside the executors in `bound`."""
    dispatches = Dispatch.objects.select_related("executor")
    if bound is not None:
        dispatches = dispatches.within(bound)
    dispatch = dispatches.filter(pk=number).first()
    if dispatch is None:
        raise NotFound(_("There is no dispatch {number}.", number=number))
    return dispatch


def cancel(*, dispatch: Dispatch, actor: str, reason: str) -> Dispatch:
    """Take an open dispatch away for good: the stock returns, this executor never gets it again.

    Closed when it has ended otherwise; cancelling a cancelled one answers the same.
    """
    return _end_by_operator(dispatch, State.CANCELLED, actor=actor, reason=reason)


def release(*, dispatch: Dispatch, actor: str, reason: str = "") -> Dispatch:
    """Give an open dispatch back unfinished; a repeat answers the same, Closed otherwise."""
    return _end_by_operator(dispatch, State.RELEASED, actor=actor, reason=reason)


def expire_now(*, dispatch: Dispatch, actor: str, reason: str) -> Dispatch:
    """End an open dispatch as if its deadline had passed; Closed when it has ended otherwise."""
    return _end_by_operator(dispatch, State.EXPIRED, actor=actor, reason=reason)


def _end_by_operator(dispatch: Dispatch, state: str, *, actor: str, reason: str) -> Dispatch:
    if end(dispatch, state, now=clock.now(), actor=actor, reason=reason):
        return dispatch
    dispatch.refresh_from_db()
    if dispatch.state == state:
        return dispatch
    raise Closed(
        _(
            "Dispatch {number} is {state} since {at}.",
            number=dispatch.pk,
            state=Sentence(dispatch.state),
            at=str(dispatch.finished_at),
        )
    )
