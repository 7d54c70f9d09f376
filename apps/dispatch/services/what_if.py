"""How an unsaved task would change the queues of executors. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.db import transactional
from apps.dispatch.models import Executor, OnceTask, RotateTask, Task
from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.preview import NO_ID
from apps.dispatch.services import tasks
from apps.dispatch.services.outlook import outlooks
from apps.dispatch.services.preview import Period, Preview, previews
from apps.journal.services.edit import take_version

MAX_MEMBERS = 20
# Items of each queue; there are many queues in one answer.
MAX_ITEMS = 300


@dataclass(frozen=True)
class Change:
    """The queue of one executor without and with the change; a new task is NO_ID in it."""

    executor: Executor
    before: Preview
    after: Preview

    @property
    def more(self) -> bool:
        """Whether one of the queues goes on, but was cut."""
        return self.before.more or self.after.more

    @property
    def is_change(self) -> bool:
        return self.before != self.after


class WhatIf(NamedTuple):
    """`more_members`: a group has more members than are compared."""

    changes: list[Change]
    more_members: bool


def what_if_created(
    model: type[OnceTask] | type[RotateTask],
    *,
    fields: dict[str, Any],
    period: Period,
    now: datetime | None = None,
) -> WhatIf:
    """The effect of `create_task` with these fields; raises the errors that it would raise."""
    now = clock.now() if now is None else now
    task = _draft(model, fields, now)
    task.pk = NO_ID
    return _compare(task, [task.executor], period, now)


def what_if_updated(
    *,
    task: OnceTask | RotateTask,
    changes: dict[str, Any],
    period: Period,
    version: int | None = None,
    now: datetime | None = None,
) -> WhatIf:
    """The effect of `update_task` with these changes; raises the errors that it would raise."""
    now = clock.now() if now is None else now
    current, old_executor = _alter(task, changes, version, now)
    return _compare(current, [old_executor, current.executor], period, now)


# The locks of a save are held only while the draft is validated.
@transactional
def _draft(model: Any, fields: dict[str, Any], now: datetime) -> Any:
    return tasks.draft(model, fields, now=now, actor="")


@transactional
def _alter(
    task: Any, changes: dict[str, Any], version: int | None, now: datetime
) -> tuple[Any, Executor]:
    current = take_version(task, version)
    old_executor: Executor = current.executor
    tasks.alter(current, changes, now=now)
    return current, old_executor


def _compare(task: Task, addressed: Sequence[Executor], period: Period, now: datetime) -> WhatIf:
    own = {executor.pk: executor for executor in addressed}
    # One more than is compared shows whether there are more.
    members = Executor.objects.filter(memberships__group__in=own).distinct().order_by("name")
    found = list(members[: MAX_MEMBERS + 1])
    compared = [*own.values(), *(each for each in found[:MAX_MEMBERS] if each.pk not in own)]
    changes = [
        change
        for change in _changes(task, compared, period, now)
        if change.is_change or change.executor.pk in own
    ]
    return WhatIf(changes, len(found) > MAX_MEMBERS)


def _changes(
    task: Task, executors: Sequence[Executor], period: Period, now: datetime
) -> list[Change]:
    """How the queue of each executor changes, in their order."""
    planned: Planned = task.planned
    today = outlooks(executors, until=period.end, now=now, besides=planned)
    is_active = task.status == Task.Status.ACTIVE
    changed = [each.changed(planned, is_active=is_active) for each in today]
    titles = {(planned.source, planned.task): task.title}
    before = previews(today, period, limit=MAX_ITEMS)
    after = previews(changed, period, titles, limit=MAX_ITEMS)
    return [
        Change(executor, *_cut_alike(old, new))
        for executor, old, new in zip(executors, before, after, strict=True)
    ]


def _cut_alike(before: Preview, after: Preview) -> tuple[Preview, Preview]:
    """Both previews, cut at the same item, so that no item counts as removed that an added one
    pushes out of the list."""
    return _cut_by(before, after), _cut_by(after, before)


def _cut_by(long: Preview, cut: Preview) -> Preview:
    """The `long` preview without the items after the last one of the other, if that was cut
    there."""
    if not cut.more or not cut.items:
        return long
    last = cut.items[-1]
    for position in range(len(long.items) - 1, -1, -1):
        item = long.items[position]
        if (item.source, item.task, item.occurrence_at) == (
            last.source,
            last.task,
            last.occurrence_at,
        ):
            return Preview(long.items[: position + 1], more=True)
    return long
