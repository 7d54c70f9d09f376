"""Handing an open dispatch over to another user: it ends as released and is claimed for that one,
in one transaction, so its place in the quota is neither free nor taken twice in between."""

from __future__ import annotations

from collections.abc import Collection
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
)
from apps.dispatch.rules import names
from apps.dispatch.rules.queue import candidate_of
from apps.dispatch.services.candidates import Eligible
from apps.dispatch.services.claim import Lost, claim
from apps.dispatch.services.ending import end, expire_if_due
from apps.dispatch.services.explain import explain_people
from apps.dispatch.services.find import existing_dispatch
from apps.dispatch.services.state import ExecutorState, state_of

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

    Who had it is charged with nothing. Closed when it has ended, Conflict with the first reason why
    that user cannot have it, Invalid for a group, Unavailable after ten lost races in a row.
    """
    names.require_user(to.name, field="executor")
    check_text(reason, field="reason")
    for _attempt in range(MAX_RACES):
        row = existing_dispatch(dispatch.pk)
        if not isinstance(row, Dispatch) or not row.is_open:
            raise Closed(
                _(
                    "Dispatch {number} is {state} since {at}.",
                    number=row.pk,
                    state=Message(row.state),
                    at=row.finished_at or "–",
                )
            )
        now = clock.now()
        state, eligible = _checked(row, to, now)
        # As a pull of that user does first.
        other = state.open_dispatch and Dispatch.objects.open_of(state.pk)
        if other and other.deadline_at <= now:
            expire_if_due(other, now=now, executor=state.name)
        try:
            return _hand_over(row, state, eligible, now, actor, reason)
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


def _checked(row: Dispatch, to: Executor, now: datetime) -> tuple[ExecutorState, Eligible]:
    """The user and what is to be claimed; Conflict says why it cannot be."""
    task = _task(row)
    at = _due(row, task)
    if to.pk == row.executor_id:
        raise Conflict(_("{executor} has dispatch {number}.", executor=to.name, number=row.pk))
    state = state_of(to.pk)
    explanation, past = explain_people([to], task, at, now=now)[to.pk]
    if not explanation.eligible:
        raise Conflict(explanation.first.detail)
    candidate = candidate_of(task.planned, at)
    last = past.latest.get(candidate.identity)
    # Who tries again has a place of its own.
    carried = past.verdict_on(candidate, now).carried or row.pk
    return state, Eligible(candidate, last, carried, True)


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
    rows = TASK_MODELS[dispatch.source].objects.select_related("executor")
    task: OnceTask | RotateTask | None = rows.filter(pk=dispatch.task).first()
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
