"""Hold: take due jobs under a lease. Peek in index order, then one guarded UPDATE per type."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import DatabaseError

from apps.common import clock
from apps.common.db import (
    Instants,
    execute,
    fetch,
    is_retryable,
    placeholders,
    table,
    transactional,
)
from apps.jobs.models import Job, JobType
from apps.jobs.rules.transitions import READY, RUNNING
from apps.jobs.rules.turns import shares
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import locked
from apps.jobs.services.giving_up import give_up
from apps.jobs.services.peek import Candidate, first_ready, with_work
from apps.jobs.services.promote import promote_due
from apps.jobs.services.protection import Gate
from apps.jobs.services.type_snapshots import forget_type_snapshots, type_snapshots

logger = logging.getLogger(__name__)

# Somebody else may take all that was peeked at; then it is worth looking again, but not for ever.
MAX_LOOKS = 4
# While there is always something ready, what falls due is promoted so often.
PROMOTION_SECONDS = 1.0
# One hold does not clear away more worn jobs than that; the next one goes on.
MAX_CLEARED = 2000


class Holder(NamedTuple):
    """Who holds: the name of a worker and of its host."""

    name: str
    host: str


class HeldJob(NamedTuple):
    """A job as it was held. `token` is the right to write to it; `attempt` counts this hold.

    `alone`: it may be what killed the worker before, so nothing else should run beside it.
    """

    id: int
    type: str
    key: str
    user_id: str
    stage: str
    priority: int
    attempt: int
    max_attempts: int
    holds: int
    last_end: str
    sequence: int
    progress: int | None
    trace_id: str
    context: Any
    checkpoint: Any
    run_at: datetime
    created_at: datetime
    token: str
    held_at: datetime
    lease_until: datetime
    hard_end_at: datetime
    alone: bool


def hold(
    *,
    holder: Holder,
    types: Collection[str],
    limit: int,
    turn: int = 0,
    batch: Mapping[str, int] | None = None,
    new: int = 0,
    token: str = "",
) -> list[HeldJob]:
    """At most `limit` jobs of these types, now running under a new token of this worker.

    Types share the places by weight, `turn` deciding who gets what does not divide; of each at most
    its `batch_limit`, or fewer by `batch`. A suspect comes alone, with `alone` set. An empty list
    means that nothing is due, or all of it paused, limited, meant for other hosts or just taken.
    Who draws the `new_token` himself can give back by it what was held without an answer.

    `new` is the number of a job that was just submitted, of the only type. It is tried without a
    look at what else there is: that is soonest done, and whoever gets it looks again.
    """
    token = token or new_token()
    if new and len(types) == 1 and (held := _hold_new(holder, next(iter(types)), new, token)):
        return held
    promoted = _promote_now_and_then()
    looks = cleared = 0
    # Types whose limits leave no room, by the version of them that says so.
    full: dict[str, int] = {}
    while looks < MAX_LOOKS and cleared < MAX_CLEARED:
        now = clock.now()
        policies = {
            name: policy
            for name, policy in type_snapshots(types).items()
            if policy.serves(holder.host)
            and not policy.is_paused(now)
            and full.get(name) != policy.version
        }
        claim = _Claim(holder, policies, now, token)
        try:
            peeked = claim.peek(limit, turn + looks, batch or {})
            held = claim.take(peeked)
        except DatabaseError as error:
            if not is_retryable(error):
                raise
            logger.info("hold: a lock was lost, look %d", looks + 1)
            locked.note([each.id for each in claim.candidates], error)
            looks += 1
            # Each type has a statement of its own, and those before the lock are carried out.
            if held := claim.held():
                return held
            continue
        if held:
            return held
        if not (peeked or claim.given_up):
            if promoted or not _promote():
                return []
            promoted = True
            continue
        if not claim.given_up:
            # Somebody else was faster, or a type is not any more what it is thought to be.
            forget_type_snapshots()
            looks += 1
        full |= {name: policies[name].version for name in claim.full}
        # What stood in front is gone now: that is progress, and what is behind it may be good.
        cleared += claim.given_up
    return []


def new_token() -> str:
    """What nobody else holds anything under."""
    return secrets.token_hex(16)


def _hold_new(holder: Holder, type_: str, job: int, token: str) -> list[HeldJob]:
    """The job if it is still as it was submitted, and its type asks for no closer look."""
    now = clock.now()
    policy = type_snapshots([type_]).get(type_)
    if policy is None or policy.is_limited or policy.expires_after or policy.is_paused(now):
        return []
    if not policy.serves(holder.host):
        return []
    try:
        return _Claim(holder, {type_: policy}, now, token).take_new(job, type_)
    except DatabaseError as error:
        if not is_retryable(error):
            raise
        return []


_promote_at = 0.0


def _promote_now_and_then() -> bool:
    """Promote what is due if this process has not done so for a while; whether it did.

    The sweep does so every second, and a hold that finds nothing ready does, too.
    """
    if time.monotonic() < _promote_at:
        return False
    _promote()
    return True


def _promote() -> int:
    global _promote_at
    _promote_at = time.monotonic() + PROMOTION_SECONDS
    return promote_due()


def due_types(types: Collection[str]) -> set[str]:
    """Those of the types that have a job ready for any host, and are not paused: one probe each."""
    now = clock.now()
    policies = type_snapshots(types)
    return with_work([n for n, p in policies.items() if not p.is_paused(now)], hosts=None)


class _Claim:
    """One try to hold: whose, of what, at what instant."""

    def __init__(
        self, holder: Holder, policies: Mapping[str, TypeSnapshot], now: datetime, token: str
    ) -> None:
        self.holder = holder
        self.policies = policies
        self.now = now
        self.token = token
        self.candidates: list[Candidate] = []
        # Until when what it takes of each type is believed, and may run.
        self.leases: dict[str, tuple[datetime, datetime]] = {}
        self.hosts = [""] if not holder.host else ["", holder.host]
        self.given_up = 0
        self.full: Collection[str] = ()

    def peek(self, limit: int, turn: int, batch: Mapping[str, int]) -> list[Candidate]:
        """What could be held now, in order; plain reads that lock nothing."""
        names = sorted(self.policies)
        if len(names) > 1:
            names = sorted(with_work(names, self.hosts))
        weights = {name: self.policies[name].weight for name in names}
        lists = []
        for name, places in shares(limit, weights, turn=turn).items():
            policy = self.policies[name]
            most = min(places, policy.batch_limit, batch.get(name, places))
            lists.append((policy, max(1, most)))
        return self._chosen(_first_free(lists, self.hosts), turn)

    def _chosen(self, found: dict[str, list[Candidate]], turn: int) -> list[Candidate]:
        """Each type's candidates up to its first suspect; or one suspect alone, when its type has
        the turn."""
        over = [
            c for cs in found.values() for c in cs if c.is_over(self.policies[c.type], self.now)
        ]
        if over:
            self.given_up += give_up(ids=[c.id for c in over], policies=self.policies, now=self.now)
            gone = {c.id for c in over}
            found = {name: [c for c in cs if c.id not in gone] for name, cs in found.items()}
        names = [name for name, candidates in found.items() if candidates]
        if not names:
            return []
        # Whose turn it is comes first: what stands behind a long job may be given back.
        first = turn % len(names)
        names = names[first:] + names[:first]
        heads = [found[name][0] for name in names]
        favourite = heads[0]
        if favourite.is_suspect or all(head.is_suspect for head in heads):
            return [favourite]
        return [candidate for name in names for candidate in _before_suspect(found[name])]

    def take(self, peeked: list[Candidate]) -> list[HeldJob]:
        """Those of the candidates that nobody took meanwhile, held."""
        if not peeked:
            return []
        types = {candidate.type for candidate in peeked}
        limited = sorted(name for name in types if self.policies[name].is_limited)
        return self._take_limited(peeked, limited) if limited else self._take(peeked)

    def take_new(self, job: int, type_: str) -> list[HeldJob]:
        """The job, held, if it is of the type and was never held; no suspect."""
        unread = Candidate(0, job, type_, "", 0, 0, None)
        return self._take([unread], " AND holds = 0 AND max_attempts > 1")

    @transactional
    def _take_limited(self, peeked: list[Candidate], limited: list[str]) -> list[HeldJob]:
        gate = Gate.lock([self.policies[name] for name in limited], self.now)
        self.full = gate.full
        held = self._take(gate.let_through(peeked))
        gate.count(job.type for job in held)
        return held

    def _take(self, candidates: list[Candidate], guard: str = "") -> list[HeldJob]:
        self.candidates = candidates
        if not candidates:
            return []
        ids: dict[str, list[int]] = {}
        for candidate in candidates:
            ids.setdefault(candidate.type, []).append(candidate.id)
        changes = [self._update(self.policies[name], ids[name], guard) for name in sorted(ids)]
        for change in changes:
            execute(*change)
        return self._read(fetch(*self._select()))

    def held(self) -> list[HeldJob]:
        """Those of the candidates that are held under the token, in their order."""
        if not self.candidates:
            return []
        return self._read(fetch(*self._select()))

    def _select(self) -> tuple[str, list[Any]]:
        """The SELECT of what is held, with its parameters."""
        ids = sorted(each.id for each in self.candidates)
        return (
            f"SELECT {_HELD} FROM {table(Job)} "
            f"WHERE id IN ({placeholders(len(ids))}) AND lease_token = %s",
            [*ids, self.token],
        )

    def _read(self, rows: Sequence[tuple[Any, ...]]) -> list[HeldJob]:
        known = {row[0]: row for row in rows}
        alone = len(self.candidates) == 1 and self.candidates[0].is_suspect
        at = Instants()
        return [
            self._held(known[each.id], at, alone) for each in self.candidates if each.id in known
        ]

    def _held(self, row: tuple[Any, ...], at: Instants, alone: bool) -> HeldJob:
        *plain, context, checkpoint, run_at, created_at = row
        read = (
            json.loads(context),
            None if checkpoint is None else json.loads(checkpoint),
            at[run_at],
            at[created_at],
        )
        lease = self.leases[plain[1]]
        return HeldJob._make([*plain, *read, self.token, self.now, *lease, alone])

    def _update(self, policy: TypeSnapshot, ids: list[int], guard: str) -> tuple[str, list[Any]]:
        """The guarded UPDATE of one type with its parameters."""
        hard_end = self.now + policy.max_processing
        lease = min(self.now + policy.lease, hard_end)
        self.leases[policy.name] = lease, hard_end
        ids = sorted(ids)
        return (
            f"UPDATE {table(Job)} SET status = %s, attempts = attempts + 1, holds = holds + 1, "
            "version = version + 1, held_at = %s, started_at = COALESCE(started_at, %s), "
            "lease_token = %s, lease_until = %s, hard_end_at = %s, worker = %s, host = %s, "
            "affinity_host = '', affinity_until = NULL "
            f"WHERE id IN ({placeholders(len(ids))}) AND type = %s AND status = %s "
            f"AND attempts < max_attempts{guard} "
            f"AND affinity_host IN ({placeholders(len(self.hosts))}) "
            f"AND EXISTS (SELECT 1 FROM {table(JobType)} WHERE name = %s AND version = %s)",
            [
                RUNNING,
                self.now,
                self.now,
                self.token,
                lease,
                hard_end,
                self.holder.name,
                self.holder.host,
                *ids,
                policy.name,
                READY,
                *self.hosts,
                policy.name,
                policy.version,
            ],
        )


def _first_free(
    wanted: list[tuple[TypeSnapshot, int]], hosts: list[str]
) -> dict[str, list[Candidate]]:
    """As `first_ready`, without those that somebody keeps locked."""
    shut = locked.known()
    if not shut:
        return first_ready(wanted, hosts)
    found = first_ready([(policy, most + len(shut)) for policy, most in wanted], hosts)
    return {
        policy.name: [each for each in found[policy.name] if each.id not in shut][:most]
        for policy, most in wanted
    }


def _before_suspect(candidates: list[Candidate]) -> Iterable[Candidate]:
    for candidate in candidates:
        if candidate.is_suspect:
            return
        yield candidate


_HELD = (
    "id, type, `key`, user_id, stage, priority, attempts, max_attempts, holds, last_end, "
    "sequence, progress, trace_id, context, checkpoint, run_at, created_at"
)
