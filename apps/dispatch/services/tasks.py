"""Planning: once tasks. Every edit is one transaction with one journal entry, and raises the plan
version of the old and the new executor."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Conflict, Invalid, NotFound
from apps.common.json_rules import check_json
from apps.dispatch.models import Executor, OnceTask, Stock, Template
from apps.dispatch.rules.params import check_params
from apps.dispatch.rules.task import check_task
from apps.dispatch.services.audit import record_edit, take_version
from apps.dispatch.services.templates import check_usable

# What an edit may change; all else is the platform's.
EDITABLE = (
    "title",
    "executor",
    "template",
    "params",
    "start_at",
    "end_at",
    "mode",
    "dispatch_times",
    "priority",
    "lease_seconds",
    "on_failure",
    "on_expiry",
    "max_rounds",
    "status",
)

_CHOICES = {
    "mode": OnceTask.Mode,
    "on_failure": OnceTask.OnFailure,
    "on_expiry": OnceTask.OnExpiry,
    "status": OnceTask.Status,
}


@transactional
def create_once_task(*, actor: str, title: str, executor: Executor, **fields: Any) -> OnceTask:
    """Plan a once task; fields as in OnceTask, `start_at` defaults to now.

    Invalid with every wrong field, params against the template's schema included.
    """
    now = clock.now()
    _check_names(fields)
    task = OnceTask(
        title=title,
        executor=executor,
        created_at=now,
        created_by=actor,
        updated_at=now,
        updated_by=actor,
        **{**fields, "start_at": fields.get("start_at") or now},
    )
    if task.status == OnceTask.Status.DELETED:
        raise Invalid.field("status", "A new task is active or paused.")
    _check(task, template_is_new=True)
    task.save(force_insert=True)
    _use_template(task.template, now)
    Executor.objects.filter(pk=executor.pk).raise_plan_version()
    record_edit(task, "task_created", now=now, actor=actor, after=_shown(task))
    return task


@transactional
def update_once_task(
    *,
    task: OnceTask,
    changes: dict[str, Any],
    actor: str,
    version: int | None = None,
    reason: str = "",
) -> OnceTask:
    """Change the named fields and nothing else; open dispatches stay as they are.

    Conflict when `version` is given and no longer current, or the task is deleted.
    """
    _check_names(changes)
    current = take_version(OnceTask, task.pk, version)
    if current.status == OnceTask.Status.DELETED:
        raise Conflict(f"Task {task.pk} is deleted; plan a new one.")
    if changes.get("status") == OnceTask.Status.DELETED:
        raise Invalid.field("status", "Delete the task instead of setting this status.")
    before = _shown(current)
    old_executor, old_template = current.executor_id, current.template_id
    for name, value in changes.items():
        setattr(current, name, value)
    after = _shown(current)
    changed = [name for name in EDITABLE if before[name] != after[name]]
    if not changed:
        return current
    _check(current, template_is_new=current.template_id != old_template)
    now = clock.now()
    current.version += 1
    current.updated_at, current.updated_by = now, actor
    current.save(update_fields=[*changed, "version", "updated_at", "updated_by"])
    _use_template(current.template, now)
    Executor.objects.filter(pk__in={old_executor, current.executor_id}).raise_plan_version()
    record_edit(
        current,
        "task_changed",
        now=now,
        actor=actor,
        reason=reason,
        before={name: before[name] for name in changed},
        after={name: after[name] for name in changed},
    )
    return current


@transactional
def delete_once_task(
    *, task: OnceTask, actor: str, version: int | None = None, reason: str = ""
) -> bool:
    """Mark the task deleted: from now on nobody is handed it; False when it was already.

    Waits for hand-outs in flight, because they hold the task's row; open dispatches go on.
    """
    current = take_version(OnceTask, task.pk, version)
    if current.status == OnceTask.Status.DELETED:
        return False
    now = clock.now()
    before = current.status
    current.status = OnceTask.Status.DELETED
    current.version += 1
    current.updated_at, current.updated_by = now, actor
    current.save(update_fields=["status", "version", "updated_at", "updated_by"])
    Executor.objects.filter(pk=current.executor_id).raise_plan_version()
    record_edit(
        current,
        "task_deleted",
        now=now,
        actor=actor,
        reason=reason,
        before={"status": before},
        after={"status": current.status},
    )
    return True


def find_once_task(pk: int, *, bound: Iterable[str] | None = None) -> OnceTask:
    """The task, unless deleted; NotFound also when outside the executors in `bound`."""
    tasks = OnceTask.objects.standing().select_related("executor", "template")
    if bound is not None:
        tasks = tasks.within(bound)
    task = tasks.filter(pk=pk).first() if pk < 2**63 else None
    if task is None:
        raise NotFound(f"There is no once task {str(pk)[:40]}.")
    return task


def handed_of(tasks: list[OnceTask]) -> dict[int, int]:
    """How often each of the tasks counts as handed out, by task id."""
    counts = Stock.objects.filter(
        source=OnceTask.source, task__in=[task.pk for task in tasks], occurrence=OnceTask.occurrence
    )
    return {**{task.pk: 0 for task in tasks}, **dict(counts.values_list("task", "handed"))}


def _check_names(fields: dict[str, Any]) -> None:
    unknown = sorted(set(fields) - set(EDITABLE))
    if unknown:
        raise Invalid.field(unknown[0], f"A task has no field {unknown[0]} that can be set.")


def _check(task: OnceTask, *, template_is_new: bool) -> None:
    for name, choices in _CHOICES.items():
        allowed = choices.values
        if getattr(task, name) not in allowed:
            raise Invalid.field(
                name, f"{getattr(task, name)!r} is no {name}; choose one of {', '.join(allowed)}."
            )
    check_task(
        title=task.title,
        mode=task.mode,
        dispatch_times=task.dispatch_times,
        priority=task.priority,
        lease_seconds=task.lease_seconds,
        max_rounds=task.max_rounds,
        start_at=task.start_at,
        end_at=task.end_at,
    )
    check_json(task.params, field="params")
    if task.template is not None:
        if template_is_new:
            check_usable(task.template)
        check_params(task.template.schema, task.params)


def _use_template(template: Template | None, now: datetime) -> None:
    if template is not None and template.first_used_at is None:
        Template.objects.filter(pk=template.pk, first_used_at=None).update(first_used_at=now)


def _shown(task: OnceTask) -> dict[str, Any]:
    """The editable fields as the journal keeps them."""
    shown = {name: getattr(task, name) for name in EDITABLE}
    shown["executor"] = task.executor.name
    shown["template"] = None if task.template is None else str(task.template)
    for name in ("start_at", "end_at"):
        shown[name] = None if shown[name] is None else shown[name].isoformat()
    return shown
