"""Discarding waiting jobs that must not run any more: exhausted, expired, or without a type."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from apps.common import clock
from apps.common.chunks import chunks
from apps.common.db import fetch_each, force_index, instant, placeholders, table, transactional
from apps.jobs.models import Job
from apps.jobs.rules import reasons
from apps.jobs.rules import transitions as t
from apps.jobs.rules.outcome import discard_reason
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.move import entry_of, lock_jobs, move
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal import services as journal

SWEEP = "jobs.give_up"
# Of each type at once, and of all together in one transaction.
MAX_READ = 200
MAX_TOGETHER = 1_000


def discard_exhausted(*, until: datetime) -> int:
    """Discard the first ready and blocked jobs of each type that must not run any more; returns how
    many.

    A hold discards such jobs when it reads them. This sweep is for types that no worker holds, such
    as paused and deleted ones, and for jobs that have no place yet.
    """
    types = type_snapshots(max_age=0)
    # A range for each type, and one for each gap between types: only deleted types lie there.
    names = sorted(types)
    ranges = [Range(name, name) for name in names]
    ranges += [Range(*gap, is_open=True) for gap in pairwise(["", *names, ""])]
    # Without a limit they soon are ready.
    ranges += [Range(name, name, status=t.BLOCKED) for name in names if types[name].key_limit]
    # The jobs of each range that somebody keeps locked: the next look is for the jobs behind them.
    locked: dict[Range, list[int]] = {range_: [] for range_ in ranges}
    discarded = 0
    while locked and (now := clock.now()) < until:
        found = _first_waiting(locked)
        over = {range_: _unrunnable(rows, types, now) for range_, rows in found.items()}
        numbers = sorted(number for some in over.values() for number in some)
        done: set[int] = set()
        for part in chunks(numbers, MAX_TOGETHER):
            done |= discard(part, types=types, now=now)
        discarded += len(done)
        locked = {
            range_: [*locked[range_], *(number for number in some if number not in done)]
            for range_, some in over.items()
            if len(some) == MAX_READ
        }
    return discarded


class Range(NamedTuple):
    """The types from one name to another, "" for no bound; without both if it is open."""

    lower: str
    upper: str
    is_open: bool = False
    status: str = t.READY


class Waiting(NamedTuple):
    number: int
    type: str
    attempts: int
    max_attempts: int
    expected_at: datetime


def _first_waiting(ranges: Mapping[Range, Sequence[int]]) -> dict[Range, list[Waiting]]:
    """The first jobs of each range but those that stand beside it, by the claim index."""
    jobs = f"{table(Job)}{force_index('job_claim')}"
    found: dict[Range, list[Waiting]] = {}
    rows = fetch_each(
        (
            # The state is a literal, without which SQLite would not use its partial index.
            f"SELECT %s AS part, id, type, attempts, max_attempts, expected_at FROM {jobs} "
            f"WHERE status = '{range_.status}' AND {_condition(range_, len(left_out))} "
            f"ORDER BY type, affinity_host, order_key, id LIMIT {MAX_READ}",
            (position, *filter(None, range_[:2]), *left_out),
        )
        for position, (range_, left_out) in enumerate(ranges.items())
    )
    order = [*ranges]
    for position, number, type_, attempts, max_attempts, expected_at in rows:
        waiting = Waiting(number, type_, attempts, max_attempts, instant(expected_at))
        found.setdefault(order[int(position)], []).append(waiting)
    return found


def _condition(range_: Range, left_out: int) -> str:
    above, below = (">", "<") if range_.is_open else (">=", "<=")
    bounds = [f"type {above} %s"] if range_.lower else []
    bounds += [f"type {below} %s"] if range_.upper else []
    others = [f"id NOT IN ({placeholders(left_out)})"] if left_out else []
    return " AND ".join([*(bounds or ["type > ''"]), *others])


def _unrunnable(
    rows: Sequence[Waiting], types: Mapping[str, TypeSnapshot], now: datetime
) -> list[int]:
    """The numbers of the jobs that must not run any more."""
    unknown = {row.type for row in rows} - types.keys()
    # They may have been made since the others were read.
    made = type_snapshots(unknown) if unknown else {}
    return [
        row.number
        for row in rows
        if row.type not in made
        and (
            row.type not in types
            or discard_reason(types[row.type], row.attempts, row.max_attempts, row.expected_at, now)
        )
    ]


@transactional
def discard(ids: Collection[int], *, types: Mapping[str, TypeSnapshot], now: datetime) -> set[int]:
    """End waiting jobs that must not run: they fail, unless somebody has locked them; returns those
    that ended."""
    moves = []
    for job in lock_jobs(ids, skip_locked=True).values():
        if job.status not in t.WAITING:
            continue
        reason: tuple[str, str] | None = "gave_up", reasons.NO_TYPE.format(type=job.type)
        if type_ := types.get(job.type):
            reason = discard_reason(type_, job.attempts, job.max_attempts, job.expected_at, now)
        if not reason:
            continue
        event, text = reason
        changes = {"memo": text, "error_key": journal.error_key(text)}
        entry = entry_of(job, event, t.FAILED, now, reason=text, error_key=changes["error_key"])
        moves.append(("discard", job, changes, entry))
    move(moves)
    return {job.id for _, job, *_ in moves}
