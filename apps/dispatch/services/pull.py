"""Pull: a user asks for work and gets one task, the same one until it is over."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, connection
from django.db.models import F

from apps.common import clock, ids
from apps.common.db import shared_lock, transactional
from apps.common.errors import Invalid, Unavailable
from apps.dispatch.models import (
    TASK_MODELS,
    Dispatch,
    Executor,
    Membership,
    Stock,
    Task,
    Template,
)
from apps.dispatch.rules import names, policy
from apps.dispatch.rules.queue import Candidate
from apps.dispatch.services import executors, queue
from apps.dispatch.services.ending import State
from apps.dispatch.services.expire import expire_if_due
from apps.journal import services as journal
from apps.journal.models import Source

MOST_RACES = 10
LONGEST_WAIT = 60
SEEN_EVERY = timedelta(minutes=1)
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing is due; ask again after so many whole seconds (1 to 60, jittered)."""

    retry_after: int


def find_user(uid: str, *, bound: Iterable[str] | None = None) -> Executor:
    """The user executor; Invalid for a group, NotFound when unknown or outside `bound`."""
    if names.is_group(uid):
        raise Invalid.field(
            "uid", f"{uid[:80]} is a group; a task is pulled by one of its users, so name a uid_…."
        )
    return executors.find(uid, bound=bound)


def take_next(executor: Executor) -> Dispatch | Nothing:
    """The executor's open dispatch again (redo + 1), or the next due task as a new dispatch.

    A dispatch past its deadline is closed by its policy first. Losing a race is normal: the
    winner's dispatch is answered. Unavailable after ten lost races in a row.
    """
    _note_seen(executor)
    for _ in range(MOST_RACES):
        now = clock.now()
        current = Dispatch.objects.select_related("executor").open_of(executor.pk)
        if current is None:
            ahead = queue.build(executor, now=now)
            taken = _take_first(executor, ahead.due, now)
            if taken is not None:
                return taken
            if not Dispatch.objects.filter(open_for=executor.pk).exists():
                return Nothing(_retry_after(ahead.next_at, now))
        elif current.deadline_at <= now:
            expire_if_due(current, now=now)
        elif _count_redo(current):
            return current
    raise Unavailable(f"{executor.name} pulls from too many places at once.", retry_after=1)


def _take_first(executor: Executor, candidates: list[Candidate], now: datetime) -> Dispatch | None:
    """The first candidate that can still be had; None when there is none, or when another pull of
    the same user came first."""
    try:
        for candidate in candidates:
            if not candidate.has_stock:
                Stock.objects.ensure(candidate.source, candidate.task, candidate.occurrence)
            taken = _take(executor, candidate, now)
            if taken is not None:
                return taken
    except IntegrityError:
        # The unique key of the one open dispatch; the caller looks at it next.
        return None
    return None


def _note_seen(executor: Executor) -> None:
    now = clock.now()
    seen = executor.last_seen_at
    if seen is None or now - seen >= SEEN_EVERY:
        Executor.objects.filter(pk=executor.pk, last_seen_at=seen).update(last_seen_at=now)


def _count_redo(dispatch: Dispatch) -> bool:
    counted = Dispatch.objects.filter(pk=dispatch.pk, state=State.OPEN).update(redo=F("redo") + 1)
    dispatch.redo += 1
    return bool(counted)


def _retry_after(next_at: datetime | None, now: datetime) -> int:
    """Whole seconds until the next due instant, 1 to 60, spread so that clients do not herd."""
    wait = LONGEST_WAIT if next_at is None else (next_at - now).total_seconds()
    spread = wait + random.uniform(0, min(5.0, wait * 0.1))  # noqa: S311
    return min(LONGEST_WAIT, max(1, math.ceil(spread)))


@transactional
def _take(executor: Executor, candidate: Candidate, now: datetime) -> Dispatch | None:
    """Hand the candidate out, if everything still holds; None when it does not.

    Task, executors and membership stay locked (shared) until commit, so that a delete, a
    disabling or a leave that has been answered is never overtaken by a hand-out. IntegrityError
    when the user has got another dispatch meanwhile.
    """
    task = _locked_task(executor, candidate, now)
    due_at = None if task is None else task.due_instant(candidate.occurrence, now)
    if due_at is None:
        return None
    last = (
        Dispatch.objects.of(candidate.source, candidate.task, candidate.occurrence)
        .filter(executor=executor)
        .latest_first()
        .first()
    )
    verdict = policy.verdict(task.policy, None if last is None else last.as_past, now)
    if not verdict.allows:
        return None
    if verdict.carried is not None:
        # The failed round's stock goes over to this one.
        moved = Dispatch.objects.filter(pk=verdict.carried, holds_stock=True)
        if not moved.update(holds_stock=False):
            return None
    elif not Stock.objects.take(
        candidate.source, candidate.task, candidate.occurrence, at_most=task.dispatch_times
    ):
        return None
    rounds = 0 if last is None else last.round + 1
    return _insert(executor, candidate, task, due_at=due_at, rounds=rounds, now=now)


def _locked_task(executor: Executor, candidate: Candidate, now: datetime) -> Any:
    """The task with its template's name, if it may be handed to the executor now; else None."""
    model = TASK_MODELS[candidate.source]
    quote = connection.ops.quote_name
    task, people, belongs, template = (
        quote(table._meta.db_table) for table in (model, Executor, Membership, Template)
    )
    found = model.objects.raw(
        f"SELECT t.*, p.name AS template_name, p.version AS template_version FROM {task} t "  # noqa: S608
        f"JOIN {people} u ON u.id = %s JOIN {people} e ON e.id = t.executor_id "
        f"LEFT JOIN {belongs} m ON m.group_id = e.id AND m.user_id = u.id "
        f"LEFT JOIN {template} p ON p.id = t.template_id "
        "WHERE t.id = %s AND t.status = %s AND u.enabled AND e.enabled "
        "AND (e.id = u.id OR m.id IS NOT NULL) "
        f"AND (t.end_at IS NULL OR t.end_at > %s){shared_lock()}",
        [executor.pk, candidate.task, Task.Status.ACTIVE, _plain(now)],
    )
    return next(iter(found), None)


def _plain(instant: datetime) -> Any:
    """The instant as the database's driver takes it."""
    return connection.ops.adapt_datetimefield_value(instant)


def _insert(
    executor: Executor,
    candidate: Candidate,
    task: Any,
    *,
    due_at: datetime,
    rounds: int,
    now: datetime,
) -> Dispatch:
    dispatch = Dispatch(
        id=ids.next_id(),
        executor=executor,
        open_for=executor.pk,
        source=candidate.source,
        task=task.pk,
        occurrence=candidate.occurrence,
        occurrence_at=due_at,
        title=task.title,
        params=task.params,
        template_name=task.template_name or "",
        template_version=task.template_version,
        round=rounds,
        dispatched_at=now,
        deadline_at=now + timedelta(seconds=task.lease_seconds),
    )
    dispatch.save(force_insert=True)
    journal.write(
        [
            journal.Entry(
                at=now,
                source=Source.DISPATCH,
                subject_id=dispatch.pk,
                event="handed_out",
                to_state=State.OPEN,
                attempt=rounds + 1,
                type_or_task=dispatch.task_label,
                executor=executor.name,
                actor=executor.name,
                wait_ms=(now - due_at) // _MS,
            )
        ]
    )
    return dispatch
