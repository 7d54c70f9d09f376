"""Admission: blocked jobs become ready as soon as their key has a free place.

    place = a job of the key that is ready or running

Who submits, ends, cancels or edits a job of a key writes that down first; then somebody who holds
the lock of the key counts its places and fills those that are free. Of two who look at once the
later sees what both have written, and the sweep repeats a look that was lost with its process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.db import transaction

from apps.common import clock
from apps.common.chunks import chunks
from apps.common.db import (
    exclusive_lock,
    execute,
    fetch,
    fetch_each,
    force_index,
    instant,
    placeholders,
    table,
    transactional,
)
from apps.common.rows import ensure_rows, update_rows
from apps.jobs import wakeup
from apps.jobs.conf import conf
from apps.jobs.models import Job, KeyState
from apps.jobs.rules import transitions as t
from apps.jobs.rules.explain import MAX_AHEAD
from apps.jobs.rules.key_limit import KeyLimit
from apps.jobs.rules.order import order_key_sql
from apps.jobs.services.rows import arrow_update
from apps.jobs.services.type_snapshots import type_snapshots

SWEEP = "jobs.admission"
# Keys that one transaction locks.
BLOCK = 200
# Of each key one statement finds a few jobs, which is the usual case; of one with more free places
# another finds many.
_FEW, _MANY = 8, 1_000
# The newest blocked jobs of a type: the look of their submission may have been lost.
_NEWEST = 1_000
# Blocked jobs of a type that a page counts by key.
_COUNTED = 50_000
# The sweep comes round to every key with blocked jobs in this time.
_ROUND_SECONDS = 60
# The clock of a rate is worth nothing after this.
_KEPT = timedelta(hours=1)
_NUMBERS = 2**63

# The types of keys, by the number of the key.
Keys = Mapping[int, str]


class _Locked(NamedTuple):
    """A key under its lock."""

    number: int
    limit: KeyLimit | None
    clock: datetime | None
    look_at: datetime | None


def admit_after_commit(keys: Keys) -> None:
    """Fill the free places of the keys once the present transaction has committed. What goes wrong
    then is logged and the sweep repeats it: the jobs are there."""
    if keys:
        transaction.on_commit(partial(admit, dict(keys)), robust=True)


def admit(keys: Keys) -> int:
    """Fill the free places of the keys, the first in order first; returns how many jobs are ready
    now. Within the caller's transaction, else in one for each BLOCK of keys."""
    numbers = sorted(keys)
    return sum(_admit_block({each: keys[each] for each in part}) for part in chunks(numbers, BLOCK))


@transactional
def _admit_block(keys: Keys) -> int:
    locked = _lock(keys)
    # Under the lock: what the others have committed is counted.
    now = clock.now()
    admitted: Counter[int] = Counter()
    wanted = {*locked}
    while wanted:
        taken = _taken(wanted)
        free = {each: _free(locked[each], taken[each], admitted[each], now) for each in wanted}
        jobs = _first_blocked({number: count for number, count in free.items() if count})
        wanted = {number for number, some in jobs.items() if len(some) in (_FEW, _MANY)}
        if ready := sorted(job for some in jobs.values() for job in some):
            if _make_ready(ready, now) < len(ready):
                # Somebody has cancelled one meanwhile, and its place is for the next.
                wanted = {*jobs}
            admitted.update({number: len(some) for number, some in jobs.items()})
    _turn_clocks(locked.values(), admitted, now)
    types = type_snapshots()
    for lane in {types[keys[number]].lane for number in admitted if keys[number] in types}:
        wakeup.announce(lane)
    return admitted.total()


def _lock(keys: Keys) -> dict[int, _Locked]:
    """The keys, locked in the order of their numbers until the transaction ends."""
    sql = (
        f"SELECT limit_id, clock, look_at FROM {table(KeyState)} "
        f"WHERE limit_id IN ({placeholders(len(keys))}) ORDER BY limit_id{exclusive_lock()}"
    )
    rows = fetch(sql, list(keys))
    if len(rows) < len(keys):
        missing = keys.keys() - {row[0] for row in rows}
        ensure_rows(
            KeyState,
            ["limit_id"],
            [{"limit_id": number, "type": keys[number]} for number in sorted(missing)],
        )
        rows = fetch(sql, list(keys))
    types = type_snapshots({*keys.values()}, max_age=0)
    return {
        number: _Locked(
            number,
            types[keys[number]].key_limit if keys[number] in types else None,
            *(None if at is None else instant(at) for at in times),
        )
        for number, *times in rows
    }


