"""The queue of a user: kept by this process while its plan versions match, else built.

Each process keeps its own queues. It never uses one that an edit has outdated, because the plan
versions of the database say so; processes send each other nothing, and nothing depends on what they
keep.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from cachetools import LRUCache

from apps.common.db import fetch, force_index, instant, placeholders, table, transactional
from apps.common.shaped import is_object
from apps.dispatch.conf import conf
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, Stock, Task
from apps.dispatch.rules.plan import ONCE, ONLY, ROTATE, Planned
from apps.dispatch.rules.policy import OPEN, RETRY_SAME, Policy
from apps.dispatch.rules.queue import Queue, Versions
from apps.dispatch.rules.recurrence import Recurrence, read_series
from apps.dispatch.rules.window import Window, window
from apps.dispatch.services.executor_state import ExecutorState, state_of
from apps.journal.services.edit import record_edit

# Tasks that a process keeps, of about 300 bytes each: of plans, and of queues, which share them.
# A quarter as many is too few for 64 people with 1,500 tasks ahead each: all are then read anew at
# each pull.
MAX_TASKS = 200_000
_A_MINUTE = timedelta(minutes=1)
_SMALL_QUOTA = 100


class Plan(NamedTuple):
    """The active tasks of one executor at one plan version."""

    version: int
    queue: Queue


@dataclass(slots=True)
class QueueEntry:
    """The queue of a user with the plan versions that it was built at."""

    versions: Versions
    queue: Queue


def _weight(of: Plan | QueueEntry) -> int:
    return 1 + of.queue.size


plans: LRUCache[int, Plan] = LRUCache(MAX_TASKS, getsizeof=_weight)
entries: LRUCache[int, QueueEntry] = LRUCache(MAX_TASKS, getsizeof=_weight)
# Threads of a process share both.
_lock = threading.Lock()
# One of the threads that miss the plan of an executor builds it, and the others wait for it.
_builders: WeakValueDictionary[int, threading.Lock] = WeakValueDictionary()
KeptT = TypeVar("KeptT", Plan, QueueEntry)


def _keep(kept: LRUCache[int, KeptT], executor: int, value: KeptT) -> None:
    """Keep the plan or queue for the executor, unless it is larger than the whole cache: then it
    would push out everything else."""
    with _lock:
        kept.pop(executor, None)
        if _weight(value) <= kept.maxsize:
            kept[executor] = value


def window_at(now: datetime) -> Window:
    """The window that everybody is served from at `now`."""
    hours, lookback = conf.DISPATCH_WINDOW_HOURS, conf.DISPATCH_LOOKBACK
    return window(now=now, hours=hours, lookback=lookback)


# --- queues of users ---------------------------------------------------------------------------
def entry_of(state: ExecutorState, *, now: datetime) -> QueueEntry:
    """The queue of the user at its present plan versions."""
    with _lock:
        entry = entries.get(state.pk)
    if (
        entry is not None
        and entry.versions == state.versions
        and entry.queue.covers(window_at(now), now)
    ):
        return entry
    entry = build(state, now=now)
    _keep(entries, state.pk, entry)
    return entry


def rebuilt(executor: Executor, *, now: datetime, actor: str) -> QueueEntry:
    """The queue of the user built anew from the tables, the plans of its groups included.

    Only its own plan version is raised: every process builds its queue anew, and those of the other
    members stay.
    """
    _outdate(executor, now=now, actor=actor)
    state = state_of(executor.pk)
    frame = window_at(now)
    for owner, version in state.versions:
        _keep(plans, owner, _built(owner, version, frame, now))
    return entry_of(state, now=now)


@transactional
def _outdate(executor: Executor, *, now: datetime, actor: str) -> None:
    Executor.objects.filter(pk=executor.pk).raise_plan_version()
    record_edit(executor, "queue_rebuilt", now=now, actor=actor)


def build(state: ExecutorState, *, now: datetime) -> QueueEntry:
    """The queue made of the plans of the user and its groups."""
    frame = window_at(now)
    parts = [_plan_of(owner, version, frame, now).queue for owner, version in state.versions]
    # The queue ends with the first of its plans.
    frame = Window(frame.lower, min(part.frame.upper for part in parts))
    return QueueEntry(state.versions, Queue.merged(parts, frame=frame, now=now))


# --- plans of executors ------------------------------------------------------------------------
def _plan_of(owner: int, version: int, frame: Window, now: datetime) -> Plan:
    """The plan at that version that is kept, else built."""
    if (plan := _kept_plan(owner, version, frame, now)) is not None:
        return plan
    with _lock:
        builder = _builders.setdefault(owner, threading.Lock())
    with builder:
        plan = _kept_plan(owner, version, frame, now)
        if plan is None:
            plan = _built(owner, version, frame, now)
            _keep(plans, owner, plan)
    return plan


def _kept_plan(owner: int, version: int, frame: Window, now: datetime) -> Plan | None:
    with _lock:
        plan = plans.get(owner)
    is_current = plan is not None and plan.version == version and plan.queue.covers(frame, now)
    return plan if is_current else None


def _built(owner: int, version: int, frame: Window, now: datetime) -> Plan:
    """The plan from the tables."""
    # The frame is a little deeper than its reader needs, for readers who read the clock earlier.
    frame = Window(frame.lower - _A_MINUTE, frame.upper)
    return Plan(version, Queue(plan_of([owner], frame, now=now), frame=frame, now=now))


_OF_TASK = ("executor_id", "version", "id", "priority", "start_at", "end_at")
_OF_POLICY = tuple(each.name for each in fields(Policy))
_OF_RULE = ("rule", "time_zone", "effective_from", "misfire", "misfire_limit")
# Where they end in a row.
_TASK = len(_OF_TASK)
_POLICY = _TASK + len(_OF_POLICY)
_COLUMNS = {ONCE: _OF_TASK + _OF_POLICY, ROTATE: _OF_TASK + _OF_POLICY + _OF_RULE}


def plan_of(owners: Sequence[int], frame: Window, *, now: datetime) -> list[Planned]:
    """The active tasks of the executors that can be due within the frame, in no order. Those whose
    params cannot be read are nobody's."""
    found = []
    for source, model in TASK_MODELS.items():
        condition, bound = f"t.start_at >= %s AND {_not_used_up()}", frame.lower
        if source == ROTATE:
            condition, bound = "(t.end_at IS NULL OR t.end_at > %s)", now
        rows = fetch(
            f"SELECT {', '.join(f't.{name}' for name in _COLUMNS[source])} FROM {table(model)} t "
            f"WHERE t.executor_id IN ({placeholders(len(owners))}) AND t.status = %s "
            f"AND t.start_at < %s AND {condition} AND {is_object('t.params')}",
            [*owners, Task.Status.ACTIVE.value, frame.upper, bound],
        )
        found += [_planned(source, row) for row in rows]
    return found


