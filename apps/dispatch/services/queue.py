"""The queue of a user: from this process or the cache while its plan versions match, else built."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from cachetools import LRUCache

from apps.common.db import fetch, force_index, instant, placeholders, table, transactional
from apps.dispatch import cache
from apps.dispatch.cache import SavedPlan, SavedQueue
from apps.dispatch.conf import conf
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, Stock, Task
from apps.dispatch.rules.plan import ONCE, ONLY, ROTATE, Planned
from apps.dispatch.rules.policy import OPEN, RETRY_SAME, Policy
from apps.dispatch.rules.queue import Identity, Queue, Versions
from apps.dispatch.rules.recurrence import Recurrence, read_rule
from apps.dispatch.rules.window import Window, window
from apps.dispatch.services.state import ExecutorState, state_of
from apps.journal.services.edit import record_edit

# Tasks that a process keeps, of about 300 bytes each: of plans, and of queues, which share them.
MAX_TASKS = 50_000
# A queue is saved again after closing this many more occurrences.
SAVE_EVERY = 32
_A_MINUTE = timedelta(minutes=1)
_SMALL_QUOTA = 100


class Plan(NamedTuple):
    """The active tasks of one executor at one plan version."""

    version: int
    queue: Queue


@dataclass(slots=True)
class QueueEntry:
    """The queue of a user with the plan versions and the instant that it was built at; `saved` is
    the number of its closed occurrences in the cache."""

    versions: Versions
    built_at: datetime
    queue: Queue
    saved: int = 0


def _weight(of: Plan | QueueEntry) -> int:
    return 1 + of.queue.size


plans: LRUCache[int, Plan] = LRUCache(MAX_TASKS, getsizeof=_weight)
entries: LRUCache[int, QueueEntry] = LRUCache(MAX_TASKS, getsizeof=_weight)
# Threads of a process share both.
_lock = threading.Lock()
KeptT = TypeVar("KeptT", Plan, QueueEntry)


def _keep(kept: LRUCache[int, KeptT], executor: int, value: KeptT) -> None:
    """Keep the plan or queue for the executor; one that is larger than all that is kept together is
    not, so that it pushes out nothing else."""
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
    saved = cache.load_queue(state.pk)
    entry = build(state, now=now)
    if saved is not None and saved.versions == state.versions and now < saved.frame.upper:
        entry.built_at, entry.saved = saved.built_at, len(saved.closed)
        entry.queue.drop(saved.closed)
    elif state_of(state.pk).versions == state.versions:
        _save(state.pk, entry, now)
    _keep(entries, state.pk, entry)
    return entry


def close(executor: int, entry: QueueEntry, closed: set[Identity], *, now: datetime) -> None:
    """Drop occurrences that the user can never receive again under this plan."""
    entry.queue.drop(closed)
    if len(entry.queue.closed) - entry.saved >= SAVE_EVERY:
        _save(executor, entry, now)


def _save(executor: int, entry: QueueEntry, now: datetime) -> None:
    queue, closed = entry.queue, sorted(entry.queue.closed)
    entry.saved = len(closed)
    saved = SavedQueue(entry.versions, entry.built_at, queue.frame, queue.size, closed)
    cache.save_queue(executor, saved, now=now)


def rebuilt(executor: Executor, *, now: datetime, actor: str) -> QueueEntry:
    """The queue of the user built anew from the tables, the plans of its groups included.

    Only its own plan version is raised: every process builds its queue anew, and those of the other
    members stay.
    """
    _outdate(executor, now=now, actor=actor)
    state = state_of(executor.pk)
    frame = window_at(now)
    for owner, version in state.versions:
        _keep(plans, owner, _built_plan(owner, version, frame, now))
    return entry_of(state, now=now)


@transactional
def _outdate(executor: Executor, *, now: datetime, actor: str) -> None:
    Executor.objects.filter(pk=executor.pk).raise_plan_version()
    record_edit(executor, "queue_rebuilt", now=now, actor=actor)


def build(state: ExecutorState, *, now: datetime) -> QueueEntry:
    """The queue made of the plans of the user and its groups."""
    frame = window_at(now)
    parts = [plan.queue for plan in _plans_of(state.versions, frame, now)]
    # It ends with the first of its plans.
    frame = Window(frame.lower, min(part.frame.upper for part in parts))
    return QueueEntry(state.versions, now, Queue.merged(parts, frame=frame, now=now))


# --- plans of executors ------------------------------------------------------------------------
def _plans_of(versions: Versions, frame: Window, now: datetime) -> list[Plan]:
    with _lock:
        kept = {owner: plans.get(owner) for owner, _version in versions}
    found = {
        owner: plan
        for owner, version in versions
        if (plan := kept[owner]) is not None and _serves(plan, version, frame, now)
    }
    missing = tuple(each for each in versions if each[0] not in found)
    saved = cache.load_plans(missing) if missing else {}
    for owner, version in missing:
        plan = _usable(saved.get(owner), frame, now) or _shared_plan(owner, version, frame, now)
        found[owner] = plan
        _keep(plans, owner, plan)
    return [*found.values()]


def _serves(plan: Plan, version: int, frame: Window, now: datetime) -> bool:
    return plan.version == version and plan.queue.covers(frame, now)


def _usable(saved: SavedPlan | None, frame: Window, now: datetime) -> Plan | None:
    """The saved plan, if it can be read and covers the frame."""
    if saved is None:
        return None
    plan = cache.read(lambda: _plan(saved, now))
    return plan if plan is not None and plan.queue.covers(frame, now) else None


def _plan(saved: SavedPlan, now: datetime) -> Plan:
    return Plan(saved.version, Queue(_planned_of(saved.rows), frame=saved.frame, now=now))


def _shared_plan(owner: int, version: int, frame: Window, now: datetime) -> Plan:
    """The plan at that version; of many that miss it one builds, the others wait a little."""
    with cache.building(owner) as mine:
        # Another thread may have finished it since the first check.
        if mine:
            saved = cache.load_plans(((owner, version),)).get(owner)
        else:
            saved = cache.await_plan(owner, version)
        return _usable(saved, frame, now) or _built_plan(owner, version, frame, now)


def _built_plan(owner: int, version: int, frame: Window, now: datetime) -> Plan:
    """The plan from the tables, which other processes may then share."""
    # A little deeper than its reader needs, for those who read the clock a moment before.
    frame = Window(frame.lower - _A_MINUTE, frame.upper)
    saved = SavedPlan(version, frame, plan_rows([owner], frame, now=now))
    # A plan that an edit has made outdated is not published.
    if Executor.objects.filter(pk=owner, plan_version=version).exists():
        cache.save_plan(owner, saved, now=now)
    return _plan(saved, now)


_OF_TASK = ("executor_id", "version", "id", "priority", "start_at", "end_at")
_OF_POLICY = tuple(each.name for each in fields(Policy))
_OF_RULE = ("rule", "time_zone", "effective_from", "misfire", "misfire_limit")
# Where they end in a row.
_TASK = len(_OF_TASK)
_POLICY = _TASK + len(_OF_POLICY)
_COLUMNS = {ONCE: _OF_TASK + _OF_POLICY, ROTATE: _OF_TASK + _OF_POLICY + _OF_RULE}


def plan_of(owners: Sequence[int], frame: Window, *, now: datetime) -> list[Planned]:
    """The active tasks of the executors that can be due within the frame, in no order."""
    return _planned_of(plan_rows(owners, frame, now=now))


def plan_rows(owners: Sequence[int], frame: Window, *, now: datetime) -> dict[str, list[Any]]:
    """The same as rows of their tables, by source."""
    found = {}
    for source, model in TASK_MODELS.items():
        condition, bound = f"t.start_at >= %s AND {_not_used_up()}", frame.lower
        if source == ROTATE:
            condition, bound = "(t.end_at IS NULL OR t.end_at > %s)", now
        found[source] = fetch(
            f"SELECT {', '.join(f't.{name}' for name in _COLUMNS[source])} FROM {table(model)} t "
            f"WHERE t.executor_id IN ({placeholders(len(owners))}) AND t.status = %s "
            f"AND t.start_at < %s AND {condition}",
            [*owners, Task.Status.ACTIVE.value, frame.upper, bound],
        )
    return found


@functools.cache
def _not_used_up() -> str:
    """Leaves out once tasks whose quota is used up for good: nobody holds one that could come back,
    and nobody may try again. Else each pull would pass over all of the look-back's finished work.

    Large quotas are few, and looking for one that is still held would take longer.
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


def _planned_of(rows: Mapping[str, Sequence[Sequence[Any]]]) -> list[Planned]:
    return [_planned(source, row) for source in TASK_MODELS for row in rows[source]]


def _planned(source: str, row: Sequence[Any]) -> Planned:
    owner, version, pk, priority, start_at, end_at = row[:_TASK]
    starts, ends = instant(start_at), instant(end_at)
    policy, rule = _policy(*row[_TASK:_POLICY]), row[_POLICY:]
    planned = Planned(source, pk, priority, starts, ends, policy, owner, version)
    if not rule:
        return planned
    written, zone, effective_from, misfire, misfire_limit = rule
    recurrence = Recurrence(
        rule=read_rule(written),
        zone=ZoneInfo(zone),
        start_at=starts,
        end_at=ends,
        effective_from=instant(effective_from),
    )
    return planned._replace(recurrence=recurrence, misfire=misfire, misfire_limit=misfire_limit)


@functools.lru_cache(maxsize=1000)
def _policy(*values: Any) -> Policy:
    """The policy of those columns; tasks with equal columns share one."""
    return Policy(**dict(zip(_OF_POLICY, values, strict=True)))
