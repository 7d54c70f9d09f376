"""Why nothing: every task that could reach a user, grouped by the first reason against it.

Each reason is that of `explain`. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import Q

from apps.common import clock
from apps.dispatch.conf import conf
from apps.dispatch.models import Executor, OnceTask, RotateTask, Task
from apps.dispatch.rules import names
from apps.dispatch.rules.explain import Explanation, chosen_occurrence
from apps.dispatch.rules.policy import OK
from apps.dispatch.services.explain import explained
from apps.dispatch.services.filtered import reaching
from apps.dispatch.services.state import state_of

# Of each kind: of once tasks, those due first.
MAX_TASKS = 1000
MAX_EXAMPLES = 5
_ANY = datetime.min.replace(tzinfo=UTC)


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
    answers = explained(executor, chosen, state=state_of(executor.pk), now=now)
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
    # Those that waiting does not help come last, all in the order in which they were found.
    known.sort(key=lambda pair: (pair[1] is None, pair[1] or _ANY))
    first = [each for each, _at in known[:MAX_EXAMPLES]]
    return Group(code, len(examples), known[0][1], first)


def _could_have_it_at(explanation: Explanation) -> datetime | None:
    """When the last of its reasons is over; None if waiting does not help."""
    instants = [reason.until for reason in explanation.reasons]
    known = [at for at in instants if at is not None]
    return max(known) if len(known) == len(instants) else None
