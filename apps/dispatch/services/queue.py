"""The queue of a user: from this process or the cache while its plan versions match, else built."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from cachetools import LRUCache

from apps.common.db import fetch, instant, placeholders, table, transactional
from apps.dispatch import cache
from apps.dispatch.cache import SavedPlan, SavedQueue
from apps.dispatch.conf import conf
from apps.dispatch.models import TASK_MODELS, Executor, Task
from apps.dispatch.rules.plan import ONCE, ROTATE, Planned
from apps.dispatch.rules.policy import Policy
from apps.dispatch.rules.queue import Identity, Queue, Versions
from apps.dispatch.rules.recurrence import Recurrence, read_rule
from apps.dispatch.rules.window import Window
from apps.dispatch.services.state import ExecutorState, state_of

# Tasks that a process keeps, of about 300 bytes each: of plans, and of queues, which share them.
MAX_TASKS = 50_000
# A queue is saved again after closing this many more occurrences.
SAVE_EVERY = 32
_A_MINUTE = timedelta(minutes=1)


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
    return min(1 + of.queue.size, MAX_TASKS)


plans: LRUCache[int, Plan] = LRUCache(MAX_TASKS, getsizeof=_weight)
entries: LRUCache[int, QueueEntry] = LRUCache(MAX_TASKS, getsizeof=_weight)
# Threads of a process share both.
_lock = threading.Lock()


# --- queues of users ---------------------------------------------------------------------------
def entry_of(state: ExecutorState, *, now: datetime) -> QueueEntry:
    """The queue of the user at its present plan versions."""
    with _lock:
        entry = entries.get(state.pk)
    if (
        entry is not None
        and entry.versions == state.versions
        and entry.queue.covers(state.window(now), now)
    ):
        return entry
    saved = cache.load_queue(state.pk)
    entry = build(state, now=now)
    if saved is not None and saved.versions == state.versions and now < saved.frame.upper:
        entry.built_at, entry.saved = saved.built_at, len(saved.closed)
        entry.queue.drop(saved.closed)
    elif state_of(state.pk).versions == state.versions:
        _save(state.pk, entry, now)
    with _lock:
        entries[state.pk] = entry
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


def rebuilt(executor: int, *, now: datetime) -> QueueEntry:
    """The queue of the user built anew from the tables. Raises the plan versions of the user and
    its groups, so that every process builds it anew, for the other members of the groups as well.
    """
    transactional(Executor.objects.filter(pk__in=state_of(executor).owners).raise_plan_version)()
    return entry_of(state_of(executor), now=now)


def build(state: ExecutorState, *, now: datetime) -> QueueEntry:
    """The queue made of the plans of the user and its groups."""
    frame = state.window(now)
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
        with _lock:
            plans[owner] = plan
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
        plan = _usable(saved, frame, now)
        if plan is not None:
            return plan
        frame = Window(_depth(frame, now), frame.upper)
        saved = SavedPlan(version, frame, plan_rows([owner], frame, now=now))
        # A plan that an edit has made outdated is not published.
        if Executor.objects.filter(pk=owner, plan_version=version).exists():
            cache.save_plan(owner, saved, now=now)
        return _plan(saved, now)


def _depth(frame: Window, now: datetime) -> datetime:
    """How far back a plan is read: the members at work share one, all others a deeper one.

    A little deeper than its reader needs, for those who read the clock a moment before.
    """
    recent = now - timedelta(hours=conf.DISPATCH_WINDOW_HOURS)
    return (recent if frame.lower >= recent else now - conf.DISPATCH_LOOKBACK) - _A_MINUTE


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
        condition, bound = ("start_at >= %s", frame.lower)
        if source == ROTATE:
            condition, bound = ("(end_at IS NULL OR end_at > %s)", now)
        found[source] = fetch(
            f"SELECT {', '.join(_COLUMNS[source])} FROM {table(model)} "
            f"WHERE executor_id IN ({placeholders(len(owners))}) AND status = %s AND start_at < %s "
            f"AND {condition}",
            [*owners, Task.Status.ACTIVE.value, frame.upper, bound],
        )
    return found


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


@lru_cache(maxsize=1000)
def _policy(*values: Any) -> Policy:
    """The policy of those columns; tasks with equal columns share one."""
    return Policy(**dict(zip(_OF_POLICY, values, strict=True)))
