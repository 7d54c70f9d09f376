"""Working tasks off, removing the past, and checking what is left."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import count as counted
from typing import Any

from apps.common import clock, ids
from apps.common.leases import save_position
from apps.common.rows import insert_rows
from apps.dispatch.models import (
    ArchivedDispatch,
    ArchivedTask,
    Dispatch,
    Executor,
    OnceTask,
    RotateTask,
    Stock,
)
from apps.dispatch.services import retention
from apps.dispatch.services.pull import Nothing
from apps.journal.models import JournalEntry
from tests import factories
from tests.callback import finish, take_next

# Ids of one millisecond, and occurrences a second apart.
_apart = counted(1)


def purge() -> Counter[str]:
    return retention.purge(until=clock.now() + timedelta(hours=1))


def is_idle(executor: Executor) -> bool:
    return isinstance(take_next(executor), Nothing)


def drain(executor: Executor) -> int:
    """Pull and call back until nothing is due; how many there were."""
    count = 0
    while not is_idle(executor):
        finish(executor)
        count += 1
    return count


def audit() -> None:
    """I1: stock and dispatches agree, whatever has gone."""
    held = Counter(
        Dispatch.objects.filter(holds_stock=True).values_list("source", "task", "occurrence")
    )
    stocks = {(s.source, s.task, s.occurrence): s.handed for s in Stock.objects.all()}
    assert {key: handed for key, handed in stocks.items() if handed} == dict(held)


def audit_journal() -> None:
    """I2, I17: each dispatch has its hand-out and its end in the journal, once; an open one is that
    of its executor."""
    for dispatch in Dispatch.objects.all():
        events = [entry.event for entry in JournalEntry.objects.timeline("dispatch", dispatch.pk)]
        ends = [] if dispatch.is_open else [dispatch.state]
        if dispatch.state == Dispatch.State.RELEASED and "handed_over" in events:
            ends = ["handed_over"]
        assert [each for each in events if each != "asked_again"] == ["handed_out", *ends]
        assert dispatch.open_for == (dispatch.executor_id if dispatch.is_open else None)
    handed_out = JournalEntry.objects.filter(source="dispatch", event="handed_out")
    assert handed_out.count() == Dispatch.objects.count()


def where(number: int) -> list[str]:
    """The tables that have the dispatch."""
    models = (Dispatch, ArchivedDispatch)
    return [m._meta.db_table for m in models if m._default_manager.filter(pk=number).exists()]


def where_task(task: OnceTask | RotateTask) -> list[str]:
    """The tables that have the task."""
    archived = ArchivedTask.objects.filter(source=task.source, task=task.pk)
    live = type(task)._default_manager.filter(pk=task.pk)
    return [rows.model._meta.db_table for rows in (live, archived) if rows.exists()]


def ended(count: int = 1, *, ago: timedelta = timedelta(days=31), **columns: Any) -> list[int]:
    """Dispatches of a rotation that is gone, to one executor, which ended so long ago; their
    numbers. Each holds a stock."""
    at = clock.now() - ago
    lowest = ids.lowest_id_at(at)
    executor = Executor.objects.order_by("pk").first() or factories.user()
    rows = [
        {
            "id": lowest + number,
            "executor_id": executor.pk,
            "source": "rotate",
            "task": 999,
            "occurrence": int(at.timestamp()) - number,
            "occurrence_at": at.replace(microsecond=0) - timedelta(seconds=number),
            "title": "Long ago",
            "params": {},
            "state": "succeeded",
            "dispatched_at": at,
            "deadline_at": at,
            "finished_at": at,
            **columns,
        }
        for number in (next(_apart) for _ in range(count))
    ]
    insert_rows(Dispatch, rows)
    stocks = [
        {"source": row["source"], "task": row["task"], "occurrence": row["occurrence"], "handed": 1}
        for row in rows
    ]
    insert_rows(Stock, stocks)
    return [row["id"] for row in rows]


def archived(count: int = 1, **columns: Any) -> list[int]:
    """Such dispatches in the archive."""
    numbers = ended(count, **columns)
    # They may be older than what was moved before.
    save_position(retention.SWEEP, {})
    purge()
    return numbers


def coming(**duration: float) -> datetime:
    return clock.now() + timedelta(**duration)