def _taken(keys: Collection[int]) -> Counter[int]:
    """The places of each key that jobs have."""
    # Grouped, MySQL would read all jobs of the keys.
    jobs = f"{table(Job)} j{force_index('job_limit')}"
    counts = " + ".join(
        f"(SELECT COUNT(*) FROM {jobs} WHERE j.limit_id = k.limit_id AND j.status = '{status}')"
        for status in t.PLACED
    )
    rows = fetch(
        f"SELECT k.limit_id, {counts} FROM {table(KeyState)} k "
        f"WHERE k.limit_id IN ({placeholders(len(keys))})",
        [*keys],
    )
    return Counter(dict(rows))


def _free(key: _Locked, taken: int, admitted: int, now: datetime) -> int:
    """How many jobs may become ready, at most _MANY; a key without a limit holds nobody back."""
    if key.limit is None:
        return _MANY
    starts = key.limit.starts(key.clock, now)
    counts = [key.limit.places(taken), None if starts is None else starts - admitted]
    return max(0, min(each for each in (*counts, _MANY) if each is not None))


def _first_blocked(free: Mapping[int, int]) -> dict[int, list[int]]:
    """The blocked jobs of each key that come first, as many as are given."""
    found: dict[int, list[int]] = {}
    if few := {number: count for number, count in free.items() if count <= _FEW}:
        # Statistics of rows that change their state all the time mislead MariaDB, and MySQL sorts
        # where it is not told the whole order of the index.
        jobs = f"{table(Job)} j{force_index('job_limit')}"
        order = "j.limit_id, j.status, j.order_key, j.id"
        one = (
            f"(SELECT j.id FROM {jobs} WHERE j.limit_id = k.limit_id AND j.status = "
            f"'{t.BLOCKED}' ORDER BY {order} LIMIT 1 OFFSET {{}})"
        )
        columns = ", ".join(one.format(place) for place in range(max(few.values())))
        rows = fetch(
            f"SELECT k.limit_id, {columns} FROM {table(KeyState)} k "
            f"WHERE k.limit_id IN ({placeholders(len(few))})",
            list(few),
        )
        for number, *first in rows:
            found[number] = [job for job in first[: few[number]] if job is not None]
    jobs = f"{table(Job)}{force_index('job_limit')}"
    many = fetch_each(
        (
            f"SELECT limit_id, id FROM {jobs} WHERE limit_id = %s AND status = '{t.BLOCKED}' "
            f"ORDER BY order_key, id LIMIT {int(count)}",
            [number],
        )
        for number, count in free.items()
        if count > _FEW
    )
    for number, job in many:
        found.setdefault(number, []).append(job)
    return {number: some for number, some in found.items() if some}


def _make_ready(jobs: list[int], now: datetime) -> int:
    """Their place in the order is that of now: else the older jobs of one key, however many, would
    go before those of all others."""
    place, values = order_key_sql(now, weight_ms=conf.JOB_PRIORITY_WEIGHT_MS)
    return execute(*arrow_update("admit", jobs, sets=f", order_key = {place}", values=values))


def _turn_clocks(keys: Collection[_Locked], admitted: Mapping[int, int], now: datetime) -> None:
    """Write what the rates of the keys have used, and when they allow the next job."""
    changes: dict[int, dict[str, Any]] = {}
    for key in keys:
        at = look_at = None
        if key.limit is not None and key.limit.per_minute is not None:
            used = admitted[key.number]
            at = key.limit.clock_after(key.clock, now, used) if used else key.clock
            if key.limit.starts(at, now) == 0 and at is not None:
                look_at = at + key.limit.interval
        if (at, look_at) != (key.clock, key.look_at):
            changes[key.number] = {"clock": at, "look_at": look_at}
    update_rows(KeyState, changes)


# --- what pages ask -------------------------------------------------------------------------------
class KeyPosition(NamedTuple):
    """The place of a blocked job at its key: the places that are taken, how many blocked jobs come
    before this one, counted up to MAX_AHEAD, and when its rate allows the next."""

    taken: int
    blocked_ahead: int
    look_at: datetime | None


def key_position(job: Job) -> KeyPosition | None:
    """The position of the job at its key; None unless it is blocked."""
    if job.status != t.BLOCKED or job.limit_id is None:
        return None
    blocked = Job.objects.filter(limit_id=job.limit_id, status=t.BLOCKED)
    first = blocked.filter(order_key__lt=job.order_key) | blocked.filter(
        order_key=job.order_key, pk__lt=job.pk
    )
    ahead = len(first.order_by().values_list("pk", flat=True)[:MAX_AHEAD])
    look_at = KeyState.objects.filter(pk=job.limit_id).values_list("look_at", flat=True).first()
    return KeyPosition(_taken([job.limit_id])[job.limit_id], ahead, look_at)


