"""Pools: keys with scores, each held by one worker at a time; a worker's keys are its bucket.

Each call locks the row of the bucket, then the jobs in the order of their ids, so that calls of one
worker follow one another. Which of the jobs the worker holds stands in their rows; the bucket only
says where to look. Each call renews the leases of the whole bucket.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db import transaction

from apps.common.db import transactional
from apps.common.errors import NotFound, PlatformError
from apps.common.messages import Message as _
from apps.jobs.models import TypeState
from apps.jobs.rules import transitions as t
from apps.jobs.rules.caller import IN_HOUSE, Caller
from apps.jobs.rules.outcome import RETRY_BY_POLICY, Outcome
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import register
from apps.jobs.services.claim import Claim
from apps.jobs.services.hold import Holder, claims
from apps.jobs.services.pool_bucket import Item, LockedBucket, Owner, glance, past_ends
from apps.jobs.services.protection import lock_states
from apps.jobs.services.rows import ANSWER_BYTES, fitting
from apps.jobs.services.settle import settle_locked, wake_for
from apps.jobs.services.type_snapshots import type_snapshots

DEFAULT_LIMIT = 20
MAX_LIMIT = 1_000
# Another worker may be faster at some of the keys; then it is tried again.
_MAX_ROUNDS = 4
_KNOWN_SECONDS = 0.2
_UNGUARDED: Mapping[str, TypeState] = MappingProxyType({})


def find_pool(name: str, caller: Caller = IN_HOUSE) -> TypeSnapshot:
    """The settings of the pool; NotFound when there is none, or it is not the caller's."""
    if caller.may_use(name):
        found = type_snapshots([name]).get(name)
        if found is None or not found.pool:
            # It may have just been made.
            found = type_snapshots(max_age=_KNOWN_SECONDS).get(name)
        if found is not None and found.pool:
            return found
        if found is not None:
            raise NotFound(
                _(
                    "{name!r} is a job type but no pool; hold its jobs at /api/v1/jobs/hold/.",
                    name=name,
                )
            )
    raise NotFound(_("There is no pool {name!r}.", name=name[:80]))


# --- assign ---------------------------------------------------------------------------------------
def assign(
    *, pool: TypeSnapshot, caller: Caller, worker: str, host: str = "", limit: int = DEFAULT_LIMIT
) -> list[Item]:
    """Fill the worker's bucket up to `limit` keys, lowest scores first; returns all that is in it.

    Fewer where their contexts are large. More keys than that go back to the pool, highest scores
    first, and do not count as attempts. A worker that an operator lets take nothing keeps what it
    has. Throttled when the worker has no place in the register.
    """
    calling = register.touch(client=caller.client, name=worker, host=host, types=[pool.name])
    if not calling.has_place:
        raise register.no_place(caller.client)
    owner, holder = Owner(caller, worker), Holder(worker, host, caller.client)
    items: list[Item] | None = None
    for _round in range(0 if calling.is_quiet else _MAX_ROUNDS):
        is_contested = False
        missing = limit - glance(pool.name, owner)
        if missing <= 0:
            break
        batch = {pool.name: missing}
        for claim in claims(holder=holder, types=[pool.name], limit=missing, batch=batch):
            with claim:
                items, is_contested = _fill(claim, pool, owner, limit)
        if not is_contested:
            break
    return _renew(pool, owner, limit) if items is None else items


def _fill(claim: Claim, pool: TypeSnapshot, owner: Owner, limit: int) -> tuple[list[Item], bool]:
    """Hold as many of the found jobs as the bucket has room for; what is in it then, and whether
    others were faster at some of the keys."""
    with transaction.atomic():
        bucket = LockedBucket(pool, owner)
        # Before any job, as everybody locks them.
        limited = claim.limited_types()
        states = lock_states(limited) if limited else {}
        fits = fitting([*bucket.numbers, *claim.found[pool.name]], ANSWER_BYTES)
        candidates = [number for number in claim.found[pool.name] if number in fits]
        bucket.read(candidates)
        room = max(0, limit - len(bucket.held))
        wanted = bucket.ready(candidates)[:room]
        if wanted:
            claim.take_locked({pool.name: wanted}, states)
        bucket.add(claim.held)
        return _release_surplus(bucket, limit), len(wanted) < min(room, len(candidates))


@transactional
def _renew(pool: TypeSnapshot, owner: Owner, limit: int) -> list[Item]:
    """The items of a bucket that has room for no more."""
    bucket = LockedBucket(pool, owner)
    bucket.read()
    return _release_surplus(bucket, limit)


def _release_surplus(bucket: LockedBucket, limit: int) -> list[Item]:
    """Release the surplus of the bucket and renew the rest; returns the rest."""
    if surplus := bucket.in_order()[limit:]:
        _end(bucket, [each.key for each in surplus], t.END_RELEASED)
    items = bucket.renewed()
    bucket.save()
    return items


# --- reports --------------------------------------------------------------------------------------
class CheckResult(NamedTuple):
    """`missing` keys are held and were not named, `extra` ones were named and are not held."""

    missing: list[str]
    extra: list[str]


class Report(NamedTuple):
    """The keys that ended as reported, and the others, each with the code of the reason."""

    ended: list[str]
    refused: dict[str, str]


@transactional
def check(*, pool: TypeSnapshot, caller: Caller, worker: str, keys: Collection[str]) -> CheckResult:
    """Compare the worker's keys with its bucket."""
    bucket = LockedBucket(pool, Owner(caller, worker), makes=False)
    bucket.read()
    held = {item.key for item in bucket.renewed()}
    bucket.save()
    named = set(keys)
    return CheckResult(sorted(held - named), sorted(named - held))


@transactional
def report(
    *,
    pool: TypeSnapshot,
    caller: Caller,
    worker: str,
    keys: Sequence[str],
    end: str,
    error: str = "",
    retry: str = RETRY_BY_POLICY,
) -> Report:
    """End the named keys of the worker's bucket as succeeded, failed or released.

    A repeat gets the first answer. Any other key is refused, and stays as it is.
    """
    owner = Owner(caller, worker)
    bucket = LockedBucket(pool, owner, makes=False)
    states = lock_states([pool.name]) if pool.breaker.enabled else {}
    bucket.read()
    bucket.look_for(keys)
    mine = [key for key in keys if key in bucket.held]
    answers = _end(bucket, mine, end, states=states, error=error, retry=retry)
    past = past_ends(pool.name, owner, [key for key in keys if key not in mine], end)
    bucket.renewed()
    bucket.save()
    codes = past | {
        key: each.code if isinstance(each, PlatformError) else ""
        for key, each in zip(mine, answers, strict=True)
    }
    ended = [key for key in keys if not codes[key]]
    return Report(ended, {key: codes[key] for key in keys if codes[key]})


def _end(
    bucket: LockedBucket,
    keys: Sequence[str],
    end: str,
    *,
    states: Mapping[str, TypeState] = _UNGUARDED,
    **details: Any,
) -> list[str | PlatformError]:
    """End these keys of the bucket; the answers in their order."""
    if not keys:
        return []
    jobs = [bucket.held[key] for key in keys]
    outcomes = [
        Outcome(id=job.id, token=job.lease_token, end=end, type=bucket.pool.name, **details)
        for job in jobs
    ]
    answers = settle_locked(outcomes, states, bucket.owner.caller).answers
    wake_for(answers)
    for key, answer in zip(keys, answers, strict=True):
        if not isinstance(answer, PlatformError):
            del bucket.held[key]
    return answers
