"""One try to hold jobs: read the first ready jobs, take them by one guarded UPDATE per type, and
read the jobs that were taken."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import DatabaseError, connection

from apps.common.db import (
    execute,
    execute_and_fetch,
    fetch,
    fetch_each,
    instant,
    is_retryable,
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
from apps.jobs.services.locked import lock_free, lock_free_one_by_one, locked_jobs, note_locked
from apps.jobs.services.preference import FoundJob, Preference
from apps.jobs.services.protection import TypeLimits, lock_states
from apps.jobs.services.recent_work import RecentWork
from apps.jobs.services.rows import arrow_update, fitting

# A claim of a contested type leaves out the jobs that another worker is just taking. It reads _FEW
# jobs more than it wants if it wants at most _FEW, else _WIDER times as many.
_FEW = 4
_WIDER = 4
_MAX_READ = 1_000
# Beside others that share a type, up to _OWN jobs are read, so that about two of one's own are
# among them for each wanted one: 16 workers that take one at a time take 1.9 times as many by it.
_OWN = 256
# A claim may wait for locks meanwhile. It leaves out what came back to the queue so long after its
# instant, which would be held before it had ended; processes agree on the time within less.
_LATER = timedelta(seconds=1)
# The columns of a held job in the order of its fields; then those with JSON.
_PLAIN = (
    *("id", "type", "key", "user_id", "stage", "attempts", "max_attempts", "sequence"),
    *("progress", "trace_id"),
)
_JSON = ("context", "checkpoint")
_PEEKED = "order_key, id, type, attempts, max_attempts, shard"


class Holder(NamedTuple):
    """The name of a worker that holds jobs, of its host, and the client of its API key.

    `lease` is how long it counts as alive without a heartbeat; None: as long as the type says.
    """

    name: str
    host: str
    client: str = ""
    lease: timedelta | None = None


class Claim:
    """One try to hold jobs: its holder, types and instant.

    `found` are the jobs to try, by type and in their order, `held` those that were taken, `full`
    the types at their limit. Within `with claim:` a lock that is lost ends the try (`is_lost`), and
    what has been committed before stays held.
    """

    def __init__(
        self,
        holder: Holder,
        types: Mapping[str, TypeSnapshot],
        now: datetime,
        token: str,
        recent: RecentWork | None = None,
        columns: Mapping[str, str] = MappingProxyType({}),
        max_bytes: int = 0,
    ) -> None:
        """`columns`, if there are any, are read of each held job as its `row`, each by its SQL; its
        context and checkpoint are then read there only. They contain those of every held job.
        Contexts and checkpoints have at most `max_bytes` together, unless it is 0; the first job is
        held however large it is."""
        self.types = types
        self.found: dict[str, list[int]] = {}
        self.held: list[HeldJob] = []
        self.full: Collection[str] = ()
        self.discarded = 0
        self.is_lost = False
        # The jobs that were tried, in their order.
        self._tried: list[int] = []
        # The number of wanted jobs by type; the types of which other workers took jobs lately.
        self._wanted: dict[str, int] = {}
        self._contested: set[str] = set()
        # The end of the lease and the deadline of each type that was tried.
        self._leases: dict[str, tuple[datetime, datetime]] = {}
        self._guard = ""
        self._holder = holder
        self._now = now
        self._token = token
        self._recent = recent or RecentWork()
        self._hosts = ["", holder.host] if holder.host else [""]
        self._columns = columns
        self._max_bytes = max_bytes

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        if not isinstance(error, DatabaseError) or not is_retryable(error):
            return False
        self.is_lost = True
        note_locked(self._tried, error)
        # Each type has its own UPDATE: those before the error may be committed.
        self.held = self._read_held(fetch(*self._reading())) if self._tried else []
        return True

    def peek_at(self, number: int) -> None:
        """Find this job of the only type, without a look at it: it counts if it was never held."""
        [name] = self.types
        self.found, self._wanted, self._guard = {name: [number]}, {name: 1}, " AND holds = 0"

    def peek(self, limit: int, rotation: int, batch: Mapping[str, int]) -> None:
        """Find the jobs of each type to try; plain reads that lock nothing."""
        names = sorted(self.types)
        if len(names) > 1:
            if lately := self._recent.lately(names):
                self.found = self._find_first(sorted(lately), limit, rotation, batch)
                if self.found or self.discarded:
                    return
            names = sorted(self._recent.types_with_work(names, self._hosts))
        self.found = self._find_first(names, limit, rotation, batch)

    def _find_first(
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
        self._contested = {name for name in wanted if self._recent.is_contested(name)}
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
        found: dict[str, list[FoundJob]] = {name: [] for name in limits}
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
            expected_at = expected_at and instant(expected_at)
            if discard_reason(self.types[name], attempts, max_attempts, expected_at, self._now):
                over.add(number)
            else:
                found[name].append(FoundJob(order_key, number, shard))
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
        wanted, sharers = self._wanted[name], preference.sharers(name)
        if sharers == 1:
            return wanted
        return max(_wider(wanted, min(_WIDER, sharers)), min(2 * sharers * wanted, _OWN))

    def take(self) -> None:
        """Hold the found jobs that no other worker has taken meanwhile."""
        if self.limited_types() or not self._contested.isdisjoint(self.found):
            self._take_locking()
        else:
            self._take(self.found)

    def limited_types(self, ending: Collection[str] = ()) -> list[str]:
        """The types whose states must be locked before their jobs are taken.

        A type whose only limit is a maximum running is left out if it was counted a moment ago and
        jobs of it end in the same transaction (`ending`): the places that they leave need no lock.
        """
        return [
            name
            for name in self.found
            if self.types[name].is_limited
            and not (
                name in ending
                and self.types[name].is_limited_by_number_only
                and self._recent.has_counted(self.types[name])
            )
        ]

    @transactional
    def _take_locking(self) -> None:
        limited = self.limited_types()
        self.take_locked(self.found, lock_states(limited) if limited else {})

    def take_locked(
        self,
        jobs: Mapping[str, list[int]],
        states: Mapping[str, TypeState],
        ended: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`take` these jobs within a transaction that has locked the `states` of limited types.

        Of a limited type whose state is not locked, as many jobs are held as `ended` in it.
        """
        limited = [self.types[n] for n in jobs if n in states and self.types[n].is_limited]
        limits = TypeLimits.of(limited, states, self._now) if limited else None
        places = limits.free if limits else {}
        most = {
            name: places.get(name, ended.get(name, 0) if self.types[name].is_limited else None)
            for name in jobs
        }
        self._take({name: self._free(name, jobs[name], most[name]) for name in jobs})
        if limits:
            self._recent.note_counted(limited)
            self.full = limits.full
            limits.count(job.type for job in self.held)

    def _free(self, name: str, jobs: list[int], places: int | None) -> list[int]:
        """The jobs of the type to hold now, in their order."""
        most = self._wanted[name] if places is None else min(self._wanted[name], places)
        if name not in self._contested or not most:
            return jobs[:most]
        is_few = self._wanted[name] <= _FEW
        free = lock_free_one_by_one(jobs, most) if is_few else lock_free(jobs, most)
        if not free:
            self._recent.note_lost([name])
        return free

    def _take(self, jobs: Mapping[str, list[int]]) -> None:
        if self._max_bytes:
            jobs = self._fitting(jobs)
        self._tried = [number for numbers in jobs.values() for number in numbers]
        names = sorted([name for name, numbers in jobs.items() if numbers])
        if not names:
            return
        holds = [self._hold(self.types[name], sorted(jobs[name])) for name in names]
        for sql, values in holds[:-1]:
            execute(sql, values)
        # The changed rows are read together with the last UPDATE.
        self.held = self._read_held(execute_and_fetch(*holds[-1], *self._reading()))
        if len(self.held) < len(self._tried):
            counts = Counter(job.type for job in self.held)
            self._recent.note_lost(name for name in names if counts[name] < len(jobs[name]))

    def _fitting(self, jobs: Mapping[str, list[int]]) -> Mapping[str, list[int]]:
        """The first jobs whose contexts and checkpoints have at most `max_bytes` together; one at
        least."""
        ids = [number for numbers in jobs.values() for number in numbers]
        fits = fitting(ids, self._max_bytes)
        return {name: [each for each in some if each in fits] for name, some in jobs.items()}

    def _hold(self, type_: TypeSnapshot, ids: list[int]) -> tuple[str, list[Any]]:
        """The UPDATE that holds these jobs of the type, with its values."""
        hard_end_at = self._now + type_.max_processing
        lease_until = min(self._now + (self._holder.lease or type_.lease), hard_end_at)
        self._leases[type_.name] = lease_until, hard_end_at
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
            guard=f" AND type = %s AND attempts < max_attempts AND run_at <= %s{self._guard} "
            f"AND affinity_host IN ({placeholders(len(self._hosts))}) "
            f"AND EXISTS (SELECT 1 FROM {table(JobType)} WHERE name = %s AND version = %s)",
            parameters=[
                *(type_.name, self._now + _LATER, *self._hosts),
                *(type_.name, type_.version),
            ],
        )

    def _reading(self) -> tuple[str, list[Any]]:
        """The SELECT of the tried jobs that are held under the token, with its values."""
        ids = sorted(self._tried)
        names = ", ".join(self._columns.values()) if self._columns else _names((*_PLAIN, *_JSON))
        sql = (
            f"SELECT {names} FROM {table(Job)} "
            f"WHERE id IN ({placeholders(len(ids))}) AND lease_token = %s"
        )
        return sql, [*ids, self._token]

    def _read_held(self, rows: Sequence[Sequence[Any]]) -> list[HeldJob]:
        plain_of = _plain_of(tuple(self._columns)) if self._columns else None
        held: dict[int, HeldJob] = {}
        for row in rows:
            if plain_of:
                asked, values = row, [*plain_of(row), None, None]
            else:
                *values, context, checkpoint = row
                asked, read = (), json.loads(context)
                values += [read, checkpoint and json.loads(checkpoint)]
            values += [self._token, self._now, *self._leases[values[1]], asked]
            held[row[0]] = HeldJob(*values)
        return [held[number] for number in self._tried if number in held]


def _wider(wanted: int, times: int) -> int:
    return max(wanted, min(wanted * times, _MAX_READ))


@cache
def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(connection.ops.quote_name(name) for name in columns)


@cache
def _plain_of(columns: tuple[str, ...]) -> itemgetter[tuple[Any, ...]]:
    """A getter of the _PLAIN columns from a row of these columns."""
    return itemgetter(*map(columns.index, _PLAIN))
