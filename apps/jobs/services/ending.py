"""How attempts end, whoever tells of it: rows by one statement a group, the journal by one."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common.db import Instants, exclusive_lock, fetch, placeholders, table
from apps.common.rows import update_rows
from apps.jobs.conf import conf
from apps.jobs.models import Job, TypeState
from apps.jobs.rules import outcome
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import order_key
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.protection import count_ends
from apps.journal import services as journal
from apps.journal.models import Source

_MS = timedelta(milliseconds=1)


class RunningRow(NamedTuple):
    """What is read of a job, locked, to end its attempt; `held_at` belongs to its latest hold.

    `is_overdue`: the lease is over; `is_timed_out`: the hard end is, too.
    """

    id: int
    type: str
    status: str
    stage: str
    priority: int
    attempts: int
    max_attempts: int
    holds: int
    last_end: str
    token: str
    worker: str
    host: str
    cancel_requested: bool
    trace_id: str
    run_at: datetime
    expected_at: datetime
    held_at: datetime
    is_overdue: bool
    is_timed_out: bool


@dataclass(slots=True)
class End:
    """The end of one attempt: how, and what the worker says of it."""

    row: RunningRow
    ending: outcome.Ending
    result: Any = None
    memo: str = ""
    error: str = ""
    # Only at the end of a stage: the next one, and what changes with it.
    stage: str | None = None
    context: Any = None
    priority: int | None = None
    reason: str = ""


_READ = (
    "id, type, status, stage, priority, attempts, max_attempts, holds, last_end, lease_token, "
    "worker, host, cancel_requested, trace_id, run_at, expected_at, held_at"
)
MAX_MEMO = 2000
_BAD = frozenset({t.END_FAILED, *outcome.LOSSES})
_UNSAID = "it failed without saying why"


def lock_rows(
    ids: Iterable[int], *, now: datetime, skip_locked: bool = False
) -> dict[int, RunningRow]:
    """The jobs of these ids, locked in the order of ids for the rest of the transaction; with
    `skip_locked`, but for those that somebody else has locked."""
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    rows = fetch(
        f"SELECT {_READ}, COALESCE(lease_until <= %s, 0), COALESCE(hard_end_at <= %s, 0) "
        f"FROM {table(Job)} WHERE id IN ({placeholders(len(wanted))}) ORDER BY id"
        + exclusive_lock(skip_locked=skip_locked),
        [now, now, *wanted],
    )
    at = Instants()
    return {row[0]: _running(row, at) for row in rows}


def _running(row: tuple[Any, ...], at: Instants) -> RunningRow:
    *plain, run_at, expected_at, held_at, is_overdue, is_timed_out = row
    times = at[run_at], at[expected_at], at[held_at]
    return RunningRow._make([*plain, *times, bool(is_overdue), bool(is_timed_out)])


def end_all(
    ends: Sequence[End],
    *,
    policies: Mapping[str, TypeSnapshot],
    states: Mapping[str, TypeState],
    now: datetime,
    forget_token: bool = False,
) -> dict[int, str]:
    """End the attempts of locked, running rows; returns the status of each job after it.

    `states` are the locked ones of types with a breaker. `forget_token` makes every later report
    of the attempts a stale one.
    """
    # Those of a group name the same columns.
    groups: dict[tuple[str, str, bool], dict[int, dict[str, Any]]] = {}
    entries, statuses = [], dict[int, str]()
    # Most of a batch end alike: what they share is made once.
    finals = dict[tuple[str, ...], dict[str, Any]]()
    facts = dict[tuple[Any, ...], dict[str, Any]]()
    for end in ends:
        row = end.row
        after = outcome.next_of(
            row,
            end.ending,
            policies[row.type],
            now,
            chance=random.random(),  # noqa: S311
        )
        error = _error_of(end)
        key = journal.error_key(error)
        alike = (row.last_end, end.ending.end, after.status, end.memo, end.error)
        changes = finals.get(alike)
        if changes is None:
            changes = _changes(end, after, now) | _kept_error(end, key)
            if forget_token:
                changes["lease_token"] = ""
            if after.is_final:
                finals[alike] = changes
        if after.status == t.SUCCEEDED and end.result is not changes["result"]:
            changes = {**changes, "result": end.result}
        kind = (end.ending.end, after.status, "context" in changes)
        groups.setdefault(kind, {})[row.id] = changes
        told = (row.held_at, row.holds, row.stage, None if after.is_final else after.run_at)
        if told not in facts:
            facts[told] = _facts(row, after)
        entries.append(_entry(end, after, now, error, key, facts[told]))
        statuses[row.id] = after.status
    for rows in groups.values():
        update_rows(Job, rows, guard="status = %s", parameters=[t.RUNNING], raised=["version"])
    journal.write(entries)
    if states:
        count_ends(
            policies,
            states,
            (
                (end.row.type, end.ending.end in _BAD)
                for end in ends
                if end.ending.end not in (t.END_RELEASED, t.END_CANCELLED)
            ),
            now,
        )
    return statuses


def _error_of(end: End) -> str:
    """What went wrong, by the worker's own words as far as there are some; "" when nothing did."""
    if end.ending.end not in _BAD:
        return end.error
    return end.error or end.memo or _UNSAID


