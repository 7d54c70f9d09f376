"""Hand-outs by operators past the queue, each in one transaction, so that a place in the quota is
neither free nor taken twice in between: an open dispatch goes over to another user, and a user is
asked again for one that has ended."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import NamedTuple

from django.db import IntegrityError

from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Conflict, Unavailable
from apps.common.json_rules import check_text
from apps.common.messages import Message, Reason
from apps.common.messages import Message as _
from apps.dispatch.errors import Closed
from apps.dispatch.models import (
    TASK_MODELS,
    AnyDispatch,
    Dispatch,
    Executor,
    OnceTask,
    RotateTask,
    Source,
    Stock,
)
from apps.dispatch.rules import names
from apps.dispatch.rules.past import Past
from apps.dispatch.rules.queue import Candidate, candidate_of
from apps.dispatch.services.candidates import Eligible
from apps.dispatch.services.claim import Lost, claim
from apps.dispatch.services.ending import end, expire_if_due, note
from apps.dispatch.services.executor_state import ExecutorState, state_of
from apps.dispatch.services.explain import explain_people
from apps.dispatch.services.find import existing_dispatch
from apps.journal import services as journal

ASKED_AGAIN = "asked_again"
MAX_RACES = 10


class Taker(NamedTuple):
    """A user who could get the dispatch, or the first reason why not."""

    executor: Executor
    reason: Reason
    can_take: bool


def takers(dispatch: Dispatch, people: Collection[Executor]) -> list[Taker]:
    """Whether each of the users could be given the dispatch, those who could first; Conflict when
    its task is gone."""
    task = _task(dispatch)
    found = explain_people(people, task, _due(dispatch, task), now=clock.now())
    lines = [
        Taker(each, found[each.pk][0].first, found[each.pk][0].eligible)
        for each in people
        if each.pk in found
    ]
    return sorted(lines, key=lambda line: not line.can_take)


def hand_over(*, dispatch: AnyDispatch, to: Executor, actor: str, reason: str = "") -> Dispatch:
    """The dispatch that the user `to` gets in place of this one, with a new deadline.

    The user who had it is charged with nothing. Closed when it has ended, Conflict with the first
    reason why `to` cannot have it, Invalid for a group, Unavailable after ten lost races in a row.
    """
    names.require_user(to.name, field="executor")
    check_text(reason, field="reason")

    def attempt(row: AnyDispatch, now: datetime) -> Dispatch:
        if not isinstance(row, Dispatch) or not row.is_open:
            raise _closed_error(row)
        if to.pk == row.executor_id:
            raise Conflict(_("{executor} has dispatch {number}.", executor=to.name, number=row.pk))
        candidate, past = _require_candidate(row, to, now)
        # A user who tries again has a place of its own.
        carried = past.verdict_on(candidate, now).carried or row.pk
        eligible = Eligible(candidate, past.latest.get(candidate.identity), carried, True)
        return _hand_over(row, _free(to, now), eligible, now, actor, reason)

    return _retry_lost_races(dispatch, to, attempt)


def ask_again(*, dispatch: AnyDispatch, actor: str, reason: str = "") -> Dispatch:
    """A new dispatch of the same occurrence to the same user, who has not done it or not done it
    well; the place in the quota that the old dispatch holds goes over to the new one.

    Closed when the old one is in the archive, Conflict with the first reason why the user cannot
    have it, Unavailable after ten lost races in a row.
    """
    check_text(reason, field="reason")
    to = dispatch.executor

    def attempt(row: AnyDispatch, now: datetime) -> Dispatch:
        if not isinstance(row, Dispatch):
            raise _closed_error(row)
        candidate, past = _require_candidate(row, to, now, is_asked=True)
        last = past.latest.get(candidate.identity)
        if last is None:
            # A person has removed the stock, which leads to it.
            Stock.objects.ensure(*candidate.identity)
            raise Lost
        if last.number != row.pk:
            message = _("{executor} has had it again as dispatch {number}; look at that one.")
            raise Conflict(Message(message, executor=to.name, number=str(last.number)))
        carried = row.pk if last.holds_stock else None
        eligible = Eligible(candidate, last, carried, True)
        return _ask_again(row, _free(to, now), eligible, now, actor, reason)

    return _retry_lost_races(dispatch, to, attempt)


def _retry_lost_races(
    dispatch: AnyDispatch, to: Executor, attempt: Callable[[AnyDispatch, datetime], Dispatch]
) -> Dispatch:
    """The dispatch that `attempt` makes of the present row; after a lost race it tries again."""
    for _attempt in range(MAX_RACES):
        try:
            return attempt(existing_dispatch(dispatch.pk), clock.now())
        except (Lost, IntegrityError):
            # Somebody was quicker; the next look says who, or finds it as it was.
            continue
    raise Unavailable(
        _(
            "Dispatch {number} and {executor} change too fast at present; try again.",
            number=dispatch.pk,
            executor=to.name,
        ),
        retry_after=1,
    )


def _closed_error(row: AnyDispatch) -> Closed:
    return Closed(
        _(
            "Dispatch {number} is {state} since {at}.",
            number=row.pk,
            state=Message(row.state),
            at=row.finished_at or "–",
        )
    )


def _require_candidate(
    row: Dispatch, to: Executor, now: datetime, *, is_asked: bool = False
) -> tuple[Candidate, Past]:
    """The candidate to claim and the past of the user; Conflict says why it cannot be claimed."""
    task = _task(row)
    at = _due(row, task)
    explanation, past = explain_people([to], task, at, now=now, is_asked=is_asked)[to.pk]
    if not explanation.eligible:
        raise Conflict(explanation.first.detail)
    return candidate_of(task.planned, at), past


def _free(to: Executor, now: datetime) -> ExecutorState:
    """The user, once an open dispatch past its deadline is over, as a pull of that user does."""
    state = state_of(to.pk)
    other = state.open_dispatch and Dispatch.objects.open_of(state.pk)
    if other and other.deadline_at <= now:
        expire_if_due(other, now=now, executor=state.name)
    return state


@transactional
def _ask_again(
    row: Dispatch,
    state: ExecutorState,
    eligible: Eligible,
    now: datetime,
    actor: str,
    reason: str,
) -> Dispatch:
    # Processes that keep the user's queue have dropped occurrences that it could never receive
    # again. This comes first, because the claim takes a shared lock of the same row.
    Executor.objects.filter(pk=state.pk).raise_plan_version()
    given = claim(state, eligible, now, actor=actor, reason=reason)
    data = {"asked_as": str(given.pk)}
    entry = note(row, ASKED_AGAIN, now, executor=state.name, actor=actor, reason=reason, data=data)
    journal.write([entry])
    return given


@transactional
def _hand_over(
    row: Dispatch,
    state: ExecutorState,
    eligible: Eligible,
    now: datetime,
    actor: str,
    reason: str,
) -> Dispatch:
    has_ended = end(
        row,
        Dispatch.State.RELEASED,
        now=now,
        actor=actor,
        reason=reason,
        to=state.name,
        is_place_kept=eligible.carried == row.pk,
    )
    if not has_ended:
        raise Lost
    return claim(state, eligible, now, actor=actor, reason=reason)


def _task(dispatch: Dispatch) -> OnceTask | RotateTask:
    model, task = TASK_MODELS.get(dispatch.source), None
    if model is not None:
        task = model.objects.select_related("executor").filter(pk=dispatch.task).first()
    if task is None:
        raise Conflict(
            _(
                "The task of dispatch {number} is gone from the database; cancel the dispatch.",
                number=dispatch.pk,
            )
        )
    return task


def _due(dispatch: Dispatch, task: OnceTask | RotateTask) -> datetime:
    """The instant of its occurrence; the one of a once task may have been moved since."""
    return task.start_at if dispatch.source == Source.ONCE else dispatch.occurrence_at
