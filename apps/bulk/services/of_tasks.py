"""Bulk runs over once tasks and over rotations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet

from apps.bulk.services.targets import TARGETS, Target
from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Conflict, PlatformError
from apps.common.filtering import RowFilter
from apps.common.messages import Message as _
from apps.dispatch.models import OnceTask, RotateTask
from apps.dispatch.rules import plan
from apps.dispatch.rules import task_verbs as of
from apps.dispatch.services import bulk, filtered, tasks
from apps.jobs.models import Bounds
from apps.journal.models import JournalEntry, Source
from apps.journal.services.undo import last_entries


class Tasks(Target):
    """The common part of both kinds of tasks; a subclass names its model."""

    model: ClassVar[type[OnceTask] | type[RotateTask]]
    label = ("title",)
    payload = "dispatch.view_payload"

    def rows(self, wanted: RowFilter, bounds: Bounds) -> QuerySet[Any]:
        return self.within(filtered.tasks_meant(self.model, wanted), bounds)

    def within(self, rows: QuerySet[Any], bounds: Bounds) -> QuerySet[Any]:
        if bounds.executors is None:
            return rows
        return rows.within(bounds.executors)  # type: ignore[attr-defined, no-any-return]

    def keys_if_few(self, wanted: RowFilter, bounds: Bounds) -> Sequence[int] | None:
        return sorted(wanted.get("ids") or (), reverse=True) or None

    def locked(self, rows: QuerySet[Any], numbers: Sequence[int]) -> dict[int, Any]:
        found = super().locked(rows.prefetch_related("executor", "template"), numbers)
        # All at once and in order: a change raises their plan versions.
        tasks.lock_executors({task.executor_id for task in found.values()})
        return found

    def entries(self, numbers: Collection[int], of: Mapping[str, Any]) -> dict[int, JournalEntry]:
        # Tasks of both kinds have the same numbers.
        named = [f"{self.model.source}:{number}" for number in numbers]
        return last_entries(Source.PLAN, numbers, {"type_or_task__in": named, **of})

    def undo_on(
        self, rows: Sequence[Any], entries: Mapping[int, JournalEntry], *, actor: str, reason: str
    ) -> dict[int, PlatformError]:
        refused: dict[int, PlatformError] = {}
        edits, now = [], clock.now()
        for task in rows:
            try:
                edit = tasks.undo(task, entries.get(task.pk), now=now, actor=actor, reason=reason)
            except PlatformError as error:
                refused[task.pk] = error
            else:
                edits += [] if edit is None else [edit]
        tasks.publish(edits)
        return refused

    @transactional
    def act(
        self, row: Any, verb: str, params: Mapping[str, Any], *, actor: str, reason: str
    ) -> None:
        edits = bulk.edits_of(row, verb, params, now=clock.now(), actor=actor, reason=reason)
        if not edits:
            raise Conflict(_("nothing to change"))
        tasks.publish(edits)


class OnceTasks(Tasks):
    kind = "once-tasks"
    model = OnceTask
    verbs = of.VERBS[plan.ONCE]
    filters = filtered.OnceTaskFilters


class RotateTasks(Tasks):
    kind = "rotate-tasks"
    model = RotateTask
    verbs = of.VERBS[plan.ROTATE]
    filters = filtered.RotateTaskFilters


for target in (OnceTasks(), RotateTasks()):
    TARGETS[target.kind] = target