class Crowded(NamedTuple):
    """A key with blocked jobs: how many of them, and one, which shows the value of the key."""

    number: int
    blocked: int
    job: int


def most_blocked(type_name: str, limit: int) -> list[Crowded]:
    """The keys of the type with most blocked jobs, among the first _COUNTED of these."""
    jobs = f"{table(Job)}{force_index('job_claim')}"
    rows = fetch(
        "SELECT limit_id, COUNT(*), MIN(id) FROM (SELECT limit_id, id FROM "
        f"{jobs} WHERE status = '{t.BLOCKED}' AND type = %s LIMIT {_COUNTED}) counted "
        "WHERE limit_id IS NOT NULL GROUP BY limit_id ORDER BY 2 DESC, 1 LIMIT %s",
        [type_name, limit],
    )
    return [Crowded(*row) for row in rows]


# --- the sweep -----------------------------------------------------------------------------------
def has_work() -> bool:
    """Whether there may be blocked jobs."""
    return any(type_.key_limit is not None for type_ in type_snapshots().values()) or bool(
        fetch(f"SELECT 1 FROM {table(KeyState)} LIMIT 1")
    )


def sweep(now: datetime) -> int:
    """Look at the keys whose rate allows another job, at those of the newest blocked jobs, and at
    one part of all others: at each twice a minute, or as often as a scan starts this. Returns how
    many jobs are ready now."""
    parts = _parts(int(now.timestamp()))
    limited = [name for name, type_ in type_snapshots().items() if type_.key_limit is not None]
    newest = [pair for name in limited for pair in _newest(name)]
    others = [pair for part in parts for pair in _between(*part)]
    ready = admit(dict([*_due(now), *newest, *others]))
    for part in parts:
        _forget(*part, now)
    return ready


def _parts(second: int) -> list[tuple[int, int]]:
    """The lowest and the highest number of the keys that are looked at in this second: those of the
    seconds since the scan before the last one, because a sweep may come late, or not at all."""
    width = _NUMBERS // _ROUND_SECONDS + 1
    seconds = min(_ROUND_SECONDS, 2 * conf.JOB_SCAN_SECONDS)
    last = second % _ROUND_SECONDS
    first = last - seconds + 1
    spans = (
        [(first, last)] if first >= 0 else [(0, last), (first + _ROUND_SECONDS, _ROUND_SECONDS - 1)]
    )
    return [(one * width, min((other + 1) * width, _NUMBERS) - 1) for one, other in spans]


def admit_type(type_name: str) -> None:
    """Look at the keys of the newest blocked jobs of a type whose limits have changed; the sweep
    looks at the others."""
    admit(dict(_newest(type_name)))


def _due(now: datetime) -> list[tuple[Any, ...]]:
    return fetch(
        f"SELECT limit_id, type FROM {table(KeyState)} WHERE look_at <= %s LIMIT 1000", [now]
    )


def _newest(type_name: str) -> list[tuple[Any, ...]]:
    jobs = f"{table(Job)}{force_index('job_claim')}"
    return fetch(
        f"SELECT DISTINCT limit_id, type FROM (SELECT limit_id, type FROM {jobs} "
        f"WHERE status = '{t.BLOCKED}' AND type = %s "
        f"ORDER BY affinity_host DESC, order_key DESC LIMIT {_NEWEST}) newest",
        [type_name],
    )


def _between(lowest: int, highest: int) -> list[tuple[Any, ...]]:
    jobs = f"{table(Job)}{force_index('job_limit')}"
    return fetch(
        f"SELECT k.limit_id, (SELECT type FROM {jobs} WHERE limit_id = k.limit_id LIMIT 1) FROM "
        f"(SELECT DISTINCT limit_id FROM {jobs} "
        f"WHERE limit_id BETWEEN %s AND %s AND status = '{t.BLOCKED}') k",
        [lowest, highest],
    )


def _forget(lowest: int, highest: int, now: datetime) -> None:
    """Delete the keys that no job has any more; a look that waits for one makes it again."""
    execute(
        f"DELETE FROM {table(KeyState)} WHERE limit_id BETWEEN %s AND %s "
        "AND (clock IS NULL OR clock < %s) AND NOT EXISTS "
        f"(SELECT 1 FROM {table(Job)} WHERE {table(Job)}.limit_id = {table(KeyState)}.limit_id)",
        [lowest, highest, now - _KEPT],
    )
