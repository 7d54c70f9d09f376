"""Steps for people: a once task with its quota."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apps.common import clock
from apps.common.db import fetch, placeholders, table
from apps.common.errors import Invalid
from apps.common.masking import kept
from apps.common.messages import Message as _
from apps.dispatch.models import ArchivedDispatch, Dispatch, Executor, OnceTask
from apps.dispatch.rules import life, policy
from apps.dispatch.rules.task import MAX_TITLE
from apps.dispatch.services import ending, tasks
from apps.dispatch.services.availability import read_availability
from apps.dispatch.services.templates import find_usable
from apps.flows.models import FlowRun, FlowStep
from apps.flows.rules.definition import Step
from apps.flows.rules.ends import End, of_task

_SAID = ("mode", "priority", "lease_seconds", "on_failure", "on_expiry", "max_rounds")
_SETTLED = (life.FULL, life.OVER, life.DELETED)


def as_fields(step: Step, params: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the once task, but for whom and by which template."""
    said = {name: step.said[name] for name in _SAID if name in step.said}
    return {
        "mode": "single" if step.quota == 1 else "multi",
        **said,
        "dispatch_times": step.quota,
        "title": step.title,
        # As stored: the memo of a step would say whether a secret fits the present template.
        "params": kept({**params}),
    }


def begin(
    run: FlowRun,
    row: FlowStep,
    step: Step,
    params: Mapping[str, Any],
    now: datetime,
    end_at: datetime | None,
) -> dict[str, Any]:
    """Plan the task; returns the columns of the step. A PlatformError when it cannot be planned."""
    executor = Executor.objects.filter(name=step.said["executor"]).first()
    if executor is None:
        message = _("There is no person or group {name!r}.", name=step.said["executor"][:80])
        raise Invalid.field("executor", message)
    fields = as_fields(step, params)
    if "template" in step.said:
        fields["template"] = find_usable(step.said["template"])
    task = tasks.create_task(
        OnceTask,
        actor=run.subject,
        executor=executor,
        part_of=row.pk,
        start_at=now,
        end_at=end_at,
        **{**fields, "title": fields["title"][:MAX_TITLE]},
    )
    return {"task": task.pk}


def look(row: FlowStep, step: Step, now: datetime) -> End | None:
    """How the step has ended; None while anybody has it or may still get it."""
    if is_open(row):
        return None
    task, quota = _task_of(row), step.quota
    if task is not None:
        read_availability([task], now=now)
        availability = task.availability
        if availability.state not in _SETTLED:
            return None
        can_be_had = availability.until is not None and now < availability.until
        if availability.state == life.FULL and can_be_had and _is_reserved(row, task):
            return None
        if quota is None:
            quota = availability.quota
    ends = [
        (state, json.loads(result) if isinstance(result, str) else result)
        for state, result in _rows(row, "state, result")
    ]
    return of_task(step, [result for state, result in ends if state == policy.SUCCEEDED], quota)


def waiting(tasks: Mapping[int, int], now: datetime) -> set[int]:
    """The steps, given with their tasks, that go on: somebody has the task or may still get it."""
    if not tasks:
        return set()
    held = fetch(
        f"SELECT DISTINCT task FROM {table(Dispatch)} WHERE source = %s "
        f"AND task IN ({placeholders(len(tasks))}) AND state = %s",
        [OnceTask.source.value, *tasks.values(), policy.OPEN],
    )
    found = {task for (task,) in held}
    rows = [*OnceTask.objects.filter(pk__in={*tasks.values()} - found)]
    read_availability(rows, now=now)
    found |= {task.pk for task in rows if task.availability.state not in _SETTLED}
    return {step for step, task in tasks.items() if task in found}


def _task_of(row: FlowStep) -> OnceTask | None:
    return OnceTask.objects.filter(pk=row.task or 0).first()


def is_open(row: FlowStep) -> bool:
    """Whether somebody has the task."""
    return bool(
        fetch(
            f"SELECT 1 FROM {table(Dispatch)} WHERE source = %s AND task = %s AND state = %s "
            "LIMIT 1",
            [OnceTask.source.value, row.task, policy.OPEN],
        )
    )


def _is_reserved(row: FlowStep, task: OnceTask) -> bool:
    """Whether somebody who failed holds a place in the quota for another round."""
    if task.on_failure != policy.RETRY_SAME:
        return False
    latest: dict[int, tuple[int, str, bool]] = {}
    for executor, number, state, holds in _rows(row, "executor_id, round, state, holds_stock"):
        latest[executor] = max(latest.get(executor, (-1, "", False)), (number, state, bool(holds)))
    return any(
        state == policy.FAILED and holds and number + 1 < task.max_rounds
        for number, state, holds in latest.values()
    )


def _rows(row: FlowStep, columns: str) -> list[tuple[Any, ...]]:
    """All that was handed out of the task, oldest first, also from the archive."""
    where = "WHERE source = %s AND task = %s AND part_of = %s ORDER BY id"
    values = [OnceTask.source.value, row.task, row.pk]
    old, live = (
        fetch(f"SELECT {columns} FROM {table(model)} {where}", values)
        for model in (ArchivedDispatch, Dispatch)
    )
    return [*old, *live]


def stop(row: FlowStep, *, actor: str, reason: str, force: bool) -> None:
    """Have nobody else get the task; with `force` those who have it lose it."""
    task = _task_of(row)
    if task is not None and task.status != OnceTask.Status.DELETED:
        tasks.delete_task(task=task, actor=actor, reason=reason)
    if force:
        held = Dispatch.objects.filter(
            source=OnceTask.source, task=row.task or 0, state=policy.OPEN
        )
        for dispatch in held.select_related("executor").order_by("pk"):
            ending.end(
                dispatch,
                policy.CANCELLED,
                now=clock.now(),
                actor=actor,
                reason=reason,
            )
