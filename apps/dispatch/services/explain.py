"""Why not: the reasons why a user gets a task now, or not; and why nothing: every task that could
reach the user, grouped by the first reason against it. Writes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

from django.db.models import Min, Q

from apps.common import clock
from apps.common.shaped import Misshapen, without_object
from apps.dispatch.conf import conf
from apps.dispatch.models import (
    TASK_MODELS,
    Dispatch,
    Executor,
    Membership,
    OnceTask,
    RotateTask,
    Task,
)
from apps.dispatch.rules import names, policy
from apps.dispatch.rules.explain import Case, Explanation, chosen_occurrence
from apps.dispatch.rules.explain import explain as explain_case
from apps.dispatch.rules.past import Past
from apps.dispatch.rules.policy import OK
from apps.dispatch.rules.queue import Candidate, Identity, candidate_of
from apps.dispatch.services.executor_state import state_of, states_of
from apps.dispatch.services.filtered import reaching
from apps.dispatch.services.outlook import candidates_of, held_of
from apps.dispatch.services.past import handed_of, past_of, pasts_of

# Tasks of each kind that are looked at: of once tasks, those due first.
MAX_TASKS = 1000
MAX_EXAMPLES = 5
_ANY = datetime.min.replace(tzinfo=UTC)


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
    [explanation] = _explain_tasks(executor, [(task, at)], now=now)
    return explanation


def _explain_tasks(
    executor: Executor,
    tasks: Sequence[tuple[OnceTask | RotateTask, datetime | None]],
    *,
    now: datetime,
) -> list[Explanation]:
    """The explanations of tasks at these occurrences for a user, in their order, with one read of
    each kind of fact for all of them."""
    candidates = [candidate_of(task.planned, at) for task, at in tasks]
    state = state_of(executor.pk)
    held = held_of([state]).get(executor.pk)
    past = past_of(executor.pk, [*candidates, *candidates_of(held)])
    held = past.close_if_expired(held, now)
    given_back = _given_back(filter(past.is_used_up, candidates), now)
    reached, unreadable = reaching(executor.name), _unreadable(tasks)
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
                is_readable=(task.source, task.pk) not in unreadable,
            ),
            now,
        )
        for (task, at), candidate in zip(tasks, candidates, strict=True)
    ]


def _unreadable(tasks: Iterable[tuple[OnceTask | RotateTask, Any]]) -> set[tuple[str, int]]:
    """Those of the tasks whose params cannot be read."""
    numbers = defaultdict[str, list[int]](list)
    for task, _at in tasks:
        numbers[task.source].append(task.pk)
    return {
        (source, pk)
        for source, asked in numbers.items()
        for pk in without_object(TASK_MODELS[source].objects.filter(pk__in=asked), "params")
        .order_by()
        .values_list("pk", flat=True)
    }


def explain_people(
    people: Iterable[Executor],
    task: OnceTask | RotateTask,
    at: datetime,
    *,
    now: datetime,
    is_asked: bool = False,
) -> dict[int, tuple[Explanation, Past]]:
    """The explanation for each of the users, by id, as if there were stock of the occurrence, with
    the past it goes by; the statements are as many for one user as for all.

    With `is_asked`, the explanation of asking the user again, by the present stock.
    """
    by_id = {each.pk: each for each in people}
    states = states_of([*by_id])
    holding = held_of([*states.values()])
    candidate = candidate_of(task.planned, at)
    known = {pk: [candidate, *candidates_of(holding.get(pk))] for pk in states}
    pasts = pasts_of(known, Past(handed=handed_of(chain.from_iterable(known.values()))))
    members = Membership.objects.filter(group=task.executor_id, user__in=[*states])
    reached = {task.executor_id, *members.values_list("user_id", flat=True)}
    found = {}
    for pk, state in states.items():
        past = pasts[pk].copy()
        held = past.close_if_expired(holding.get(pk), now)
        case = Case(
            executor=state.name,
            is_enabled=state.enabled,
            owner=task.executor.name,
            owner_is_enabled=task.executor.enabled,
            reaches=pk in reached,
            status=task.status,
            planned=task.planned,
            occurrence_at=at,
            lookback=conf.DISPATCH_LOOKBACK,
            past=past if is_asked else replace(past, handed={}),
            held=held,
            is_asked=is_asked,
            is_readable=not isinstance(task.params, Misshapen),
        )
        found[pk] = explain_case(case, now), past
    return found


def _given_back(used_up: Iterable[Candidate], now: datetime) -> dict[Identity, datetime]:
    """The earliest deadline of the open dispatches of each occurrence whose stock expiry gives
    back."""
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


# --- why nothing --------------------------------------------------------------------------------
class Example(NamedTuple):
    task: OnceTask | RotateTask
    explanation: Explanation


@dataclass(frozen=True)
class Group:
    """The tasks with the same first reason, and the first instant at which waiting could help; the
    examples are those that could be had first."""

    code: str
    count: int
    until: datetime | None
    examples: list[Example]


class WhyNothing(NamedTuple):
    """`until` is the next instant that could change the answer; `more`: not all were looked at.

    What the user can have, if there is anything, is the first group.
    """

    groups: list[Group]
    until: datetime | None
    more: bool

    @property
    def next(self) -> Example | None:
        """The task that could be had at that instant."""
        coming = (group.examples[0] for group in self.groups if group.until == self.until)
        return next(coming, None) if self.until else None

    @property
    def is_something(self) -> bool:
        return bool(self.groups) and self.groups[0].code == OK


def why_nothing(executor: Executor, *, bound: Iterable[str] | None = None) -> WhyNothing:
    """The tasks of a user and of all its groups, the groups that are disabled included, apart from
    those that are deleted or over, and those outside the executors in `bound`.

    Invalid for a group.
    """
    names.require_puller(executor.name, field="executor")
    now = clock.now()
    tasks, more = _tasks(reaching(executor.name), bound, now)
    chosen = [(task, chosen_occurrence(task.planned, None, now)) for task in tasks]
    answers = _explain_tasks(executor, chosen, now=now)
    found: dict[str, list[Example]] = {}
    for task, explanation in zip(tasks, answers, strict=True):
        found.setdefault(explanation.first.code, []).append(Example(task, explanation))
    made = [_group(code, examples) for code, examples in found.items()]
    made.sort(key=lambda group: (group.code != OK, -group.count, group.code))
    until = min((group.until for group in made if group.until), default=None)
    return WhyNothing(made, until, more)


def _tasks(owners: list[int], bound: Iterable[str] | None, now: datetime) -> tuple[list[Any], bool]:
    """The tasks, and whether there are more."""
    if bound is not None:
        seen = Executor.objects.within(bound).filter(pk__in=owners)
        owners = list(seen.values_list("pk", flat=True))
    is_on = Q(status__in=[Task.Status.ACTIVE, Task.Status.PAUSED]) & (
        Q(end_at=None) | Q(end_at__gt=now)
    )
    within = Q(start_at__gt=now - conf.DISPATCH_LOOKBACK)
    found: list[Any] = []
    more = False
    for rows in (
        OnceTask.objects.filter(is_on & within, executor__in=owners).order_by("start_at", "pk"),
        RotateTask.objects.filter(is_on, executor__in=owners).order_by("pk"),
    ):
        some: list[Any] = list(rows.prefetch_related("executor").defer("params")[: MAX_TASKS + 1])
        more = more or len(some) > MAX_TASKS
        found += some[:MAX_TASKS]
    return found, more


def _group(code: str, examples: list[Example]) -> Group:
    known = [(each, _could_have_it_at(each.explanation)) for each in examples]
    # Tasks that waiting does not help come last, all in the order in which they were found.
    known.sort(key=lambda pair: (pair[1] is None, pair[1] or _ANY))
    first = [each for each, _at in known[:MAX_EXAMPLES]]
    return Group(code, len(examples), known[0][1], first)


def _could_have_it_at(explanation: Explanation) -> datetime | None:
    """When the last of its reasons is over; None if waiting does not help."""
    instants = [reason.until for reason in explanation.reasons]
    known = [at for at in instants if at is not None]
    return max(known) if len(known) == len(instants) else None
