"""Edits of many tasks in batches. Each batch is one transaction, raises the plan version of each
executor once and writes the journal in one statement. A refused row does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import DatabaseError
from django.db.models import QuerySet, prefetch_related_objects

from apps.common import clock
from apps.common.chunks import chunks
from apps.common.db import transactional
from apps.common.errors import Conflict, LimitReached, PlatformError
from apps.common.messages import Message as _
from apps.dispatch.models import Executor, OnceTask, RotateTask, Task, Template
from apps.dispatch.rules import task_verbs as verbs
from apps.dispatch.rules.shift import is_moved
from apps.dispatch.services import tasks
from apps.dispatch.services.tasks import Edit
from apps.journal.models import JournalEntry, Source
from apps.journal.services.edit import edit_entry

logger = logging.getLogger(__name__)

TaskT = TypeVar("TaskT", bound=OnceTask | RotateTask)

# Hand-outs of these tasks wait until their batch is committed.
BATCH = 100
MAX_COPIES = 1000


@dataclass(frozen=True, slots=True)
class Refusal:
    """A task that was not changed; `why` None = there was nothing to do."""

    task: int
    why: str | None
    executor: str = ""


@dataclass(slots=True)
class BulkResult:
    """The number of edits made, and the refused ones."""

    done: int = 0
    refused: list[Refusal] = field(default_factory=list)

    def __iadd__(self, other: BulkResult) -> BulkResult:
        self.done += other.done
        self.refused += other.refused
        return self


def change(
    rows: QuerySet[TaskT],
    verb: str,
    params: Mapping[str, Any] | None = None,
    *,
    actor: str,
    reason: str,
    once: str = "",
) -> BulkResult:
    """Do what the verb of rules.task_verbs says to the tasks. A repeat with the same `once` changes
    nothing."""
    logged = {"actor": actor, "reason": reason, "trace_id": once}

    def changed(task: TaskT, now: datetime) -> Iterator[Edit | Refusal]:
        edits = edits_of(task, verb, params or {}, now=now, **logged)
        yield from edits
        if not edits:
            yield Refusal(task.pk, None)

    return _in_batches(rows, changed, once=once)


def copy(
    rows: QuerySet[TaskT],
    executors: Sequence[Executor],
    *,
    actor: str,
    reason: str,
    once: str = "",
) -> BulkResult:
    """Plan each task for every one of the executors as well; nothing of a copy is handed out yet.

    A copy of a rotation has the occurrences that the original has. LimitReached when that makes
    more than MAX_COPIES. A repeat with the same `once` copies nothing again.
    """
    executors = sorted(executors, key=lambda executor: executor.pk)
    if rows.count() * len(executors) > MAX_COPIES:
        raise LimitReached(_("At most {limit} copies at once; choose fewer.", limit=MAX_COPIES))
    logged: dict[str, Any] = {"actor": actor, "reason": reason, "trace_id": once}

    def copied(task: TaskT, now: datetime) -> Iterator[Edit | Refusal]:
        made: list[str] = []
        for executor in executors:
            try:
                edit = _copy_for(task, executor, now=now, **logged)
            except PlatformError as error:
                yield Refusal(task.pk, error.detail, executor.name)
                continue
            made.append(executor.name)
            yield edit
        if made:
            yield _note_copies(task, made, now=now, **logged)

    batch = max(1, BATCH // max(1, len(executors)))
    return _in_batches(rows, copied, once=once, executors=executors, batch=batch)


def edits_of(
    task: Any, verb: str, params: Mapping[str, Any], *, now: datetime, **logged: Any
) -> list[Edit]:
    """The edits that the verb makes of the task, which the caller has locked with its executor;
    empty when it changes nothing.

    Hand-outs of a shifted once task stay counted. A shifted rotation is another series from this
    moment on, as after any edit of its start; Conflict when it would not be due at any other time.
    Invalid when the params do not fit the new version of the template, Conflict when there is none.
    LimitReached when a resumed rotation is one too many for its executor.
    """
    if verb == verbs.COPY:
        paused = _copy(task, {"status": Task.Status.PAUSED}, now=now, **logged)
        return [paused, _note_copies(task, [task.executor.name], now=now, **logged)]
    if verb == verbs.DELETE:
        edit = tasks.mark_deleted(task, now=now, **logged)
    else:
        if verb == verbs.SHIFT and isinstance(task, RotateTask):
            _require_difference(task, timedelta(seconds=params["shift_seconds"]), now)
        if verb == verbs.VERSION:
            changes = {"template": _version_of(task, params["version"])}
        else:
            changes = verbs.VERBS[task.source][verb].changes(task.__dict__, params)
        edit = tasks.change(task, changes, now=now, locks=False, **logged)
    return [] if edit is None else [edit]


# --- batches --------------------------------------------------------------------------------------
Act = Callable[[Any, datetime], Iterator[Edit | Refusal]]


def _in_batches(
    rows: QuerySet[Any],
    act: Act,
    *,
    once: str = "",
    executors: Sequence[Executor] = (),
    batch: int = 0,
) -> BulkResult:
    pks = sorted(rows.values_list("pk", flat=True))
    batch = batch or BATCH
    outcome = BulkResult()
    for part in chunks(pks, batch):
        outcome += _surely(rows, part, act, once, executors)
    return outcome


def _surely(
    rows: QuerySet[Any], pks: list[int], act: Act, once: str, executors: Sequence[Executor]
) -> BulkResult:
    """The batch, or each row by itself when the database refuses the batch."""
    try:
        return _batch(rows, pks, act, once, executors)
    except DatabaseError:
        logger.exception("an edit of %d tasks failed", len(pks))
    if len(pks) == 1:
        return BulkResult(refused=[Refusal(pks[0], _("The database did not take it; try again."))])
    outcome = BulkResult()
    for pk in pks:
        outcome += _surely(rows, [pk], act, once, executors)
    return outcome


@transactional
def _batch(
    rows: QuerySet[Any], pks: list[int], act: Act, once: str, executors: Sequence[Executor]
) -> BulkResult:
    now = clock.now()
    found = _locked(rows, pks, executors)
    gone = {*pks} - {task.pk for task in found}
    missing = _("It does not exist any more.")
    outcome = BulkResult(refused=[Refusal(pk, missing) for pk in sorted(gone)])
    edits: list[Edit] = []
    done_before = _done_before(found, once)
    for task in found:
        if task.pk in done_before:
            outcome.refused.append(Refusal(task.pk, None))
            continue
        try:
            for made in act(task, now):
                if isinstance(made, Refusal):
                    outcome.refused.append(made)
                    continue
                edits.append(made)
                # An edit without executors is only a note in the journal.
                outcome.done += bool(made.executors)
        except PlatformError as error:
            outcome.refused.append(Refusal(task.pk, error.detail))
    tasks.publish(edits)
    return outcome


def _locked(rows: QuerySet[Any], pks: list[int], executors: Sequence[Executor]) -> list[Any]:
    """Lock the rows in the order of their ids, the executors whose limit is checked, and those
    that get copies."""
    found = list(rows.select_related(None).select_for_update().filter(pk__in=pks).order_by("pk"))
    concerned = {row.pk for row in executors}
    if rows.model is RotateTask:
        concerned |= {task.executor_id for task in found}
    if concerned:
        tasks.lock_executors(concerned)
    prefetch_related_objects(found, "executor", "template")
    return found


def _done_before(found: Sequence[Task], once: str) -> set[int]:
    """The tasks that an edit with the same `once` has changed already."""
    if not once or not found:
        return set()
    entries = JournalEntry.objects.filter(
        source=Source.PLAN,
        subject_id__in=[task.pk for task in found],
        type_or_task__in=[f"{task.source}:{task.pk}" for task in found],
        trace_id=once,
        event__in=("task_changed", "task_copied"),
    )
    return set(entries.values_list("subject_id", flat=True))


# --- what is done to one task -------------------------------------------------------------------
def _version_of(task: Task, version: int) -> Template:
    if task.template is None:
        raise Conflict(_("Task {number} has no template.", number=task.pk))
    name = task.template.name
    found = Template.objects.filter(name=name, version=version).first()
    if found is None:
        text = _("{template} has no version {version}.", template=name, version=version)
        raise Conflict(text)
    return found


def _require_difference(task: RotateTask, by: timedelta, now: datetime) -> None:
    if task.status != Task.Status.DELETED and not is_moved(task.recurrence, by, now):
        raise Conflict(
            _(
                "It would be due at the same times as before, because its rule goes by the clock "
                "or it has ended; edit its rule or end instead."
            )
        )


def _copy_for(task: Task, executor: Executor, *, now: datetime, **logged: Any) -> Edit:
    if task.executor_id == executor.pk:
        raise Conflict(_("It is addressed to {executor} already.", executor=executor.name))
    return _copy(task, {"executor": executor}, now=now, **logged)


def _copy(task: Any, changes: dict[str, Any], *, now: datetime, **logged: Any) -> Edit:
    if task.status == Task.Status.DELETED:
        raise Conflict(_("Task {number} is deleted and cannot be copied.", number=task.pk))
    fields = {name: getattr(task, name) for name in task.editable}
    _made, edit = tasks.plan(
        type(task),
        {**fields, **changes},
        now=now,
        locks=False,
        effective_from=task.effective_from if isinstance(task, RotateTask) else None,
        after={"copied_from": f"{task.source}:{task.pk}"},
        **logged,
    )
    return edit


def _note_copies(task: Task, copies: Sequence[str], *, now: datetime, **logged: Any) -> Edit:
    """The entry of the original; `copies` are the names of the executors."""
    after = {"copies": ", ".join(copies)}
    return Edit(frozenset(), edit_entry(task, "task_copied", now=now, after=after, **logged))
