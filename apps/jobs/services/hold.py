"""Hold: take due jobs under a lease; tries again until it gets some or none is due."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from apps.common import clock
from apps.common.db import fetch, placeholders, table
from apps.jobs.models import Job
from apps.jobs.rules.outcome import HeldJob
from apps.jobs.rules.transitions import RUNNING
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.claim import Claim, Holder
from apps.jobs.services.promote import promote_due
from apps.jobs.services.recent_work import RecentWork, types_with_work
from apps.jobs.services.type_snapshots import forget_type_snapshots, type_snapshots

__all__ = [
    "HeldJob",
    "Holder",
    "RecentWork",
    "claims",
    "due_types",
    "hold",
    "new_token",
    "running_under",
]

logger = logging.getLogger(__name__)

# Other workers may take everything that was read; then it is tried again.
MAX_TRIES = 4
# While there is always something ready, scheduled jobs are promoted at this interval.
PROMOTION_SECONDS = 1.0
# The maximum number of jobs that one hold discards; the next one goes on.
MAX_DISCARDED = 2000


def hold(**wanted: Any) -> list[HeldJob]:
    """Hold at most `limit` jobs of some types under a new token of this worker: by the first of the
    `claims` that gets any. An empty list means that no job is due, or all due jobs are paused,
    limited, meant for other hosts or just taken."""
    held: list[HeldJob] = []
    for claim in claims(**wanted):
        with claim:
            claim.take()
        held = claim.held
    return held


def claims(
    *,
    holder: Holder,
    types: Collection[str],
    limit: int,
    rotation: int = 0,
    batch: Mapping[str, int] | None = None,
    new: int = 0,
    token: str = "",
    recent: RecentWork | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
    max_bytes: int = 0,
) -> Iterator[Claim]:
    """Find at most `limit` jobs of these types to hold, and yield a claim with the jobs `found`.
    The caller takes them `with` the claim; the next claim follows only if this one `held` nothing.

    The types share the limit by weight; each gets at most its `batch_limit`, or the number in
    `batch`. Jobs of the shards that the worker prefers come first. `rotation` chooses the type that
    comes first and gets the remainder; the caller raises it by one with each hold. A caller that
    passes a `new_token` of its own as `token` can release the jobs of a hold whose answer is lost.

    `new` is the number of a job that was just submitted, of the only type. It is tried first,
    without a read of other due jobs: that is fastest. A worker loop keeps its `recent` work.
    `columns` and `max_bytes` are those of Claim.
    """
    token, recent = token or new_token(), recent or RecentWork()
    if new and len(types) == 1 and (type_ := _type_without_limits(next(iter(types)), holder)):
        claim = Claim(holder, {type_.name: type_}, clock.now(), token, columns=columns)
        claim.peek_at(new)
        yield claim
        if claim.held:
            return
    promoted = _promote_now_and_then()
    tries = discarded = 0
    # The types at their limit, each with the version that set the limit.
    full: dict[str, int] = {}
    while tries < MAX_TRIES and discarded < MAX_DISCARDED:
        now = clock.now()
        served = {
            name: type_
            for name, type_ in type_snapshots(types).items()
            if type_.serves(holder.host)
            and not type_.is_paused(now)
            and full.get(name) != type_.version
        }
        claim = Claim(holder, served, now, token, recent, columns, max_bytes)
        with claim:
            claim.peek(limit, rotation + tries + len(full), batch or {})
        if claim.found:
            yield claim
        if claim.is_lost:
            tries += 1
            logger.info("hold: a lock was lost, try %d", tries)
        if claim.held:
            return
        discarded += claim.discarded
        # The next look leaves these types out: each type is met once, so they use up no try.
        full |= {name: served[name].version for name in claim.full}
        if claim.full or claim.discarded or claim.is_lost:
            continue
        if claim.found:
            # Another worker was faster, or a type has been edited.
            if tries:
                forget_type_snapshots()
            tries += 1
        elif promoted or not _promote():
            return
        else:
            promoted = True


def running_under(tokens: Collection[str]) -> list[int]:
    """The jobs that run under these tokens."""
    if not tokens:
        return []
    # A literal, without which SQLite would not use its partial index.
    return [
        number
        for (number,) in fetch(
            f"SELECT id FROM {table(Job)} WHERE status = '{RUNNING}' "
            f"AND lease_token IN ({placeholders(len(tokens))})",
            sorted(tokens),
        )
    ]


def new_token() -> str:
    """A token that no other hold uses."""
    return secrets.token_hex(16)


def _type_without_limits(name: str, holder: Holder) -> TypeSnapshot | None:
    """The type, if any of its jobs that was never held may be held here now."""
    type_ = type_snapshots([name]).get(name)
    if type_ is None or type_.is_limited or type_.expires_after:
        return None
    return None if type_.is_paused(clock.now()) or not type_.serves(holder.host) else type_


_promote_at = 0.0


def _promote_now_and_then() -> bool:
    """Promote what is due if this process has not done so lately; returns whether it did.

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
    """The types that have a ready job and are not paused."""
    now = clock.now()
    active = [n for n, type_ in type_snapshots(types).items() if not type_.is_paused(now)]
    return types_with_work(active)
