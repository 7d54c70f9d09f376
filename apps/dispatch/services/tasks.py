"""Planning: once tasks and rotations. Every edit is one transaction with one journal entry, and
raises the plan version of the old and the new executor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Count

from apps.common import clock
from apps.common.chunks import chunks
from apps.common.db import transactional
from apps.common.errors import Conflict, LimitReached, NotFound
from apps.common.masking import kept
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.conf import conf
from apps.dispatch.models import Executor, OnceTask, RotateTask, Task, Template
from apps.dispatch.services.validation import check, check_names
from apps.journal import services as journal
from apps.journal.models import JournalEntry
from apps.journal.services.edit import Revision, edit_entry, take_version
from apps.journal.services.undo import UNDONE, values_before

TaskT = TypeVar("TaskT", bound=OnceTask | RotateTask)

# Entries may hold params, and a statement must fit into the maximum packet of the database.
MAX_ENTRIES = 50
ACTIVE, PAUSED, DELETED = Task.Status.ACTIVE, Task.Status.PAUSED, Task.Status.DELETED


@transactional
def create_task(
    model: type[TaskT],
    *,
    actor: str,
    title: str,
    executor: Executor,
    part_of: int | None = None,
    **fields: Any,
) -> TaskT:
    """Plan a task of the model; fields as the model has them, `start_at` defaults to now.

    Invalid with every wrong field, params against the template's schema included. LimitReached
    when the executor has as many active rotations as it may have.
    """
    fields |= {"title": title, "executor": executor}
    task, edit = plan(model, fields, now=clock.now(), actor=actor, part_of=part_of)
    publish([edit])
    return task


@transactional
def update_task(
    *,
    task: TaskT,
    changes: dict[str, Any],
    actor: str,
    version: int | None = None,
    reason: str = "",
) -> TaskT:
    """Change the named fields and nothing else; open dispatches stay as they are.

    A rotation whose rule, zone or start changed, or that was resumed or given another end after it
    had ended, has no occurrences before this moment. Conflict when `version` is given and no longer
    current, or the task is deleted.
    """
    current = take_version(task, version)
    edit = change(current, changes, now=clock.now(), actor=actor, reason=reason)
    if edit is not None:
        publish([edit])
    return current


@transactional
def delete_task(*, task: TaskT, actor: str, version: int | None = None, reason: str = "") -> bool:
    """Mark the task deleted, so that it is no longer handed out; False when it was already.

    Waits for hand-outs in flight, because they hold the task's row; open dispatches go on.
    """
    current = take_version(task, version)
    edit = mark_deleted(current, now=clock.now(), actor=actor, reason=reason)
    if edit is not None:
        publish([edit])
    return edit is not None


# --- steps that bulk edits and imports combine -------------------------------------------------
@dataclass(frozen=True, slots=True)
class Edit:
    """A written change; `publish` must follow in the same transaction."""

    executors: frozenset[int]
    entry: journal.Entry


def publish(edits: Sequence[Edit]) -> None:
    """Raise the plan version of each executor concerned once, and write the journal."""
    concerned = {pk for edit in edits for pk in edit.executors}
    Executor.objects.filter(pk__in=concerned).raise_plan_version()
    for part in chunks(edits, MAX_ENTRIES):
        journal.write([edit.entry for edit in part])


def plan(
    model: type[TaskT],
    fields: dict[str, Any],
    *,
    now: datetime,
    actor: str,
    effective_from: datetime | None = None,
    locks: bool = True,
    part_of: int | None = None,
    **logged: Any,
) -> tuple[TaskT, Edit]:
    """Validate and write a new task; `logged` goes into the journal entry.

    Without `locks` the caller has called `lock_executors`.
    """
    if locks:
        lock_executors([fields["executor"].pk])
    task = draft(model, fields, now=now, actor=actor, effective_from=effective_from)
    if isinstance(task, OnceTask):
        task.part_of = part_of
    return task, add(task, now=now, actor=actor, **logged)


def add(task: Task, *, now: datetime, actor: str, **logged: Any) -> Edit:
    """Write a task that `draft` has made.

    Without a lock of its executor the caller ends with `lock_executors` and `require_limits`.
    """
    _use_template(task.template, now)
    task.save(force_insert=True)
    after = {**task.journal_values(), **logged.pop("after", {})}
    entry = edit_entry(task, "task_created", now=now, actor=actor, after=after, **logged)
    return Edit(frozenset({task.executor_id}), entry)


def draft(
    model: type[TaskT],
    fields: dict[str, Any],
    *,
    now: datetime,
    actor: str,
    effective_from: datetime | None = None,
    limits: bool = True,
) -> TaskT:
    """A valid new task that is not written. Without `limits` the caller counts rotations."""
    check_names(model, fields)
    start_at = fields.get("start_at") or now
    task: TaskT = model.made(  # type: ignore[assignment]
        **{**fields, "start_at": start_at}, now=now, actor=actor
    )
    if isinstance(task, RotateTask):
        task.effective_from = effective_from or start_at
    check(task, template_is_new=True, due_since=task.start_at)
    if limits:
        _require_limit(task, was_counted=False)
    return task


def change(
    current: TaskT,
    changes: dict[str, Any],
    *,
    now: datetime,
    actor: str,
    locks: bool = True,
    **logged: Any,
) -> Edit | None:
    """Validate the changes and write them to the locked row; None when they change nothing.

    Without `locks` the caller has called `lock_executors`; or it ends with that and
    `require_limits`.
    """
    if locks and not {"executor", "status"}.isdisjoint(changes):
        lock_executors([current.executor_id, changes.get("executor", current.executor).pk])
    old_executor = current.executor_id
    revision = alter(current, changes, now=now)
    if not revision.changed:
        return None
    _use_template(current.template, now)
    return _save(revision, "task_changed", old_executor, now=now, actor=actor, **logged)


def _save(revision: Revision[Any], event: str, old_executor: int, **logged: Any) -> Edit | None:
    entry = revision.save(event, more=revision.record(), **logged)
    executors = frozenset({old_executor, revision.row.executor_id})
    return None if entry is None else Edit(executors, entry)


def alter(
    current: TaskT, changes: dict[str, Any], *, now: datetime, limits: bool = True
) -> Revision[TaskT]:
    """Set the changes on the row and validate them; writes nothing. `limits` as for `draft`."""
    model = type(current)
    check_names(model, changes)
    if current.status == DELETED:
        raise Conflict(_("Task {number} is deleted; plan a new one.", number=current.pk))
    was_active = current.status == ACTIVE
    old_executor, old_template = current.executor_id, current.template_id
    had_ended = current.end_at is not None and current.end_at <= now
    revision = Revision(current)
    changed = revision.fill(changes)
    if not changed:
        return revision
    is_new = not set(changed).isdisjoint(RotateTask.rule_fields)
    if "params" not in changed:
        current.params = kept(current.params)
    check(
        current,
        template_is_new=current.template_id != old_template,
        due_since=now if is_new else None,
    )
    if limits:
        _require_limit(current, was_counted=was_active and old_executor == current.executor_id)
    if isinstance(current, RotateTask) and _is_another_series(current, changed, had_ended):
        current.effective_from = now
    return revision


def _is_another_series(task: RotateTask, changed: list[str], had_ended: bool) -> bool:
    resumed = "status" in changed and task.status == ACTIVE
    # Occurrences since its end were never planned.
    goes_on = "end_at" in changed and had_ended
    return resumed or goes_on or not set(changed).isdisjoint(RotateTask.rule_fields)


def mark_deleted(current: TaskT, *, now: datetime, actor: str, **logged: Any) -> Edit | None:
    """Mark the locked row deleted; None when it is already."""
    revision = Revision(current)
    revision.fill({"status": DELETED})
    return _save(revision, "task_deleted", current.executor_id, now=now, actor=actor, **logged)


def undo(
    current: TaskT, entry: JournalEntry | None, *, now: datetime, actor: str, reason: str
) -> Edit | None:
    """Give the locked row back the values before the change that the entry reports.

    Conflict when it has changed since, or is for an executor or by a template that is gone.
    """
    was = values_before(entry, current.version)
    old_executor, was_active = current.executor_id, current.status == ACTIVE
    revision = Revision(current)
    changes: dict[str, Any] = {}
    derived: dict[str, Any] = {}
    for name, value in was.items():
        field: Any = current._meta.get_field(name)
        if field.is_relation and value is not None:
            value = field.related_model.objects.filter(pk=value).first()
            if value is None:
                raise Conflict(_("What it referred to is gone."))
        elif not field.is_relation:
            value = field.to_python(value)
        (changes if name in current.editable else derived)[name] = value
    revision.fill(changes)
    for name, value in derived.items():
        setattr(current, name, value)
    check(current, template_is_new=False, due_since=None)
    _require_limit(current, was_counted=was_active and old_executor == current.executor_id)
    return _save(revision, UNDONE, old_executor, now=now, actor=actor, reason=reason)


# --- reading ------------------------------------------------------------------------------------
def find_task(
    model: type[TaskT], pk: int, *, bound: Iterable[str] | None = None, also_deleted: bool = False
) -> TaskT:
    """The task, unless deleted; NotFound also when outside the executors in `bound`."""
    tasks: Any = model.objects.select_related("executor", "template")
    if not also_deleted:
        tasks = tasks.not_deleted()
    if bound is not None:
        tasks = tasks.within(bound)
    task: TaskT | None = tasks.filter(pk=pk).first() if pk < 2**63 else None
    if task is None:
        raise NotFound(no_such_task(model.source, pk))
    return task


def no_such_task(source: str, pk: int) -> Message:
    """`There is no once task 7.`"""
    kind = Message(f"{source} task")
    return _("There is no {kind} {number}.", kind=kind, number=str(pk)[:40])


def no_such_archived_task(source: str, pk: int) -> Message:
    """`There is no once task 7 in the archive.`"""
    kind = Message(f"{source} task")
    return _("There is no {kind} {number} among the older ones.", kind=kind, number=str(pk)[:40])


def active_rotations(executors: Collection[int]) -> dict[int, int]:
    """How many active rotations are addressed to each of the executors, by their ids."""
    active = RotateTask.objects.filter(executor__in=executors, status=ACTIVE)
    counted = active.order_by().values_list("executor").annotate(Count("pk"))
    return {**dict.fromkeys(executors, 0), **dict(counted)}


def lock_executors(executors: Iterable[int]) -> None:
    """Lock executors that tasks are to be addressed to, in the order of their ids.

    Nobody deletes them meanwhile, and two planners at once count each other's rotations. Their plan
    versions are raised at the end, which would deadlock if each had only a shared lock till then.
    Conflict when one is gone.
    """
    wanted = set(executors)
    rows = Executor.objects.select_for_update().filter(pk__in=wanted).order_by("pk")
    if len(rows.values_list("pk")) < len(wanted):
        message = _("That person or group was deleted just now; choose another one.")
        raise Conflict.field("executor", message)


def require_limits(executors: Collection[int]) -> None:
    """LimitReached when one of the executors has more active rotations than it may have."""
    for pk, count in active_rotations(executors).items():
        if count > conf.ROTATIONS_PER_EXECUTOR:
            raise _too_many_rotations(Executor.objects.get(pk=pk))


def _require_limit(task: Task, *, was_counted: bool) -> None:
    """LimitReached when an active rotation would be one too many for its executor."""
    if not isinstance(task, RotateTask) or task.status != ACTIVE or was_counted:
        return
    active = RotateTask.objects.filter(executor=task.executor_id, status=ACTIVE)
    require_room(task.executor, active.exclude(pk=task.pk).count())


def require_room(executor: Executor, active: int) -> None:
    """LimitReached when one more active rotation is too many beside the other ones."""
    if active >= conf.ROTATIONS_PER_EXECUTOR:
        raise _too_many_rotations(executor)


def _too_many_rotations(executor: Executor) -> LimitReached:
    message = _(
        "{executor} has {limit} active repeating tasks, and more are not allowed; pause or delete "
        "one, or raise ROTATIONS_PER_EXECUTOR.",
        executor=executor.name,
        limit=conf.ROTATIONS_PER_EXECUTOR,
    )
    return LimitReached.field("executor", message)


def _use_template(template: Template | None, now: datetime) -> None:
    """Mark the template as used, before the task refers to it: from then on it cannot be deleted.

    Conflict when it has been deleted since it was read.
    """
    if template is None or template.first_used_at is not None:
        return
    same = Template.objects.filter(pk=template.pk)
    if not same.filter(first_used_at=None).update(first_used_at=now) and not same.exists():
        message = _("{template} was deleted just now; choose another one.", template=str(template))
        raise Conflict.field("template", message)
