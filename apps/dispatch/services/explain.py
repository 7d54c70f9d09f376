"""Why not: the reasons why a user gets a task now, or not. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db.models import Min

from apps.common import clock
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask
from apps.dispatch.rules import names, policy
from apps.dispatch.rules.explain import Case, Explanation, chosen_occurrence
from apps.dispatch.rules.explain import explain as explain_case
from apps.dispatch.rules.queue import Candidate, Identity, candidate_of
from apps.dispatch.services.filtered import reaching
from apps.dispatch.services.outlook import candidates_of, held_of
from apps.dispatch.services.past import past_of
from apps.dispatch.services.state import ExecutorState, state_of


def explain(
    *, executor: Executor, task: OnceTask | RotateTask, occurrence_at: datetime | None = None
) -> Explanation:
    """All reasons why the user would or would not get the task's occurrence now.

    Without `occurrence_at` it is about the current occurrence, else the next one. Invalid for a
    group, and for an instant at which the task has no occurrence.
    """
    names.require_puller(executor.name, field="executor")
    now = clock.now()
    at = chosen_occurrence(task.planned, occurrence_at, now)
    [explanation] = explained(executor, [(task, at)], state=state_of(executor.pk), now=now)
    return explanation


def explained(
    executor: Executor,
    tasks: Sequence[tuple[OnceTask | RotateTask, datetime | None]],
    *,
    state: ExecutorState,
    now: datetime,
) -> list[Explanation]:
    """The explanations of tasks at these occurrences for a user, in their order, with one read of
    each kind of fact for all of them."""
    candidates = [candidate_of(task.planned, at) for task, at in tasks]
    held = held_of([state]).get(executor.pk)
    past = past_of(executor.pk, [*candidates, *candidates_of(held)])
    held = past.close_if_expired(held, now)
    given_back = _given_back(filter(past.is_used_up, candidates), now)
    reached = reaching(executor.name)
    return [
        explain_case(
            Case(
                executor=executor.name,
                is_enabled=state.enabled,
                owner=task.executor.name,
                owner_is_enabled=task.executor.enabled,
                reaches=task.executor_id in reached,
                status=task.status,
                planned=task.planned,
                occurrence_at=at,
                lookback=conf.DISPATCH_LOOKBACK,
                past=past,
                held=held,
                given_back_at=given_back.get(candidate.identity),
            ),
            now,
        )
        for (task, at), candidate in zip(tasks, candidates, strict=True)
    ]


def _given_back(used_up: Iterable[Candidate], now: datetime) -> dict[Identity, datetime]:
    """The first deadline of the open dispatches of each, if expiry gives it back."""
    back = {each.identity for each in used_up if each.policy.on_expiry == policy.GIVE_BACK}
    if not back:
        return {}
    open_ones = Dispatch.objects.filter(
        source__in={source for source, _task, _occurrence in back},
        task__in={task for _source, task, _occurrence in back},
        occurrence__in={occurrence for _source, _task, occurrence in back},
        state=Dispatch.State.OPEN,
        holds_stock=True,
    )
    rows = open_ones.order_by().values_list("source", "task", "occurrence")
    return {
        (source, task, occurrence): max(deadline, now)
        for source, task, occurrence, deadline in rows.annotate(Min("deadline_at"))
        if (source, task, occurrence) in back
    }
