"""One try to hold jobs: read the first ready ones, take them by one guarded UPDATE per type, read
what was taken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import connection

from apps.common.db import (
    execute,
    execute_and_fetch,
    fetch,
    fetch_each,
    instant,
    placeholders,
    table,
    transactional,
)
from apps.jobs.models import Job, JobType, TypeState
from apps.jobs.rules.outcome import HeldJob, discard_reason
from apps.jobs.rules.slots import shares
from apps.jobs.rules.transitions import READY
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.discard import discard
from apps.jobs.services.locked import first_free, locked_jobs, unlocked
from apps.jobs.services.look import Look
from apps.jobs.services.move import arrow_update
from apps.jobs.services.preference import Found, Preference
from apps.jobs.services.protection import TypeLimits, lock_states

# Of so few jobs, a claim chooses those that no other worker is just taking, among as many more;
# of more jobs, among so many times as many.
_FEW = 4
_WIDER = 4
_MAX_READ = 1_000
# What a held job consists of, in the order of its fields, and what of it is JSON.
_PLAIN = (
    *("id", "type", "key", "user_id", "stage", "attempts", "max_attempts", "sequence"),
    *("progress", "trace_id"),
)
_JSON = ("context", "checkpoint")
_PEEKED = "order_key, id, type, attempts, max_attempts, shard"


class Holder(NamedTuple):
    """The name of a worker that holds jobs, of its host, and the client of its API key.

    `lease` is how long it is believed without a heartbeat; None: as long as the type says.
    """

    name: str
    host: str
    client: str = ""
    lease: timedelta | None = None


class Claim:
    """One try: for whom, of which types, at what instant. `full` are types at their limit."""

    def __init__(
        self,
        holder: Holder,
        types: Mapping[str, TypeSnapshot],
        now: datetime,
        token: str,
        look: Look | None = None,
        columns: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`columns`, if there are any, are read of each held job as its `row`, each by its SQL; its
        context and checkpoint are then read there only. They contain those of every held job."""
        self.types = types
        self.discarded = 0
        self.full: Collection[str] = ()
        # The jobs that were tried, in their order.
        self.tried: list[int] = []
        # Those of the chosen jobs, by type, that may be held at once.
        self.fitting: Callable[[dict[str, list[int]]], dict[str, list[int]]] = dict
        # How many jobs of each type are wanted, and of which types others took some lately.
        self._wanted: dict[str, int] = {}
        self._contested: set[str] = set()
        self._holder = holder
        self._now = now
        self._token = token
        self._look = look or Look()
        self._hosts = ["", holder.host] if holder.host else [""]
        self._columns = columns

    def peek(self, limit: int, rotation: int, batch: Mapping[str, int]) -> dict[str, list[int]]:
        """The jobs of each type to try, in order; plain reads that lock nothing."""
        names = sorted(self.types)
        if len(names) > 1:
            if lately := self._look.lately(names):
                found = self._first_of(sorted(lately), limit, rotation, batch)
                if found or self.discarded:
                    return found
            names = sorted(self._look.types_with_work(names, self._hosts))
        return self._first_of(names, limit, rotation, batch)

    def _first_of(
        self, names: Sequence[str], limit: int, rotation: int, batch: Mapping[str, int]
    ) -> dict[str, list[int]]:
        weights = {name: self.types[name].weight for name in names}
        wanted = {}
        for name, share in shares(limit, weights, rotation=rotation).items():
            type_ = self.types[name]
            most = min(share, batch.get(name, type_.batch_limit))
            # The limit is checked under the lock; more would be read in vain.
            wanted[name] = max(
                1, most if type_.max_running is None else min(most, type_.max_running)
            )
        self._wanted = wanted
        self._contested = {name for name in wanted if self._look.is_contested(name)}
        found = {name: jobs for name, jobs in self._first_ready().items() if jobs}
        # The first type rotates, because jobs after a long one may be released.
        first = rotation % len(found) if found else 0
        names = [*found]
        return {name: found[name] for name in (*names[first:], *names[:first])}

    def _first_ready(self) -> dict[str, list[int]]:
        """The first ready jobs of each type, up to the wanted number, none of them known to stay
        locked; of a contested type more, to choose from. Those that this worker prefers come first.

        One range of the claim index for each type and host, so that nothing is sorted. Jobs that
        must not run any more are discarded.
        """
        locked, over = locked_jobs(), set[int]()
        limits = {name: self._candidates(name) for name in self._wanted}
        sliced = [name for name in limits if not self.types[name].pool]
        preference = Preference(self._holder.client, self._holder.name, sliced)
        found: dict[str, list[Found]] = {name: [] for name in limits}
        for (
            order_key,
            number,
            name,
            attempts,
            max_attempts,
            shard,
            expected_at,
        ) in fetch_each(
            (
                # Reading a time costs as much as all the other columns.
                f"SELECT {_PEEKED}, "
                f"{'expected_at' if self.types[name].expires_after else 'NULL'} "
                f"FROM {table(Job)} WHERE status = %s AND type = %s AND affinity_host = %s "
                "ORDER BY order_key, id LIMIT %s",
                (READY, name, host, max(limit, self._width(name, preference)) + len(locked)),
            )
            for name, limit in limits.items()
            for host in self._hosts
        ):
            if number in locked:
                continue
            expected_at = instant(expected_at)
            if discard_reason(self.types[name], attempts, max_attempts, expected_at, self._now):
                over.add(number)
            else:
                found[name].append(Found(order_key, number, shard))
        if over:
            self.discarded = len(discard(over, types=self.types, now=self._now))
        return {name: preference.order(name, found[name])[:k] for name, k in limits.items()}

    def _candidates(self, name: str) -> int:
        """How many jobs of the type to choose from."""
        wanted = self._wanted[name]
        if name not in self._contested:
            return wanted
        return wanted + _FEW if wanted <= _FEW else _wider(wanted, _WIDER)

    def _width(self, name: str, preference: Preference) -> int:
        """How many jobs of the type to read, to find own ones among those of others."""
        return _wider(self._wanted[name], min(_WIDER, preference.sharers(name)))

    def take(self, jobs: Mapping[str, list[int]]) -> list[HeldJob]:
        """Hold those of the jobs, given by type, that no other worker has taken meanwhile."""
        if self.limited(jobs) or not self._contested.isdisjoint(jobs):
            return self._take_locking(jobs)
        return self._take(dict(jobs))

    def limited(self, jobs: Iterable[str], ending: Collection[str] = ()) -> list[str]:
        """Those of the types whose states are to be locked before their jobs are taken.

        Of a type with a maximum running and no other limit, what ends in the same transaction
        (`ending`) makes places that need no lock.
        """
        return [
            name
            for name in jobs
            if self.types[name].is_limited
            and not (
                name in ending
                and self.types[name].is_limited_by_number_only
                and self._look.has_counted(self.types[name])
            )
        ]

    def take_new(self, number: int, type_: str) -> list[HeldJob]:
        """The job, held, if it is of the type and was never held."""
        self.tried = [number]
        return self._update([self._hold(self.types[type_], [number], " AND holds = 0")])

    @transactional
    def _take_locking(self, jobs: Mapping[str, list[int]]) -> list[HeldJob]:
        limited = self.limited(jobs)
        return self.take_locked(jobs, lock_states(limited) if limited else {})

    def take_locked(
        self,
        jobs: Mapping[str, list[int]],
        states: Mapping[str, TypeState],
        ended: Mapping[str, int] = MappingProxyType({}),
    ) -> list[HeldJob]:
        """`take` within a transaction that has locked the states of limited types.

        Of a limited type whose state is not locked, as many are held as `ended` in it.
        """
        limited = [self.types[n] for n in jobs if n in states and self.types[n].is_limited]
        limits = TypeLimits.of(limited, states, self._now) if limited else None
        places = limits.free if limits else {}
        most = {
            name: places.get(name, ended.get(name, 0) if self.types[name].is_limited else None)
            for name in jobs
        }
        free = {name: self._free(name, jobs[name], most[name]) for name in jobs}
        held = self._take(free)
        if limits:
            self._look.note_counted(limited)
            self.full = limits.full
            limits.count(job.type for job in held)
        return held

    def _free(self, name: str, jobs: list[int], places: int | None) -> list[int]:
        """Those of the jobs of the type to hold now, in their order."""
        most = self._wanted[name] if places is None else min(self._wanted[name], places)
        if name not in self._contested or not most:
            return jobs[:most]
        is_few = self._wanted[name] <= _FEW
        free = first_free(jobs, most) if is_few else unlocked(jobs, most)
        if not free:
            self._look.note_lost([name])
        return free

    def _take(self, jobs: dict[str, list[int]]) -> list[HeldJob]:
        jobs = self.fitting(jobs)
        self.tried = [number for numbers in jobs.values() for number in numbers]
        names = sorted(name for name, numbers in jobs.items() if numbers)
        if not names:
            return []
        held = self._update([self._hold(self.types[name], sorted(jobs[name])) for name in names])
        if len(held) < len(self.tried):
            counts = Counter(job.type for job in held)
            self._look.note_lost(name for name in names if counts[name] < len(jobs[name]))
        return held

    def _update(self, holds: Sequence[tuple[str, list[Any]]]) -> list[HeldJob]:
        """Run these UPDATEs; what they have changed is read with the last one."""
        for sql, values in holds[:-1]:
            execute(sql, values)
        return self._in_order(execute_and_fetch(*holds[-1], *self._reading()))

    def _hold(self, type_: TypeSnapshot, ids: list[int], guard: str = "") -> tuple[str, list[Any]]:
        """The UPDATE that holds these jobs of the type, with its values."""
        lease_until, hard_end_at = self._lease(type_)
        return arrow_update(
            "hold",
            ids,
            sets=", attempts = attempts + 1, holds = holds + 1, held_at = %s, "
            "started_at = COALESCE(started_at, %s), lease_token = %s, lease_until = %s, "
            "hard_end_at = %s, worker = %s, host = %s, client = %s, affinity_host = '', "
            "affinity_until = NULL",
            values=[
                *(self._now, self._now, self._token, lease_until, hard_end_at),
                *(self._holder.name, self._holder.host, self._holder.client),
            ],
            guard=f" AND type = %s AND attempts < max_attempts{guard} "
            f"AND affinity_host IN ({placeholders(len(self._hosts))}) "
            f"AND EXISTS (SELECT 1 FROM {table(JobType)} WHERE name = %s AND version = %s)",
            parameters=[type_.name, *self._hosts, type_.name, type_.version],
        )

    def _lease(self, type_: TypeSnapshot) -> tuple[datetime, datetime]:
        """The end of the lease, and the deadline of the attempt."""
        deadline = self._now + type_.max_processing
        return min(self._now + (self._holder.lease or type_.lease), deadline), deadline

    def held(self) -> list[HeldJob]:
        """Those of the tried jobs that are held under the token, in their order."""
        return self._in_order(fetch(*self._reading())) if self.tried else []

    def _reading(self) -> tuple[str, list[Any]]:
        """The SELECT of the tried jobs that are held under the token, with its values."""
        ids = sorted(self.tried)
        names = ", ".join(self._columns.values()) if self._columns else _names((*_PLAIN, *_JSON))
        sql = (
            f"SELECT {names} FROM {table(Job)} "
            f"WHERE id IN ({placeholders(len(ids))}) AND lease_token = %s"
        )
        return sql, [*ids, self._token]

    def _in_order(self, rows: Sequence[Sequence[Any]]) -> list[HeldJob]:
        plain = _plain_of(tuple(self._columns or _PLAIN))
        found = {row[0]: self._held(plain(row), row) for row in rows}
        return [found[number] for number in self.tried if number in found]

    def _held(self, plain: tuple[Any, ...], row: Sequence[Any]) -> HeldJob:
        asked: Sequence[Any] = ()
        read: Sequence[Any] = (None, None)
        if self._columns:
            asked = row
        else:
            read = [each and json.loads(each) for each in row[len(_PLAIN) :]]
        lease = self._lease(self.types[plain[1]])
        values = [*plain, *read, self._token, self._now, *lease, asked]
        return HeldJob(*values)


def _wider(wanted: int, times: int) -> int:
    return max(wanted, min(wanted * times, _MAX_READ))


@cache
def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(connection.ops.quote_name(name) for name in columns)


@cache
def _plain_of(columns: tuple[str, ...]) -> itemgetter[tuple[Any, ...]]:
    """Picks what every held job consists of from a row of these columns."""
    return itemgetter(*map(columns.index, _PLAIN))
