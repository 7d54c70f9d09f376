"""Bulk runs over once tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from apps.bulk.services.targets import TARGETS, Target
from apps.common import clock
from apps.common.errors import Conflict, FieldError
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.models import OnceTask
from apps.dispatch.rules import task_verbs as of
from apps.dispatch.rules.task_filter import TaskFilter, read
from apps.dispatch.services import filtered, tasks
from apps.jobs.models import Bounds

_CHANGE, _DELETE = "dispatch.change_oncetask", "dispatch.delete_oncetask"


class OnceTasks(Target):
    kind = "once-tasks"
    model = OnceTask
    label = ("title",)
    verbs = {verb: _DELETE if verb == of.DELETE else _CHANGE for verb in of.VERBS}
    dangerous = frozenset({of.END, of.DELETE})

    def read(self, given: Mapping[str, Any]) -> TaskFilter:
        return read(given)

    def rows(self, wanted: TaskFilter, bounds: Bounds) -> QuerySet[Any]:
        return self.within(filtered.once_tasks(wanted), bounds)

    def within(self, rows: QuerySet[Any], bounds: Bounds) -> QuerySet[Any]:
        if bounds.users is None:
            return rows
        return rows.within(bounds.users.names)  # type: ignore[attr-defined, no-any-return]

    def few(self, wanted: TaskFilter, bounds: Bounds) -> Sequence[int] | None:
        return sorted(wanted.ids, reverse=True) if wanted.ids else None

    def locked(self, rows: QuerySet[Any], numbers: Sequence[int]) -> dict[int, Any]:
        return super().locked(rows.prefetch_related("executor", "template"), numbers)

    def columns(self, verb: str) -> tuple[str, ...]:
        return of.FACTS

    def needed(self, verb: str, params: Mapping[str, Any]) -> tuple[str, ...]:
        return of.needed(verb)

    def faults(self, verb: str, params: Mapping[str, Any], now: datetime) -> Iterator[FieldError]:
        yield from of.faults(verb, params)

    def why_not(
        self, verb: str, facts: Mapping[str, Any], params: Mapping[str, Any]
    ) -> Message | None:
        return of.why_not(verb, facts, params)

    def sample(self, verb: str, facts: Mapping[str, Any], params: Mapping[str, Any]) -> str:
        return of.sample(verb, facts, params)

    def opposite(self, verb: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        return of.opposite(verb, params)

    def act(
        self, row: Any, verb: str, params: Mapping[str, Any], *, actor: str, reason: str
    ) -> None:
        now = clock.now()
        if verb == of.DELETE:
            edit = tasks.mark_deleted(row, now=now, actor=actor, reason=reason)
        else:
            changes = of.changes(verb, row.__dict__, params)
            edit = tasks.change(row, changes, now=now, actor=actor, reason=reason)
        if edit is None:
            raise Conflict(_("nothing to change"))
        tasks.publish([edit])


TARGETS[OnceTasks.kind] = OnceTasks()
