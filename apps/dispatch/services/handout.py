"""The hand-out: one transaction in which everything is checked again."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from apps.common import ids
from apps.common.db import (
    Statement,
    Unchanged,
    conclude,
    shared_lock,
    table,
    transactional,
)
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, Membership, Stock, Task, Template
from apps.dispatch.rules.policy import PastDispatch, verdict
from apps.dispatch.rules.queue import Candidate
from apps.dispatch.services.queue import Opening
from apps.dispatch.services.standing import Standing
from apps.journal import services as journal
from apps.journal.models import Source

_MS = timedelta(milliseconds=1)


class Lost(Exception):
    """What seemed free cannot be had any more; the transaction must be rolled back."""


def hand_out(standing: Standing, opening: Opening, now: datetime) -> Dispatch | None:
    """Hand the opening out, if everything still holds; None when it does not.

    IntegrityError when the user has got another dispatch meanwhile, or another user has begun the
    stock.
    """
    try:
        return _hand_out(standing, opening, now)
    except Lost:
        return None


def give(
    standing: Standing,
    opening: Opening,
    now: datetime,
    *,
    closing: Sequence[Statement] = (),
    told_before: Sequence[journal.Entry] = (),
) -> Dispatch:
    """The hand-out within the caller's transaction, told in the journal after those entries.

    What `closing` begins with comes before, and has to change a row; its rest comes last.

    Task, executors and membership stay locked (shared) until commit, so that a delete, a
    disabling or a leave that has been answered is never overtaken by a hand-out; nor is an edit,
    because the task has to have the version that the opening was judged by. That `last` of the
    opening is still the latest dispatch, the unique key of its round proves. The dispatch comes
    before the stock: who loses to another pull of the same user has then touched no stock, and
    nobody waits for a new stock row that is taken back.

    Lost when something does not hold any more; IntegrityError as above. Who begins a stock that
    another has begun lets go of it: to count on, holding what a failed INSERT has locked, would be
    a deadlock of two.
    """
    candidate, last, has_stock = opening
    answer = verdict(candidate.policy, last, now)
    if not answer.allows:
        raise Lost
    if answer.carried is not None:
        # The failed round's stock goes over to this one.
        stock = _carrying(answer.carried)
    elif has_stock:
        stock = Stock.taking(*candidate.identity, at_most=candidate.policy.dispatch_times)
    else:
        stock = Stock.beginning(*candidate.identity)
    row = _row(standing, candidate, 0 if last is None else last.rounds, now)
    told = journal.insertion([*told_before, _entry(standing, row, last)])
    made = _making(candidate, standing, row, now)
    try:
        [of_task] = conclude(
            [*closing[:1], made, stock, told], closing[1:], answer=_read_back(row["id"])
        )
    except Unchanged as error:
        raise Lost from error
    row.update(zip(_OF_TASK, of_task, strict=True))
    row["params"] = json.loads(row["params"])
    return Dispatch.from_db(None, list(row), list(row.values()))


_hand_out = transactional(give)


# What a dispatch says of its task.
_OF_TASK = {
    "title": "t.title",
    "params": "t.params",
    "template_name": "COALESCE(p.name, '')",
    "template_version": "p.version",
}


@functools.cache
def _making_statement(
    source: str, columns: tuple[str, ...], *, is_own: bool, proven: int | None
) -> str:
    model, people = TASK_MODELS[source], table(Executor)
    reaches = (
        f"JOIN {people} u ON u.id = t.executor_id "
        if is_own
        else f"JOIN {people} e ON e.id = t.executor_id AND e.enabled "
        f"JOIN {table(Membership)} m ON m.group_id = e.id "
        f"JOIN {people} u ON u.id = m.user_id "
    )
    values = ", ".join(_OF_TASK.get(column, "%s") for column in columns)
    proof = "" if proven is None else " AND u.plan_version = %s"
    if proven:
        among = " OR ".join(["(g.id = %s AND g.plan_version = %s)"] * proven)
        proof += f" AND (SELECT COUNT(*) FROM {people} g WHERE {among}) = %s"
    return (
        f"INSERT INTO {table(Dispatch)} ({', '.join(columns)}) "
        f"SELECT {values} FROM {table(model)} t {reaches}"
        f"LEFT JOIN {table(Template)} p ON p.id = t.template_id "
        "WHERE t.id = %s AND t.version = %s AND t.status = %s AND u.id = %s AND u.enabled "
        f"AND (t.end_at IS NULL OR t.end_at > %s){proof}{shared_lock()}"
    )


def _making(
    candidate: Candidate, standing: Standing, row: dict[str, Any], now: datetime
) -> Statement:
    """What makes the dispatch, if the task may be handed to the executor now: as its own, or its
    group's."""
    is_own = candidate.owner == standing.pk
    (_, version), *groups = standing.versions
    proven = len(groups) if standing.is_expected else None
    sql = _making_statement(candidate.source, tuple(row), is_own=is_own, proven=proven)
    values = [value for name, value in row.items() if name not in _OF_TASK]
    values += [candidate.task, candidate.version, Task.Status.ACTIVE.value, standing.pk, now]
    if standing.is_expected:
        values.append(version)
        if groups:
            values += [*chain.from_iterable(groups), len(groups)]
    return sql, values


def _read_back(number: int) -> Statement:
    return f"SELECT {', '.join(_OF_TASK)} FROM {table(Dispatch)} WHERE id = %s", [number]


def _carrying(number: int) -> Statement:
    return (
        f"UPDATE {table(Dispatch)} SET holds_stock = %s WHERE id = %s AND holds_stock",
        [False, number],
    )


def _row(standing: Standing, candidate: Candidate, earlier: int, now: datetime) -> dict[str, Any]:
    """All columns, in the order of the model; those of the task are still to be read."""
    return {
        # Not of `now`: the later the id, the sooner its commit, and the fewer readers it surprises.
        "id": ids.next_id(),
        "executor_id": standing.pk,
        "open_for": standing.pk,
        "source": candidate.source,
        "task": candidate.task,
        "occurrence": candidate.occurrence,
        "occurrence_at": candidate.occurrence_at,
        **dict.fromkeys(_OF_TASK),
        "state": Dispatch.State.OPEN.value,
        "round": earlier,
        "holds_stock": True,
        "redo": 0,
        "dispatched_at": now,
        "deadline_at": now + timedelta(seconds=candidate.policy.lease_seconds),
        "finished_at": None,
        "result": None,
        "message": "",
    }


def _entry(standing: Standing, row: dict[str, Any], last: PastDispatch | None) -> journal.Entry:
    """A repeat tells how the round before it ended."""
    return journal.Entry(
        at=row["dispatched_at"],
        source=Source.DISPATCH,
        subject_id=row["id"],
        event="handed_out",
        from_state="" if last is None else last.state,
        to_state=Dispatch.State.OPEN,
        attempt=row["round"] + 1,
        type_or_task=f"{row['source']}:{row['task']}",
        executor=standing.name,
        actor=standing.name,
        wait_ms=(row["dispatched_at"] - row["occurrence_at"]) // _MS,
    )
