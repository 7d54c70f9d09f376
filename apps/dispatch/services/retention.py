"""Housekeeping: removes what ended longer ago than its retention, in small chunks.

Each table is gone through by primary key, a bounded read at a time, and what is chosen goes by id
in one transaction a chunk. No task that can be handed out, no open dispatch and none of their
stocks is locked, so no pull waits.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

from django.db.models import F, prefetch_related_objects

from apps.common import clock, ids
from apps.common.db import fetch_each, table, transactional
from apps.common.leases import load_position, save_position
from apps.common.rows import update_rows
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, OnceTask, RotateTask, Stock, Task
from apps.dispatch.models.stock import Occurrence
from apps.dispatch.rules import retention as rules
from apps.dispatch.rules.recurrence import instant_of
from apps.dispatch.services.audit import edit_entry
from apps.journal import services as journal
from apps.journal.models import Source as JournalSource

SWEEP = "dispatch.purge"
# How often all rows are checked again; in between, only new ones.
PASS = timedelta(days=1)
# After each chunk it rests three times as long as that took.
RESTS = 3
LONGEST_REST = 1.0
OVER = "over since %s"

Model: TypeAlias = type[OnceTask] | type[RotateTask]


@dataclass(frozen=True, slots=True)
class _Table:
    """A table to purge: `read` returns rows after an id as (id, whether to remove it)."""

    name: str
    read: Callable[[int], list[tuple[int, bool]]]
    remove: Callable[[list[int]], Counter[str]]


def purge(*, until: datetime) -> Counter[str]:
    """Remove what ended before its horizon; returns how many rows of which kind.

    Stops between two chunks when the clock has passed `until`; the next call goes on there.
    """
    position = load_position(SWEEP)
    waiting = _tables(clock.now())
    removed: Counter[str] = Counter()
    try:
        while waiting and clock.now() < until:
            # In turn, so that a long table does not delay the others.
            table = waiting.pop(0)
            begun = time.monotonic()
            gone, ended = _take_chunk(table, position)
            removed += gone
            if not ended:
                waiting.append(table)
            if gone:
                # So it uses a quarter of a connection at most.
                time.sleep(min(LONGEST_REST, RESTS * (time.monotonic() - begun)))
    finally:
        save_position(SWEEP, position)
    return removed


def _take_chunk(table: _Table, position: dict[str, Any]) -> tuple[Counter[str], bool]:
    """Purge the next chunk; what was removed, and whether the end of the table was reached."""
    now = clock.now()
    place = position.get(table.name)
    if place is None or (place["ended"] and datetime.fromisoformat(place["begun"]) + PASS <= now):
        place = position[table.name] = {"after": 0, "begun": now.isoformat(), "ended": False}
    rows = table.read(place["after"])
    chosen = [pk for pk, goes in rows if goes]
    gone = table.remove(chosen) if chosen else Counter[str]()
    if rows:
        place["after"] = rows[-1][0]
    ended = len(rows) < conf.PURGE_BATCH
    place["ended"] = place["ended"] or ended
    return gone, ended


def _tables(now: datetime) -> list[_Table]:
    """The tables to purge by the settings."""
    lookback = conf.DISPATCH_LOOKBACK
    tables = []
    before = rules.horizon(now, retention=conf.TASK_RETENTION, lookback=lookback)
    if before is not None:
        for model in (OnceTask, RotateTask):
            read, remove = partial(_read_tasks, model, before), partial(_end_tasks, model, before)
            tables.append(_Table(f"{model.source}_tasks", read, remove))
    before = rules.horizon(now, retention=conf.DISPATCH_RETENTION, lookback=lookback)
    if before is not None:
        tables.append(_Table("dispatches", partial(_read_dispatches, before), _remove_dispatches))
        tables.append(_Table("stocks", partial(_read_stocks, before), _remove_stocks))
    return tables


def _read_tasks(model: Model, before: datetime, after: int) -> list[tuple[int, bool]]:
    rows = model._default_manager.filter(pk__gt=after).order_by("pk").defer("params", "title")
    return [(task.pk, _is_over(task, before)) for task in rows[: conf.PURGE_BATCH]]


def _is_over(task: Task, before: datetime) -> bool:
    since = _over_since(task)
    return since is not None and since < before


def _over_since(task: Any) -> datetime | None:
    return rules.over_since(
        source=task.source,
        is_deleted=task.status == Task.Status.DELETED,
        changed_at=task.updated_at,
        start_at=task.start_at,
        end_at=task.end_at,
        lookback=conf.DISPATCH_LOOKBACK,
    )


@transactional
def _end_tasks(model: Model, before: datetime, chosen: list[int]) -> Counter[str]:
    """Remove those without a dispatch; mark the others deleted, so that theirs can go in time.

    No plan version is raised: what is over has been in nobody's queue for long.
    """
    now = clock.now()
    locked = model._default_manager.filter(pk__in=chosen).order_by("pk").select_for_update()
    over = [task for task in locked if _is_over(task, before)]
    known = _with_dispatches(model, [task.pk for task in over])
    marked = [t for t in over if t.pk in known and t.status != Task.Status.DELETED]
    entries = _mark_deleted(model, marked, now)
    # The numbers of tasks are never reused, so no later task inherits a stock.
    going = [task.pk for task in over if task.pk not in known]
    gone, _ = model._default_manager.filter(pk__in=going).delete()
    removed = Counter({f"{model.source}_tasks": gone})
    journal.write([*entries, *_purge_entries(+removed, now)])
    return +removed


def _with_dispatches(model: Model, pks: list[int]) -> set[int]:
    """Those of the tasks that were handed out: a rotation may have a million dispatches, and one
    is enough to know."""
    one = f"SELECT task FROM {table(Dispatch)} WHERE source = %s AND task = %s LIMIT 1"
    return {task for (task,) in fetch_each((one, [str(model.source), pk]) for pk in pks)}


def _mark_deleted(model: Model, marked: list[Any], now: datetime) -> list[journal.Entry]:
    """Mark the locked tasks deleted; the entries of it."""
    prefetch_related_objects(marked, "executor")
    model._default_manager.filter(pk__in=[task.pk for task in marked]).update(
        status=Task.Status.DELETED, version=F("version") + 1, updated_at=now, updated_by=""
    )
    return [
        edit_entry(
            task,
            "task_deleted",
            now=now,
            actor="",
            reason=OVER % _over_since(task),
            before={"status": task.status},
            after={"status": Task.Status.DELETED},
        )
        for task in marked
    ]


def _read_dispatches(before: datetime, after: int) -> list[tuple[int, bool]]:
    # Ids hold the time of creation; what began later has not ended earlier.
    old = Dispatch.objects.filter(pk__gt=after, pk__lt=ids.lowest_id_at(before)).order_by("pk")
    rows = old.values_list("pk", "source", "task", "occurrence_at", "finished_at")
    read = list(rows[: conf.PURGE_BATCH])
    kept = _kept_tasks(row[2] for row in read if row[1] == OnceTask.source)
    return [
        (
            pk,
            finished_at is not None
            and finished_at < before
            and rules.is_settled(source, due_at=due_at, is_task_kept=task in kept, before=before),
        )
        for pk, source, task, due_at, finished_at in read
    ]


@transactional
def _remove_dispatches(chosen: list[int]) -> Counter[str]:
    """With each its part of the stock goes: handed stays the number of those that hold it."""
    locked = Dispatch.objects.filter(pk__in=chosen).order_by("pk").select_for_update()
    rows = list(locked.values_list("pk", "source", "task", "occurrence", "holds_stock"))
    held: Counter[Occurrence] = Counter()
    for _, source, task, occurrence, holds_stock in rows:
        held[source, task, occurrence] += holds_stock
    # The dispatches before their stocks, as an ending locks them.
    gone, _ = Dispatch.objects.filter(pk__in=[row[0] for row in rows]).delete()
    removed = Counter({"dispatches": gone, "stocks": _lower_stocks(held)})
    journal.write(_purge_entries(+removed, clock.now()))
    return +removed


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


def _read_stocks(before: datetime, after: int) -> list[tuple[int, bool]]:
    """Those left over: made for a hand-out that then did not come about, or all given back."""
    rows = Stock.objects.filter(pk__gt=after).order_by("pk")
    read = list(rows[: conf.PURGE_BATCH])
    kept = _kept_tasks(stock.task for stock in read if stock.source == OnceTask.source)
    return [
        (
            stock.pk,
            stock.handed == 0
            and rules.is_settled(
                stock.source,
                due_at=instant_of(stock.occurrence),
                is_task_kept=stock.task in kept,
                before=before,
            ),
        )
        for stock in read
    ]


@transactional
def _remove_stocks(chosen: list[int]) -> Counter[str]:
    gone, _ = Stock.objects.filter(pk__in=chosen, handed=0).delete()
    removed = +Counter({"stocks": gone})
    journal.write(_purge_entries(removed, clock.now()))
    return removed


def _kept_tasks(task_ids: Iterable[int]) -> set[int]:
    """Those of the once tasks that are not deleted."""
    wanted = set(task_ids)
    return set(OnceTask.objects.not_deleted().filter(pk__in=wanted).values_list("pk", flat=True))


def _purge_entries(removed: Counter[str], now: datetime) -> list[journal.Entry]:
    """One entry for the chunk, with how many went of what; none for nothing."""
    if not removed:
        return []
    source = JournalSource.PLAN
    return [journal.Entry(at=now, source=source, subject_id=0, event="purged", data=dict(removed))]
