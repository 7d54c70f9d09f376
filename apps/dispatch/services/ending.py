"""How an open dispatch ends: one guarded UPDATE, the stock by policy, one journal entry."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.db import Statement, Unchanged, conclude, table, transactional
from apps.common.errors import NotFound
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.errors import Closed
from apps.dispatch.models import TASK_MODELS, Dispatch, Stock
from apps.dispatch.rules import policy
from apps.journal import services as journal
from apps.journal.models import Source as JournalSource

State = Dispatch.State
_MS = timedelta(milliseconds=1)


class Ending(NamedTuple):
    """How a dispatch ends: its last state, and whether it goes on counting against its task's
    dispatch_times. `is_overdue`: only while its deadline has passed, which may be moved."""

    state: str
    at: datetime
    keeps_stock: bool
    result: dict[str, Any] | None
    message: str
    is_overdue: bool = False

    def statements(self, dispatch: Dispatch) -> list[Statement]:
        """What ends it; the first changes a row if it was open, and only then may the others be
        kept."""
        result = None if self.result is None else json.dumps(self.result)
        values = (self.state, self.keeps_stock, self.at, result, self.message)
        sql = (
            f"UPDATE {table(Dispatch)} SET state = %s, open_for = NULL, holds_stock = %s, "
            "finished_at = %s, result = %s, message = %s WHERE id = %s AND state = %s"
        )
        parameters = [*values, dispatch.pk, State.OPEN.value]
        if self.is_overdue:
            sql += " AND deadline_at <= %s"
            parameters.append(self.at)
        changes: list[Statement] = [(sql, parameters)]
        if not self.keeps_stock:
            changes.append(Stock.giving_back(*dispatch.identity))
        return changes

    def entry(
        self, dispatch: Dispatch, *, executor: str, actor: str, reason: str = ""
    ) -> journal.Entry:
        """The journal's line on it, a dispatch of that executor."""
        return journal.Entry(
            at=self.at,
            source=JournalSource.DISPATCH,
            subject_id=dispatch.pk,
            event=self.state,
            from_state=State.OPEN,
            to_state=self.state,
            attempt=dispatch.round + 1,
            type_or_task=dispatch.task_label,
            executor=executor,
            actor=actor,
            reason=reason,
            wait_ms=(dispatch.dispatched_at - dispatch.occurrence_at) // _MS,
            run_ms=max(0, (self.at - dispatch.dispatched_at) // _MS),
            error=self.message if self.state == State.FAILED else "",
        )

    def past(self, dispatch: Dispatch) -> policy.PastDispatch:
        """The dispatch as the latest of its executor and occurrence, when it has ended so."""
        return policy.PastDispatch(
            number=dispatch.pk,
            rounds=dispatch.round + 1,
            state=self.state,
            holds_stock=self.keeps_stock,
            finished_at=self.at,
        )

    def put_on(self, dispatch: Dispatch) -> None:
        """Let the object be as its row is now."""
        dispatch.state, dispatch.open_for, dispatch.holds_stock = self.state, None, self.keeps_stock
        dispatch.finished_at, dispatch.result, dispatch.message = self.at, self.result, self.message


def ending_of(
    dispatch: Dispatch,
    to_state: str,
    *,
    now: datetime,
    result: dict[str, Any] | None = None,
    message: str = "",
) -> Ending:
    """How the dispatch ends in that state, by the policy of its task as it is now."""
    keeps = keeps_its_stock(dispatch, to_state)
    return Ending(str(to_state), now, keeps, result, message)


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
) -> bool:
    """Close the dispatch; False when it was no longer open, and then nothing is changed.

    With `is_overdue` also when its deadline lies beyond `now`, to where it may have been moved. On
    True the object carries its new state. The executor's name is read unless it is given.
    """

    @transactional
    def close() -> Ending:
        ending = ending_of(dispatch, to_state, now=now, result=result, message=message)
        ending = ending._replace(is_overdue=is_overdue)
        name = executor or dispatch.executor.name
        entry = ending.entry(dispatch, executor=name, actor=actor, reason=reason)
        ends, *others = ending.statements(dispatch)
        conclude([ends, journal.insertion([entry])], others)
        return ending

    try:
        close().put_on(dispatch)
    except Unchanged:
        return False
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
            state=Message(dispatch.state),
            at=dispatch.finished_at or "–",
        )
    )