def _kept_error(end: End, key: str) -> dict[str, str]:
    """The row's error: that of the latest bad end, until one is good; others leave it."""
    if end.ending.end in _BAD:
        return {"error_key": key}
    return {"error_key": ""} if end.ending.end in (t.END_SUCCEEDED, t.END_STAGE_DONE) else {}


def _changes(end: End, after: outcome.Next, now: datetime) -> dict[str, Any]:
    """The columns of the row after the attempt, alike for all that end alike."""
    changes: dict[str, Any] = {
        "status": after.status,
        "last_end": outcome.kept_end(end.row.last_end, end.ending.end),
        "lease_until": None,
        "hard_end_at": None,
        "memo": (end.memo or last_line(end.error))[:MAX_MEMO],
    }
    if after.is_final:
        changes |= {"unique_key": None, "finished_at": now, "cancel_requested": False}
        if after.status == t.SUCCEEDED:
            changes["result"] = end.result
        return changes
    priority = end.row.priority if end.priority is None else end.priority
    changes |= {
        "attempts": after.attempts,
        "run_at": after.run_at,
        "affinity_host": after.affinity_host,
        "affinity_until": after.affinity_until,
        "order_key": order_key(
            after.run_at,
            priority=priority,
            attempts=after.attempts,
            weight_ms=conf.JOB_PRIORITY_WEIGHT_MS,
        ),
    }
    if end.ending.end == t.END_STAGE_DONE:
        changes |= {
            "stage": end.stage,
            "priority": priority,
            "checkpoint": None,
            "sequence": 0,
            "progress": None,
        }
        if end.context is not None:
            changes["context"] = end.context
    return changes


def last_line(error: str) -> str:
    """The line of a traceback that names the error."""
    lines = error.strip().splitlines() if error else []
    return lines[-1].strip() if lines else ""


def _facts(row: RunningRow, after: outcome.Next) -> dict[str, Any]:
    """What the journal keeps of an attempt beside its columns."""
    data: dict[str, Any] = {"held_at": row.held_at.isoformat(), "hold": row.holds}
    if row.stage:
        data["stage"] = row.stage
    if not after.is_final:
        data["run_at"] = after.run_at.isoformat()
    return data


def _entry(
    end: End,
    after: outcome.Next,
    now: datetime,
    error: str,
    error_key: str,
    data: dict[str, Any],
) -> journal.Entry:
    row = end.row
    return journal.Entry(
        at=now,
        source=Source.JOB,
        subject_id=row.id,
        event=end.ending.end,
        from_state=t.RUNNING,
        to_state=after.status,
        attempt=row.attempts,
        type_or_task=row.type,
        worker=row.worker,
        host=row.host,
        reason=end.reason or after.why,
        wait_ms=max(0, (row.held_at - row.run_at) // _MS),
        run_ms=max(0, (now - row.held_at) // _MS),
        # What the platform itself says is a reason.
        error="" if error == end.reason else error,
        error_key=error_key,
        data=data,
        trace_id=row.trace_id,
    )
