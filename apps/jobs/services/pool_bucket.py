"""The bucket of a worker: the keys of a pool that it holds, as the rows of the jobs say."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from apps.common import clock
from apps.common.db import exclusive_lock, fetch, fetch_each, placeholders, repeatable, table
from apps.common.rows import ensure_row
from apps.jobs.models import Bucket, Job
from apps.jobs.rules import transitions as t
from apps.jobs.rules.caller import Caller
from apps.jobs.rules.order import Score, score_of
from apps.jobs.rules.outcome import LOSSES, HeldJob
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.leases import Heartbeat, Renewed, renew
from apps.jobs.services.repeats import STALE, earlier_reports
from apps.jobs.services.rows import read_jobs

# How exactly the bucket knows its last call.
_SEEN_WITHIN = timedelta(minutes=1)
# Longer than any lease; keys that are renewed in other ways are looked for.
KEPT = timedelta(days=1)
MAX_REMOVED = 500
# How many of the newest jobs of each key are looked at for an earlier end.
_NEWEST = 3
_CODE_LOST, _CODE_CONFLICT, _CODE_UNKNOWN = "lease_lost", "conflict", "not_found"


class Owner(NamedTuple):
    """The owner of a bucket: the API key with the name of the worker."""

    caller: Caller
    worker: str

    @property
    def columns(self) -> tuple[str, str]:
        """The client and the worker, as rows name them."""
        return self.caller.client, self.worker


class Held(NamedTuple):
    """A job of the bucket."""

    id: int
    key: str
    order_key: int
    lease_token: str
    context: str
    status: str
    client: str
    worker: str


class Item(NamedTuple):
    """A key that the worker holds until `lease_until`."""

    key: str
    id: int
    token: str
    score: Score
    context: Any
    lease_until: datetime


class LockedBucket:
    """One bucket, locked for the rest of the transaction; `held` are its held jobs, by key.

    It is made only with `makes`: most calls concern a bucket that exists.
    """

    def __init__(self, pool: TypeSnapshot, owner: Owner, *, makes: bool = True) -> None:
        self.pool = pool
        self.owner = owner
        self.held: dict[str, Held] = {}
        self._now = clock.now()
        self._free: dict[int, Held] = {}
        self._row = _locked_row(pool.name, owner, self._now, makes)

    @property
    def numbers(self) -> list[int]:
        """The jobs that were in it after the last call."""
        return self._row.job_ids if self._row else []

    def read(self, candidates: Iterable[int] = ()) -> None:
        """Lock the jobs of the bucket, and ready ones that may come into it."""
        self._lock({*self.numbers, *candidates})

    def look_for(self, keys: Collection[str]) -> None:
        """Add the keys that the worker holds although the bucket does not list them."""
        unknown = [key for key in keys if key not in self.held]
        self._lock(
            row.id
            for row in _newest(self.pool.name, unknown, 1)
            if row.status == t.RUNNING and (row.client, row.worker) == self.owner.columns
        )

    def _lock(self, ids: Iterable[int]) -> None:
        for job in read_jobs(Held, ids, exclusive_lock()).values():
            if job.status == t.READY:
                self._free[job.id] = job
            elif job.status == t.RUNNING and (job.client, job.worker) == self.owner.columns:
                self.held[job.key] = job

    def ready(self, candidates: Sequence[int]) -> list[int]:
        """The candidates that nobody holds, in their order."""
        return [number for number in candidates if number in self._free]

    def add(self, jobs: Iterable[HeldJob]) -> None:
        """Add jobs that have just been held."""
        for job in jobs:
            self.held[job.key] = self._free[job.id]._replace(lease_token=job.token)

    def in_order(self) -> list[Held]:
        return sorted(self.held.values(), key=lambda job: (job.order_key, job.id))

    def renewed(self) -> list[Item]:
        """Renew all leases; the items in their order, without those past their deadline."""
        jobs = self.in_order()
        heartbeats = [Heartbeat(id=job.id, token=job.lease_token) for job in jobs]
        answers = renew(heartbeats=heartbeats, caller=self.owner.caller)
        return [
            Item(
                key=job.key,
                id=job.id,
                token=job.lease_token,
                score=score_of(job.order_key),
                context=json.loads(job.context),
                lease_until=answer.until,
            )
            for job, answer in zip(jobs, answers, strict=True)
            if isinstance(answer, Renewed)
        ]

    def save(self) -> None:
        """Store which jobs are in the bucket now."""
        if self._row is None:
            return
        ids = sorted(job.id for job in self.held.values())
        if ids != self._row.job_ids or self._now - self._row.seen_at >= _SEEN_WITHIN:
            Bucket.objects.filter(pk=self._row.pk).update(job_ids=ids, seen_at=self._now)


def _locked_row(pool: str, owner: Owner, now: datetime, makes: bool) -> Bucket | None:
    names = {"type": pool, "client": owner.caller.client, "worker": owner.worker}
    mine = Bucket.objects.select_for_update().filter(**names)
    row = mine.first()
    if row is None and makes:
        ensure_row(Bucket, list(names), {**names, "job_ids": [], "seen_at": now})
        row = mine.get()
    return row


def glance(pool: str, owner: Owner) -> int:
    """How many jobs the worker holds; a plain read that locks nothing."""
    client, worker = owner.columns
    row = Bucket.objects.filter(type=pool, client=client, worker=worker).first()
    return len(_running(row)) if row else 0


def _running(bucket: Bucket) -> list[int]:
    """The jobs of the bucket that its worker holds."""
    if not bucket.job_ids:
        return []
    rows = fetch(
        f"SELECT id FROM {table(Job)} WHERE id IN ({placeholders(len(bucket.job_ids))}) "
        "AND status = %s AND client = %s AND worker = %s",
        [*bucket.job_ids, t.RUNNING, bucket.client, bucket.worker],
    )
    return [number for (number,) in rows]


# --- what has ended -------------------------------------------------------------------------------
class _Row(NamedTuple):
    """One of the newest jobs of a key; its client and worker held it last."""

    key: str
    id: int
    status: str
    last_end: str
    client: str
    worker: str


def _newest(pool: str, keys: Collection[str], limit: int) -> list[_Row]:
    """The newest jobs of each key, newest first."""
    key = connection.ops.quote_name("key")
    one = (
        f"SELECT {key}, id, status, last_end, client, worker FROM {table(Job)} WHERE type = %s "
        f"AND {key} = %s ORDER BY type DESC, {key} DESC, id DESC LIMIT {limit}"
    )
    rows = fetch_each((one, (pool, each)) for each in keys)
    return [_Row(*row) for row in rows]


def past_ends(pool: str, owner: Owner, keys: Collection[str], end: str) -> dict[str, str]:
    """The answer for each key that the worker does not hold: "" when the worker has ended it alike
    before, else the code of the reason why its report is refused."""
    if not keys:
        return {}
    rows = _newest(pool, keys, _NEWEST)
    reports = earlier_reports([row.id for row in rows])
    codes = {}
    for key in keys:
        of_key = [row for row in rows if row.key == key]
        ends = [
            each
            for row in of_key
            for each in reports[row.id]
            if (each.client, each.worker) == owner.columns and each.event != STALE
        ]
        if ends:
            # Nobody else ended them meanwhile, so the worker repeats its latest end.
            codes[key] = _code(max(ends).event, end)
        elif of_key and (of_key[0].client, of_key[0].worker) == owner.columns:
            # The journal no longer has it, or somebody else has ended it.
            codes[key] = "" if of_key[0].last_end == end else _CODE_LOST
        else:
            codes[key] = _CODE_UNKNOWN
    return codes


def _code(ended: str, reported: str) -> str:
    if ended == reported:
        return ""
    return _CODE_LOST if ended in LOSSES else _CODE_CONFLICT


# --- buckets nobody uses --------------------------------------------------------------------------
@repeatable
def forget_buckets(now: datetime) -> int:
    """Remove the buckets of workers that have not called for a day; returns how many."""
    until = now - KEPT
    old = Bucket.objects.filter(seen_at__lte=until).order_by("seen_at")[:MAX_REMOVED]
    empty = [bucket.pk for bucket in old if not _running(bucket)]
    return Bucket.objects.filter(pk__in=empty, seen_at__lte=until).delete()[0] if empty else 0