@functools.cache
def _not_used_up() -> str:
    """Leaves out once tasks whose quota is used up for good: nobody holds a dispatch that could
    come back, and nobody may try again. Else each pull would pass over all finished work of the
    lookback.

    Large quotas are few, and looking for a dispatch that is still held would take longer.
    """
    only = f"source = '{ONCE}' AND task = t.id"
    handed = f"SELECT handed FROM {table(Stock)} WHERE {only} AND occurrence = {ONLY}"
    held = (
        f"SELECT id FROM {table(Dispatch)}{force_index('dispatch_task')} "
        f"WHERE {only} AND state = '{OPEN}' LIMIT 1"
    )
    # The comparison with NULL would be NULL, and so would its opposite.
    return (
        f"NOT (COALESCE(t.dispatch_times, {_SMALL_QUOTA + 1}) <= {_SMALL_QUOTA} "
        f"AND COALESCE(({handed}), 0) >= t.dispatch_times "
        f"AND t.on_failure <> '{RETRY_SAME}' AND ({held}) IS NULL)"
    )


def _planned(source: str, row: Sequence[Any]) -> Planned:
    owner, version, pk, priority, start_at, end_at = row[:_TASK]
    starts, ends = instant(start_at), instant(end_at)
    policy, series = _policy(*row[_TASK:_POLICY]), row[_POLICY:]
    planned = Planned(source, pk, priority, starts, ends, policy, owner, version)
    if not series:
        return planned
    written, zone, effective_from, misfire, misfire_limit = series
    rule, zone = read_series(written, zone)
    recurrence = Recurrence(
        rule=rule,
        zone=zone,
        start_at=starts,
        end_at=ends,
        effective_from=instant(effective_from),
    )
    return planned._replace(recurrence=recurrence, misfire=misfire, misfire_limit=misfire_limit)


@functools.lru_cache(maxsize=1000)
def _policy(*values: Any) -> Policy:
    """The policy of those columns; tasks with equal columns share one."""
    return Policy(**dict(zip(_OF_POLICY, values, strict=True)))
