"""Recomputes the order of waiting jobs after JOB_PRIORITY_WEIGHT_MS was changed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.common import clock
from apps.common.db import exclusive_lock, fetch, instant, placeholders, table, transactional
from apps.common.leases import load_position, save_position
from apps.common.rows import update_rows
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules.order import order_key
from apps.jobs.rules.transitions import WAITING
from apps.jobs.services.type_snapshots import type_snapshots

SWEEP = "jobs.reorder"


def reorder(*, until: datetime) -> int:
    """If the weight has changed, rewrite the order of waiting jobs in blocks; returns how many rows
    changed.

    Jobs that are submitted meanwhile have the new weight already. The sweep's position says how far
    it came and for which weight, so a process that dies only repeats a block.
    """
    weight = conf.JOB_PRIORITY_WEIGHT_MS
    position = load_position(SWEEP)
    if "weight" not in position:
        # A fresh installation: all rows have the present weight.
        save_position(SWEEP, {"weight": weight})
        return 0
    if position["weight"] == weight:
        return 0
    if position.get("towards") != weight:
        position = {"weight": position["weight"], "towards": weight, "after": 0}
    changed = 0
    while clock.now() < until:
        last, rows = _reorder_block(int(position["after"]), weight)
        changed += rows
        if last is None:
            save_position(SWEEP, {"weight": weight})
            break
        position["after"] = last
        save_position(SWEEP, position)
    return changed


@transactional
def _reorder_block(after: int, weight: int) -> tuple[int | None, int]:
    """One block of rows after this id: the last id read, None at the end; how many changed.

    Walks the primary key, so a block reads a bounded number of rows whatever their states.
    """
    rows: list[tuple[Any, ...]] = fetch(
        f"SELECT id, type, status, priority, attempts, run_at, order_key FROM {table(Job)} "
        "WHERE id > %s ORDER BY id LIMIT %s" + exclusive_lock(),
        [after, conf.JOB_PROMOTION_BATCH],
    )
    types = type_snapshots({row[1] for row in rows})
    keys = {
        number: key
        for number, name, status, priority, attempts, run_at, old in rows
        if status in WAITING
        and not (name in types and types[name].pool)
        and (
            key := order_key(
                instant(run_at), priority=priority, attempts=attempts, weight_ms=weight
            )
        )
        != old
    }
    update_rows(
        Job,
        {number: {"order_key": key} for number, key in keys.items()},
        guard=f"status IN ({placeholders(len(WAITING))})",
        parameters=WAITING,
    )
    return (rows[-1][0] if rows else None), len(keys)
