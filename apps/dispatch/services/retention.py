"""Housekeeping: moves tasks and dispatches that are over to the archive, and forgets those that
have been there long enough.

It walks through each table by primary key, a bounded read at a time; the chosen rows go by id in
one transaction a chunk. No task that can be handed out, no open dispatch and none of their stocks
is locked, so no pull waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

from django.db import models

from apps.common import clock, ids
from apps.common.archive import Chunk, step
from apps.common.db import execute, fetch_each, placeholders, table, transactional
from apps.common.leases import load_position, save_position
from apps.dispatch.conf import conf
from apps.dispatch.models import (
    ArchivedDispatch,
    ArchivedTask,
    Dispatch,
    OnceTask,
    RotateTask,
    Stock,
)
from apps.dispatch.rules import retention as rules
from apps.dispatch.rules.recurrence import instant_of
from apps.dispatch.services import archive
from apps.journal import services as journal

SWEEP = "dispatch.purge"
# How often all rows are checked again; in between, only new ones.
PASS = timedelta(days=1)
FORGOTTEN = "purged"

Model: TypeAlias = type[OnceTask] | type[RotateTask]


@dataclass(frozen=True, slots=True)
class _Table:
    """A table to clear: `read` returns rows after an id as (id, whether it goes), `remove` takes
    those away and returns how many rows of which kind."""

    name: str
    read: Callable[[int], list[tuple[int, bool]]]
    remove: Callable[[list[int]], Counter[str]]


def purge(*, until: datetime, lag: timedelta = timedelta()) -> Counter[str]:
    """Move rows that were over before their horizon, forget rows past their retention; returns how
    many rows of which kind.

    Archived dispatches go `lag` later one by one, because partitions come first. Stops between two
    chunks when the clock has passed `until`; the next call goes on there.
    """
    position = load_position(SWEEP)
    waiting = _tables(clock.now(), lag)
    removed: Counter[str] = Counter()
    try:
        while waiting and clock.now() < until:
            # The tables take turns, so that a long one does not delay the others.
            table = waiting.pop(0)
            place = position.setdefault(table.name, {})
            chunk = step(place, partial(_take_chunk, table, removed), again_after=PASS)
            if not chunk.is_end:
                waiting.append(table)
    finally:
        save_position(SWEEP, position)
    return removed


def _take_chunk(table: _Table, removed: Counter[str], after: int) -> Chunk:
    rows = table.read(after)
    chosen = [pk for pk, goes in rows if goes]
    gone = table.remove(chosen) if chosen else Counter[str]()
    removed += gone
    return Chunk(gone.total(), rows[-1][0] if rows else after, len(rows) < conf.PURGE_BATCH)


def _tables(now: datetime, lag: timedelta) -> list[_Table]:
    """The tables to clear by the settings."""
    lookback = conf.DISPATCH_LOOKBACK
    tables = []
    before = rules.horizon(now, after=conf.TASK_ARCHIVE_AFTER, lookback=lookback)
    for model in (OnceTask, RotateTask):
        read = partial(_read_tasks, model, before)
        move: Callable[[list[int]], Counter[str]] = partial(_move_tasks, model, before)
        tables.append(_Table(f"{model.source}_tasks", read, move))
    before = rules.horizon(now, after=conf.DISPATCH_ARCHIVE_AFTER, lookback=lookback)
    tables += [
        _Table("dispatches", partial(_read_dispatches, before), partial(_move_dispatches, before)),
        _Table("stocks", partial(_read_stocks, before), _remove_stocks),
    ]
    if conf.DISPATCH_RETENTION:
        over = now - conf.DISPATCH_RETENTION - lag
        read, kind = partial(_read_archived_dispatches, over), "archived_dispatches"
        tables.append(_Table(kind, read, partial(_forget, kind, ArchivedDispatch)))
    if conf.TASK_RETENTION:
        over = rules.archived_before(
            now, retention=conf.TASK_RETENTION, archive_after=conf.TASK_ARCHIVE_AFTER
        )
        read, kind = partial(_read_archived_tasks, over), "archived_tasks"
        tables.append(_Table(kind, read, partial(_forget, kind, ArchivedTask)))
    return tables


# --- to the archive -----------------------------------------------------------------------------
def _read_tasks(model: Model, before: datetime, after: int) -> list[tuple[int, bool]]:
    rows = model._default_manager.filter(pk__gt=after).order_by("pk").defer("params", "title")
    return [(task.pk, archive.is_over(task, before)) for task in rows[: conf.PURGE_BATCH]]


def _move_tasks(model: Model, before: datetime, chosen: list[int]) -> Counter[str]:
    return archive.move_tasks(model, chosen, before)


def _read_dispatches(before: datetime, after: int) -> list[tuple[int, bool]]:
    # Ids hold the time of creation; a dispatch that began later has not ended earlier.
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


def _move_dispatches(before: datetime, chosen: list[int]) -> Counter[str]:
    return archive.move_dispatches(chosen, before)


def _read_stocks(before: datetime, after: int) -> list[tuple[int, bool]]:
    """The next stock rows, each with whether it is left over: made for a hand-out that did not come
    about, or all given back."""
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
    return _record_forgotten("stocks", gone)


def _kept_tasks(task_ids: Iterable[int]) -> set[int]:
    """The once tasks that are not deleted."""
    wanted = set(task_ids)
    return set(OnceTask.objects.not_deleted().filter(pk__in=wanted).values_list("pk", flat=True))


# --- out of the archive -------------------------------------------------------------------------
def _read_archived_dispatches(over: datetime, after: int) -> list[tuple[int, bool]]:
    old = ArchivedDispatch.objects.filter(pk__gt=after, pk__lt=ids.lowest_id_at(over))
    rows = old.order_by("pk").values_list("pk", "finished_at")
    return [(pk, ended_at < over) for pk, ended_at in rows[: conf.PURGE_BATCH]]


def _read_archived_tasks(over: datetime, after: int) -> list[tuple[int, bool]]:
    """A task stays as long as dispatches of it are in the archive."""
    rows = ArchivedTask.objects.filter(pk__gt=after).order_by("pk")
    read = list(rows.values_list("pk", "source", "task", "archived_at")[: conf.PURGE_BATCH])
    old = [(source, task) for _pk, source, task, at in read if at < over]
    one = f"SELECT source, task FROM {table(ArchivedDispatch)} WHERE source = %s AND task = %s"
    known = set(fetch_each((f"{one} LIMIT 1", each) for each in old))
    return [(pk, at < over and (source, task) not in known) for pk, source, task, at in read]


@transactional
def _forget(kind: str, model: type[models.Model], chosen: list[int]) -> Counter[str]:
    sql = f"DELETE FROM {table(model)} WHERE id IN ({placeholders(len(chosen))})"
    return _record_forgotten(kind, execute(sql, chosen))


def _record_forgotten(kind: str, rows: int) -> Counter[str]:
    """Write one journal entry for the removed rows of a chunk, none for no rows; returns their
    count."""
    gone = +Counter({kind: rows})
    if gone:
        journal.note(FORGOTTEN, gone, at=clock.now())
    return gone
