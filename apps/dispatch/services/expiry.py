"""The sweep that ends open dispatches past their deadline, in blocks of a few statements each."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from apps.common import clock
from apps.common.db import exclusive_lock, fetch, force_index, placeholders, table, transactional
from apps.common.leases import load_position, save_position
from apps.common.rows import update_rows
from apps.dispatch.conf import conf
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, Stock
from apps.dispatch.rules import policy
from apps.dispatch.services.ending import OVERDUE, State, end_entry
from apps.dispatch.services.parts import parts
from apps.journal import services as journal

logger = logging.getLogger(__name__)

SWEEP = "dispatch.expire"
MAX_NAMED = 10
_LOG_EVERY = timedelta(minutes=1)


def expire_due(*, until: datetime) -> int:
    """End open dispatches past their deadline, oldest first, in blocks; returns how many.

    Stops between two blocks when the clock has passed `until`. A dispatch whose task is gone has no
    policy to end by: it stays open and is logged, and the others end.
    """
    ended, orphans = 0, list[Dispatch]()
    after: tuple[datetime, int] | None = None
    while (now := clock.now()) < until:
        block = _due(now, after)
        if not block:
            break
        keeps = _keeps_stock(block)
        ended += _expire([each for each in block if each.identity[:2] in keeps], keeps, now)
        orphans += [each for each in block if each.identity[:2] not in keeps]
        if len(block) < conf.EXPIRY_BATCH:
            break
        after = (block[-1].deadline_at, block[-1].pk)
    if orphans:
        _warn_of(orphans, clock.now())
    return ended


def _due(now: datetime, after: tuple[datetime, int] | None) -> list[Dispatch]:
    due = Dispatch.objects.filter(state=State.OPEN, deadline_at__lte=now)
    if after is not None:
        due = due.filter(deadline_at__gte=after[0]).exclude(deadline_at=after[0], pk__lte=after[1])
    return list(due.defer("title", "params").order_by("deadline_at", "pk")[: conf.EXPIRY_BATCH])


def _keeps_stock(block: Sequence[Dispatch]) -> dict[tuple[str, int], bool]:
    """Whether expired dispatches of each task keep their stock, by source and task; a task that is
    gone is left out."""
    keeps = {}
    for source, model in TASK_MODELS.items():
        if tasks := {each.task for each in block if each.source == source}:
            rows = model._default_manager.filter(pk__in=tasks).values_list("pk", "on_expiry")
            for task, on_expiry in rows:
                keeps[str(source), task] = on_expiry == policy.KEEP
    return keeps


@transactional
def _expire(block: Sequence[Dispatch], keeps: Mapping[tuple[str, int], bool], now: datetime) -> int:
    """End the dispatches of the block that are still open and overdue; returns how many. The rows
    decide: since they were read, some may have been called back or given more time."""
    overdue = _locked_overdue([each.pk for each in block], now)
    block = [each for each in block if each.pk in overdue]
    changes = {
        kept: {
            "state": State.EXPIRED.value,
            "open_for": None,
            "holds_stock": kept,
            "finished_at": now,
        }
        for kept in (True, False)
    }
    update_rows(Dispatch, {each.pk: changes[keeps[each.identity[:2]]] for each in block})
    returned = Counter(each.identity for each in block if not keeps[each.identity[:2]])
    Stock.objects.give_back_each(returned)
    people = Executor.objects.filter(pk__in={each.executor_id for each in block})
    names = dict(people.values_list("pk", "name"))
    journal.write(
        [
            end_entry(
                each,
                State.EXPIRED.value,
                now=now,
                executor=names.get(each.executor_id, ""),
                reason=OVERDUE,
            )
            for each in block
        ]
    )
    parts.ended({each.part_of for each in block if each.part_of is not None})
    return len(block)


def _locked_overdue(numbers: Sequence[int], now: datetime) -> set[int]:
    """The open dispatches past their deadline, locked in the order of their numbers."""
    if not numbers:
        return set()
    rows = fetch(
        f"SELECT id FROM {table(Dispatch)}{force_index('PRIMARY')} "
        f"WHERE id IN ({placeholders(len(numbers))}) AND state = %s AND deadline_at <= %s "
        f"ORDER BY id{exclusive_lock()}",
        [*numbers, State.OPEN.value, now],
    )
    return {number for (number,) in rows}


def _warn_of(orphans: Sequence[Dispatch], now: datetime) -> None:
    """Log at most once a minute which dispatches cannot expire, and what to do."""
    logged = load_position(SWEEP).get("at")
    if logged is not None and now - datetime.fromisoformat(logged) < _LOG_EVERY:
        return
    save_position(SWEEP, {"at": now.isoformat()})
    named = ", ".join(f"{each.pk} ({each.task_label})" for each in orphans[:MAX_NAMED])
    logger.error(
        "%d dispatches are past their deadline and cannot expire, because their tasks are gone "
        "from the database: %s%s; cancel them, or restore the tasks",
        len(orphans),
        named,
        ", …" if len(orphans) > MAX_NAMED else "",
    )
