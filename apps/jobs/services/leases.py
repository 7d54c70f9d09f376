"""Leases of running jobs: renewal, checkpoints and progress."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from apps.common import clock
from apps.common.db import execute, fetch, instant, placeholders, table, transactional
from apps.common.errors import Invalid
from apps.common.json_rules import check_json
from apps.jobs.errors import LeaseLost
from apps.jobs.models import Job
from apps.jobs.rules.transitions import RUNNING
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.type_snapshots import type_snapshots


class Renewed(NamedTuple):
    """A lease that lasts until then at least; whether its job is to be cancelled."""

    until: datetime
    cancel_requested: bool


def renew(*, leases: Sequence[tuple[int, str]]) -> dict[int, Renewed]:
    """Renew the leases of these (job, token) pairs, up to the deadline of each attempt.

    Returns them by job; jobs whose lease is lost are left out. After its deadline an attempt is not
    renewed: its lease is lost. There is no transaction: a process that freezes here must not keep
    its jobs locked, or the rescue could not end them.
    """
    if not leases:
        return {}
    now = clock.now()
    tokens = dict(leases)
    ids = sorted(tokens)
    rows = fetch(
        f"SELECT id, type, lease_token, hard_end_at, cancel_requested FROM {table(Job)} "
        f"WHERE id IN ({placeholders(len(ids))}) AND status = %s",
        [*ids, RUNNING],
    )
    types = type_snapshots({row[1] for row in rows})
    renewed: dict[int, Renewed] = {}
    groups: dict[tuple[str, str], list[int]] = {}
    for number, name, token, deadline, cancel_requested in rows:
        type_, deadline = types.get(name), instant(deadline)
        if type_ is None or token != tokens[number] or deadline <= now:
            continue
        renewed[number] = Renewed(min(now + type_.lease, deadline), bool(cancel_requested))
        groups.setdefault((name, token), []).append(number)
    for (name, token), numbers in sorted(groups.items()):
        if _extend(numbers, token, now, types[name]) < len(numbers):
            for number in set(numbers) - _still_held(numbers, token):
                del renewed[number]
    return renewed


def _extend(numbers: list[int], token: str, now: datetime, type_: TypeSnapshot) -> int:
    # The earlier of two instants: MIN in SQLite, where LEAST is unknown.
    least = "LEAST" if connection.vendor == "mysql" else "MIN"
    return execute(
        f"UPDATE {table(Job)} SET lease_until = {least}(%s, hard_end_at) "
        f"WHERE id IN ({placeholders(len(numbers))}) AND status = %s AND lease_token = %s",
        [now + type_.lease, *numbers, RUNNING, token],
    )


def _still_held(numbers: list[int], token: str) -> set[int]:
    rows = fetch(
        f"SELECT id FROM {table(Job)} WHERE id IN ({placeholders(len(numbers))}) "
        "AND status = %s AND lease_token = %s",
        [*numbers, RUNNING, token],
    )
    return {row[0] for row in rows}


@transactional
def checkpoint(
    *, job: int, token: str, data: Any, sequence: int, progress: float | None = None
) -> bool:
    """Store a checkpoint; extend the lease and the deadline. Whether the job is to be cancelled.

    `sequence` grows with every checkpoint of a stage; a repeat of the last one changes nothing.
    LeaseLost when the worker has lost the job; Invalid when the data cannot be stored.
    """
    check_json(data, field="checkpoint")
    return _keep(
        job,
        token,
        {"checkpoint": json.dumps(data), "sequence": sequence, **_percent(progress)},
        sequence,
    )


@transactional
def progress(*, job: int, token: str, percent: float) -> bool:
    """Store the progress, 0 to 100 without decimals; else like a checkpoint."""
    return _keep(job, token, _percent(percent), None)


def _percent(percent: float | None) -> dict[str, int]:
    if percent is None:
        return {}
    if not 0 <= percent <= 100:
        raise Invalid.field("progress", f"{percent} is no percentage; give 0 to 100.")
    return {"progress": int(percent)}


def _keep(job: int, token: str, values: dict[str, Any], sequence: int | None) -> bool:
    now = clock.now()
    rows = fetch(
        f"SELECT type, hard_end_at, cancel_requested, sequence FROM {table(Job)} "
        "WHERE id = %s AND status = %s AND lease_token = %s",
        [job, RUNNING, token],
    )
    type_ = type_snapshots([rows[0][0]]).get(rows[0][0]) if rows else None
    if type_ is None or not token or instant(rows[0][1]) <= now:
        raise LeaseLost(f"Job {job} was taken away; stop working on it.")
    if sequence is not None and sequence < rows[0][3]:
        raise Invalid.field(
            "sequence", f"Checkpoint {rows[0][3]} is kept already; {sequence} comes too late."
        )
    deadline = now + type_.max_processing
    until = min(now + type_.lease, deadline)
    sets = ", ".join(f"{name} = %s" for name in values)
    kept = execute(
        f"UPDATE {table(Job)} SET {sets}, lease_until = %s, hard_end_at = %s "
        "WHERE id = %s AND status = %s AND lease_token = %s AND sequence <= %s",
        [*values.values(), until, deadline, job, RUNNING, token, sequence or rows[0][3]],
    )
    if not kept:
        raise LeaseLost(f"Job {job} was taken away; stop working on it.")
    return bool(rows[0][2])
