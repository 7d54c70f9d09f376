"""Hold: take due jobs under a lease; tries again until it gets some or none is due."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from django.db import DatabaseError

from apps.common import clock
from apps.common.db import fetch, is_retryable, placeholders, table
from apps.jobs.models import Job
from apps.jobs.rules.outcome import HeldJob
from apps.jobs.rules.transitions import RUNNING
from apps.jobs.services.claim import Claim, Holder
from apps.jobs.services.locked import note_locked
from apps.jobs.services.look import Look, types_with_work
from apps.jobs.services.promote import promote_due
from apps.jobs.services.type_snapshots import forget_type_snapshots, type_snapshots

__all__ = ["HeldJob", "Holder", "Look", "due_types", "hold", "new_token", "running_under"]

logger = logging.getLogger(__name__)

# Other workers may take everything that was read; then it is tried again.
MAX_TRIES = 4
# While there is always something ready, scheduled jobs are promoted at this interval.
PROMOTION_SECONDS = 1.0
Take = Callable[[Claim, dict[str, list[int]]], list[HeldJob]]
# The maximum number of jobs that one hold discards; the next one goes on.
MAX_DISCARDED = 2000


def hold(
    *,
    holder: Holder,
    types: Collection[str],
    limit: int,
    rotation: int = 0,
    batch: Mapping[str, int] | None = None,
    new: int = 0,
    token: str = "",
    look: Look | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
    take: Take = Claim.take,
) -> list[HeldJob]:
    """At most `limit` jobs of these types, now running under a new token of this worker.

    Types share the limit by weight; of each at most its `batch_limit`, or what `batch` says. Jobs
    of the shards that the worker prefers come first, then others. The caller raises `rotation` by
    one with each hold: it says which type gets the remainder and comes first. An empty list means
    that nothing is due, or all of it paused, limited, meant for other hosts or just taken. A caller
    that makes the `new_token` itself can release jobs that were held without an answer.

    `new` is the number of a just submitted job of the only type. It is tried first, without
    reading what else is due: that is fastest. A worker loop keeps its `look`; `take` takes what was
    found. `columns`, by name and SQL, are what the held jobs have as their `row` instead of context
    and checkpoint.
    """
    token, look = token or new_token(), look or Look()
    if new and len(types) == 1 and (held := _hold_new(holder, next(iter(types)), new, token)):
        return held
    promoted = _promote_now_and_then()
    tries = discarded = 0
    # Types at their limit, with the version that says so.
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
        claim = Claim(holder, served, now, token, look, columns)
        try:
            found = claim.peek(limit, rotation + tries + len(full), batch or {})
            held = take(claim, found)
        except DatabaseError as error:
            if not is_retryable(error):
                raise
            tries += 1
            logger.info("hold: a lock was lost, try %d", tries)
            note_locked(claim.tried, error)
            # Each type has its own UPDATE: those before the error are committed.
            held = claim.held()
            if not held:
                continue
        if held:
            return held
        if not (found or claim.discarded):
            if promoted or not _promote():
                return []
            promoted = True
            continue
        if claim.full:
            # The next look is without them: each is met once, so they use up no try.
            full |= {name: served[name].version for name in claim.full}
        elif not claim.discarded:
            # Another worker was faster, or a type has been edited.
            if tries:
                forget_type_snapshots()
            tries += 1
        discarded += claim.discarded
    return []


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


def _hold_new(holder: Holder, name: str, job: int, token: str) -> list[HeldJob]:
    """Hold the job if it was never held and its type has no limits to check."""
    now = clock.now()
    type_ = type_snapshots([name]).get(name)
    if type_ is None or type_.is_limited or type_.expires_after or type_.is_paused(now):
        return []
    if not type_.serves(holder.host):
        return []
    try:
        return Claim(holder, {name: type_}, now, token).take_new(job, name)
    except DatabaseError as error:
        if not is_retryable(error):
            raise
        return []


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
    """Those of the types that have a ready job and are not paused."""
    now = clock.now()
    active = [n for n, type_ in type_snapshots(types).items() if not type_.is_paused(now)]
    return types_with_work(active)
