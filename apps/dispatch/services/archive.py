"""Ended dispatches and tasks that are over go to the archive; a task comes back when somebody
restores it.

A row is in exactly one of both tables: each way is one transaction with its journal entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, prefetch_related_objects

from apps.common import clock
from apps.common.archive import carry, lock_still
from apps.common.db import fetch, fetch_each, placeholders, table, transactional
from apps.common.errors import Conflict, NotFound
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.rows import insert_rows, update_rows
from apps.common.shaped import stored
from apps.dispatch.conf import conf
from apps.dispatch.errors import Archived
from apps.dispatch.models import (
    ArchivedDispatch,
    ArchivedTask,
    Dispatch,
    OnceTask,
    RotateTask,
    Stock,
    Task,
)
from apps.dispatch.models.dispatch_columns import COLUMNS
from apps.dispatch.models.stock import Occurrence
from apps.dispatch.rules import policy
from apps.dispatch.rules import retention as rules
from apps.dispatch.services.tasks import (
    Edit,
    find_task,
    lock_executors,
    no_such_archived_task,
    publish,
)
from apps.journal import services as journal
from apps.journal.services.edit import edit_entry

ARCHIVED, RESTORED = "archived", "restored"
OVER = _("over since {since_at}")

TaskT = TypeVar("TaskT", bound=OnceTask | RotateTask)


# --- dispatches ---------------------------------------------------------------------------------
@transactional
def move_dispatches(chosen: list[int], before: datetime) -> Counter[str]:
    """Move the dispatches that ended before the instant and that nobody has locked; returns the
    numbers of rows that went, by kind.

    With each dispatch its part of the stock goes: `handed` stays the number of those that hold it.
    """
    guard = f"state <> '{policy.OPEN}' AND finished_at < %s"
    numbers = lock_still(Dispatch, chosen, guard, [before])
    if not numbers:
        return Counter()
    rows = fetch(
        f"SELECT source, task, occurrence, holds_stock FROM {table(Dispatch)} "
        f"WHERE id IN ({placeholders(len(numbers))})",
        numbers,
    )
    held: Counter[Occurrence] = Counter()
    for source, task, occurrence, holds_stock in rows:
        held[source, task, occurrence] += bool(holds_stock)
    now = clock.now()
    # The dispatches before their stocks, as an ending locks them.
    carry(Dispatch, ArchivedDispatch, COLUMNS, numbers, {"archived_at": now})
    moved = +Counter({"dispatches": len(numbers), "stocks": _lower_stocks(held)})
    journal.note(ARCHIVED, moved, at=now)
    return moved


def _lower_stocks(held: Counter[Occurrence]) -> int:
    """Take the counts off the stocks, and remove those that are then 0; returns how many."""
    stocks = Stock.objects.locked(held)
    empty = [pk for pk, occurrence, handed in stocks if handed <= held[occurrence]]
    update_rows(
        Stock,
        {
            pk: {"handed": handed - held[occurrence]}
            for pk, occurrence, handed in stocks
            if handed > held[occurrence] > 0
        },
    )
    gone, _ = Stock.objects.filter(pk__in=empty).delete()
    return gone


# --- tasks --------------------------------------------------------------------------------------
def over_since(task: Task) -> datetime | None:
    """The instant since which the task is neither handed out nor edited; None = it is not over."""
    return rules.over_since(
        source=task.source,
        is_deleted=task.status == Task.Status.DELETED,
        changed_at=task.updated_at,
        start_at=task.start_at,
        end_at=task.end_at,
        lookback=conf.DISPATCH_LOOKBACK,
    )


def is_over(task: Task, before: datetime) -> bool:
    """Whether the task was over before the instant."""
    since = over_since(task)
    return since is not None and since < before


@transactional
def move_tasks(model: type[TaskT], chosen: list[int], before: datetime) -> Counter[str]:
    """Move the tasks without a dispatch; mark the others deleted, so that their dispatches can go
    in time.

    Returns the number of moved tasks, by kind. No plan version is raised: tasks that are over have
    been in nobody's queue for long.
    """
    now = clock.now()
    locked = model._default_manager.filter(pk__in=chosen).order_by("pk").select_for_update()
    over = [task for task in locked if is_over(task, before)]
    known = _with_dispatches(model, [task.pk for task in over])
    marked = [t for t in over if t.pk in known and t.status != Task.Status.DELETED]
    entries = _mark_deleted(model, marked, now)
    going = [task for task in over if task.pk not in known]
    moved = +Counter({f"{model.source}_tasks": len(going)})
    if going:
        insert_rows(ArchivedTask, [_archive_row(task, now) for task in going])
        gone, _ = model._default_manager.filter(pk__in=[task.pk for task in going]).delete()
        if gone != len(going):
            raise RuntimeError(f"{len(going)} tasks to archive, but {gone} removed")
        journal.note(ARCHIVED, moved, at=now)
    journal.write(entries)
    return moved


def _with_dispatches(model: type[Task], pks: list[int]) -> set[int]:
    """The tasks with a dispatch outside of the archive. A rotation may have a million, and one is
    enough to know."""
    one = f"SELECT task FROM {table(Dispatch)} WHERE source = %s AND task = %s LIMIT 1"
    return {task for (task,) in fetch_each((one, [str(model.source), pk]) for pk in pks)}


def _mark_deleted(model: type[Task], marked: Sequence[Task], now: datetime) -> list[journal.Entry]:
    """Mark the locked tasks deleted; returns the journal entries."""
    prefetch_related_objects(marked, "executor")
    changes = {
        task.pk: {"status": str(Task.Status.DELETED), "updated_at": now, "updated_by": ""}
        for task in marked
    }
    update_rows(model, changes, raised=["version"])
    return [
        edit_entry(
            task,
            "task_deleted",
            now=now,
            actor="",
            reason=OVER.format(since_at=over_since(task)),
            before={"status": task.status},
            after={"status": Task.Status.DELETED},
        )
        for task in marked
    ]


def _archive_row(task: Task, now: datetime) -> dict[str, Any]:
    """The row of the archive."""
    return {
        "source": str(task.source),
        "task": task.pk,
        "title": task.title,
        "executor_id": task.executor_id,
        "start_at": task.start_at,
        "end_at": task.end_at,
        "body": {name: _plain(getattr(task, name)) for name in _columns(type(task))},
        "archived_at": now,
    }


def _columns(model: type[Model]) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields]


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else stored(value)


def task_of(row: ArchivedTask, model: type[TaskT]) -> TaskT:
    """The task as it was; it is not written."""
    values = {
        field.attname: field.to_python(row.body[field.attname])
        for field in model._meta.concrete_fields
        # One that was archived by an earlier version lacks what came later.
        if field.attname in row.body
    }
    return model(**values)


# --- coming back --------------------------------------------------------------------------------
def find_archived_task(
    source: str, number: int, *, bound: Iterable[str] | None = None
) -> ArchivedTask:
    """The task in the archive; NotFound also when outside the executors in `bound`."""
    rows = ArchivedTask.objects.select_related("executor")
    if bound is not None:
        rows = rows.within(bound)
    row = rows.filter(source=source, task=number).first() if number < 2**63 else None
    if row is None:
        raise NotFound(no_such_archived_task(source, number))
    return row


def find_live_task(model: type[TaskT], pk: int, *, bound: Iterable[str] | None = None) -> TaskT:
    """The task as `find_task` finds it; Archived when it is in the archive."""
    try:
        return find_task(model, pk, bound=bound)
    except NotFound as unknown:
        try:
            row = find_archived_task(str(model.source), pk, bound=bound)
        except NotFound:
            raise unknown from None
    kind = Message(f"{row.source} task")
    raise Archived(
        _(
            "The {kind} {number} is among the older ones; restore it to see or change it.",
            kind=kind,
            number=pk,
        )
    )


@transactional
def restore_task(model: type[TaskT], *, number: int, actor: str, reason: str) -> TaskT:
    """Bring a task back from the archive with its number, paused; returns it.

    A rotation has no occurrences before this moment. Its dispatches stay in the archive. NotFound
    when it is not there (any more), Conflict when its executor is gone, or what is stored of it is
    no task (any more).
    """
    locked = ArchivedTask.objects.select_for_update()
    row = locked.filter(source=str(model.source), task=number).first()
    if row is None:
        raise NotFound(no_such_archived_task(str(model.source), number))
    lock_executors([row.executor_id])
    now = clock.now()
    try:
        task = task_of(row, model)
        before, task.status = task.status, Task.Status.PAUSED
        task.full_clean(exclude=["executor"], validate_unique=False)
    except ValidationError as error:
        why = " ".join(error.messages)
        text = _("What is stored of the task cannot be read, so it stays: {why}", why=why)
        raise Conflict(text) from error
    task.next_version(now=now, actor=actor)
    if isinstance(task, RotateTask):
        task.effective_from = now
    task.save(force_insert=True)
    row.delete()
    entry = edit_entry(
        task,
        RESTORED,
        now=now,
        actor=actor,
        reason=reason,
        before={"status": before},
        after={"status": task.status},
    )
    publish([Edit(frozenset({task.executor_id}), entry)])
    return task
