"""Why not: the reasons why a user gets a task now, or not. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from apps.common import clock
from apps.common.errors import Invalid, NotFound
from apps.common.messages import Message as _
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, Membership, OnceTask, RotateTask
from apps.dispatch.rules import policy
from apps.dispatch.rules.explain import (
    Case,
    Explanation,
    chosen_occurrence,
    occurrence_number,
)
from apps.dispatch.rules.explain import explain as explain_case
from apps.dispatch.rules.queue import Candidate
from apps.dispatch.services.preview import candidates_of, held_of, open_dispatch, past_of
from apps.dispatch.services.state import state_of
from apps.dispatch.services.tasks import no_such_task


def explain(
    *, executor: Executor, task: OnceTask | RotateTask, occurrence_at: datetime | None = None
) -> Explanation:
    """All reasons why the user would or would not get the task's occurrence now.

    Without `occurrence_at` it is about the current occurrence, else the next one. Invalid for a
    group, and for an instant at which the task has no occurrence.
    """
    if executor.is_group:
        raise Invalid.field(
            "executor",
            _(
                "{name} is a group; a task is pulled by one of its users, so name a uid_….",
                name=executor.name,
            ),
        )
    now = clock.now()
    planned = task.planned
    at = chosen_occurrence(planned, occurrence_at, now)
    state = state_of(executor.pk)
    dispatch = open_dispatch(state)
    held = None if dispatch is None else held_of(dispatch)
    candidate = Candidate(
        planned.priority,
        at or planned.start_at,
        planned.source,
        planned.task,
        occurrence_number(planned, at),
        planned.end_at,
        planned.policy,
        planned.owner,
        planned.version,
    )
    past = past_of(executor.pk, [candidate, *candidates_of(held)])
    held = past.close_if_expired(held, now)
    is_used_up = past.left(candidate.identity, planned.policy) == 0
    owner = task.executor
    case = Case(
        executor=executor.name,
        is_enabled=state.enabled,
        owner=owner.name,
        owner_is_enabled=owner.enabled,
        reaches=_reaches(owner, executor),
        status=task.status,
        planned=planned,
        occurrence_at=at,
        window=state.window(now),
        past=past,
        held=held,
        given_back_at=_given_back_at(candidate, now) if is_used_up else None,
    )
    return explain_case(case, now)


def find_task(source: str, pk: int, *, bound: Iterable[str] | None = None) -> OnceTask | RotateTask:
    """The task, deleted or not; NotFound also when outside the executors in `bound`."""
    tasks: Any = TASK_MODELS[source].objects.select_related("executor")
    if bound is not None:
        tasks = tasks.within(bound)
    task: OnceTask | RotateTask | None = tasks.filter(pk=pk).first() if pk < 2**63 else None
    if task is None:
        raise NotFound(no_such_task(source, pk))
    return task


def _reaches(owner: Executor, user: Executor) -> bool:
    if owner.pk == user.pk:
        return True
    return Membership.objects.filter(user=user, group=owner).exists()


def _given_back_at(candidate: Candidate, now: datetime) -> datetime | None:
    """The first deadline of its open dispatches, if expiry gives the task back."""
    if candidate.policy.on_expiry != policy.GIVE_BACK:
        return None
    open_ones = Dispatch.objects.of(*candidate.identity).filter(
        state=Dispatch.State.OPEN, holds_stock=True
    )
    first = open_ones.order_by("deadline_at").values_list("deadline_at", flat=True).first()
    return None if first is None else max(first, now)
