"""The part of the platform that a person may see."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, OperatorScope
from apps.dispatch.models.dispatch import DispatchQuerySet
from apps.dispatch.models.executor import ExecutorQuerySet
from apps.jobs.models import Bounds, bounds_of
from apps.reports.permissions import may_see_problems
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services.titles import numbers_of
from apps.reports.watches.subjects import JOB_TYPE, ONCE_TASK, SCHEDULE, SCHEDULE_RUN
from apps.reports.watches.troubles import Trouble

_PERMISSIONS = {JOB: "jobs.view_job", DISPATCH: "dispatch.view_dispatch"}
# About all types.
_OF_JOBS = {"jobs.view_jobtype", "jobs.add_jobtype"}
TOTALS = "reports.view_rollup"
MAX_EXECUTORS = 500


class Sight:
    """The part of the platform that a person may see: by permissions, and for people with limits
    also by their executors and job types."""

    def __init__(self, user: Any) -> None:
        self._user = user

    def may(self, permission: str) -> bool:
        is_of_jobs = permission in _OF_JOBS
        return bool(self._user.has_perm(permission)) and (self._bounds.are_open or not is_of_jobs)

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """The sources that this person sees: jobs, dispatches, both or none."""
        # The jobs of users are not counted one by one, and of no executor there is nothing to see.
        hidden = {JOB: self._bounds.users is not None, DISPATCH: self.bound == []}
        may = (source for source, name in _PERMISSIONS.items() if self.may(name))
        return tuple(source for source in may if not hidden[source])

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The sources of `shown` whose figures this person sees. A view limited to very many
        executors has none of dispatches, because they would have to be added up one by one."""
        if not self.may(TOTALS):
            return ()
        many = len(self.executors or ()) > MAX_EXECUTORS
        hidden = {JOB: False, DISPATCH: many}
        return tuple(source for source in self.shown if not hidden[source])

    @cached_property
    def _bounds(self) -> Bounds:
        return bounds_of(self._user)

    @property
    def job_types(self) -> list[str] | None:
        """The job types that this person is limited to; None for all."""
        types = self._bounds.types
        return None if types is None else sorted(types)

    @cached_property
    def bound(self) -> list[str] | None:
        """The users and groups that this person is limited to; None for all."""
        return OperatorScope.names_of(self._user)

    def is_limited(self, source: str) -> bool:
        """Whether this person sees only some executors."""
        return source == DISPATCH and self.bound is not None

    @cached_property
    def executors(self) -> list[str] | None:
        """The users whose dispatches are visible; None for all."""
        if self.bound is None:
            return None
        seen = Executor.objects.visible_to(self._user).users()
        return list(seen.values_list("name", flat=True)[: MAX_EXECUTORS + 1])

    def view(self, each: Trouble) -> Trouble | None:
        """The trouble as this person sees it, limits included; None if they may not see its
        subject."""
        read = each.read
        if not each.watch.is_seen(read, self._user.has_perm):
            return None
        if self.sees_all:
            return each
        if read.kind == ONCE_TASK:
            mine = self.bound is None or read.target in (*self.bound, *(self.executors or ()))
            return each if mine else None
        types = {JOB_TYPE: read.name, SCHEDULE: read.target, SCHEDULE_RUN: read.target}
        name = types.get(read.kind)
        if name is None:
            return None
        if self.sees_type(name):
            return each
        if name not in (self.job_types or ()) or not read.alone:
            return None
        return each._replace(read=read._replace(text=read.alone))

    def failing(self, names: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """The job types and tasks among `names`, each after its source, whose failures this person
        sees: people with limits see their types, and the tasks for their executors."""
        seen: set[tuple[str, str]] = set()
        if self.permits(_PERMISSIONS[JOB]):
            seen |= {each for each in names if each[0] == JOB and self.sees_type(each[1])}
        if self.permits(_PERMISSIONS[DISPATCH]):
            tasks = [name for source, name in names if source == DISPATCH]
            seen |= {(DISPATCH, name) for name in self._tasks_among(tasks)}
        return seen

    def _tasks_among(self, labels: list[str]) -> Collection[str]:
        if self.bound is None:
            return labels
        mine = [*self.bound, *(self.executors or ())]
        found: list[str] = []
        for source, model in TASK_MODELS.items():
            if numbers := [*numbers_of(labels, source)][:MAX_EXECUTORS]:
                rows = model.objects.filter(pk__in=numbers, executor__name__in=mine)
                found += [f"{source}:{pk}" for pk in rows.values_list("pk", flat=True)]
        return found

    @property
    def sees_all(self) -> bool:
        """Whether this person has no limits."""
        return self._bounds.are_open and self.bound is None

    @property
    def sees_problems(self) -> bool:
        """Whether this person has the page of all problems."""
        return may_see_problems(self._user)

    def sees_type(self, name: str) -> bool:
        """Whether somebody sees all jobs of the type."""
        bounds = self._bounds
        return bounds.users is None and (bounds.types is None or name in bounds.types)

    def permits(self, permission: str) -> bool:
        """Whether the account has the permission, limits or not."""
        return bool(self._user.has_perm(permission))

    @property
    def groups(self) -> ExecutorQuerySet:
        return Executor.objects.visible_to(self._user).groups()

    @property
    def dispatches(self) -> DispatchQuerySet:
        return Dispatch.objects.visible_to(self._user)
