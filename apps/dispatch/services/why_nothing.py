"""Why nothing: every task that could reach a user, grouped by the first reason against it.

Each reason is that of `explain`. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q

from apps.common import clock
from apps.dispatch.conf import conf
from apps.dispatch.models import Executor, Membership, OnceTask, RotateTask, Task
from apps.dispatch.rules.explain import Explanation, chosen_occurrence
from apps.dispatch.rules.policy import OK
from apps.dispatch.services.explain import check_is_user, explained
from apps.dispatch.services.state import state_of

# Of each kind: of once tasks, those due first.
MAX_TASKS = 1000
MAX_EXAMPLES = 5


class Example(NamedTuple):
    task: OnceTask | RotateTask
    explanation: Explanation


@dataclass(frozen=True)
class Group:
    """The tasks with the same first reason, and the first instant at which waiting could help."""

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
    def is_something(self) -> bool:
        return bool(self.groups) and self.groups[0].code == OK


def why_nothing(executor: Executor, *, bound: Iterable[str] | None = None) -> WhyNothing:
    """The tasks of a user and of all its groups, the groups that are disabled included, apart from
    those that are deleted or over, and those outside the executors in `bound`.

    Invalid for a group.
    """
    check_is_user(executor)
    now = clock.now()
    groups = Membership.objects.filter(user=executor).values_list("group", flat=True)
    tasks, more = _tasks([executor.pk, *groups], bound, now)
    chosen = [(task, chosen_occurrence(task.planned, None, now)) for task in tasks]
    answers = explained(executor, chosen, state=state_of(executor.pk), now=now)
    found: dict[str, list[Example]] = {}
    for task, explanation in zip(tasks, answers, strict=True):
        found.setdefault(explanation.reasons[0].code, []).append(Example(task, explanation))
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
    instants = [at for each in examples for at in _could_have_it_at(each.explanation)]
    return Group(code, len(examples), min(instants, default=None), examples[:MAX_EXAMPLES])


def _could_have_it_at(explanation: Explanation) -> Iterator[datetime]:
    """When the last of its reasons is over; nothing, if waiting does not help."""
    instants = [reason.until for reason in explanation.reasons]
    known = [at for at in instants if at is not None]
    if len(known) == len(instants):
        yield max(known)
