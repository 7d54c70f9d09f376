"""Rebuilding a pool: the keys that are wanted, at once or in chunks, while workers go on.

A rebuild has a number, its epoch, and stamps the jobs of the keys it names with it, as their trace.
When all are named, what waits without the stamp is withdrawn, and workers are asked to give up what
they hold without it. So the pool is never empty in between, and an older rebuild does not undo a
newer one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from django.db import connection

from apps.common import clock
from apps.common.chunks import chunks
from apps.common.db import exclusive_lock, fetch_each, force_index, table, transactional
from apps.common.errors import Conflict, FieldError, PlatformError, refusal
from apps.common.json.schema import MAX_COST
from apps.common.json_rules import check_json
from apps.common.messages import Message as _
from apps.common.rows import update_rows
from apps.jobs.models import Job, TypeState
from apps.jobs.rules import reasons
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import Score, score_key
from apps.jobs.rules.submission import Submission, unique_key
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.move import Move, entry_of, lock_jobs, move
from apps.jobs.services.pool_status import status_of
from apps.jobs.services.protection import lock_states
from apps.jobs.services.rows import read_jobs
from apps.jobs.services.submit import MAX_AT_ONCE, submit_many
from apps.jobs.services.submit_check import MAX_ERRORS
from apps.jobs.services.twins import open_twins
from apps.journal import services as journal
from apps.journal.models import Source

# In one transaction, and how long one call goes on.
BLOCK = 5_000
CALL_SECONDS = 5.0
EVENT = "pool_rebuilt"
_PLACE = re.compile(r"jobs\[(\d+)\]\.")


@dataclass(kw_only=True)
class Rebuilt:
    """The changes of one call. Of the named keys, `added` are new, `moved` wait with another score,
    `unchanged` wait as before, `held` are held by workers; `withdrawn` keys were not named.

    `more`: the call ran out of time; repeat it.
    """

    added: int = 0
    withdrawn: int = 0
    held: int = 0
    unchanged: int = 0
    moved: int = 0
    more: bool = False


@dataclass(frozen=True)
class _Epoch:
    """A rebuild; those of callers without numbers have stamps of their own."""

    number: int
    stamp: str

    @property
    def reason(self) -> str:
        return reasons.NOT_NAMED.format(rebuild=self.stamp)


def rebuild(
    *,
    pool: TypeSnapshot,
    items: Mapping[str, Score],
    actor: str,
    contexts: Mapping[str, Any] | None = None,
    epoch: int | None = None,
    last: bool = False,
) -> Rebuilt:
    """Put these keys, at most MAX_AT_ONCE, into the pool with their scores.

    Without an epoch they are the whole pool. With one they are a chunk of it, and `last` ends the
    rebuild. Conflict when a rebuild with a later epoch has begun. Contexts that are not given stay.
    """
    done, now = _add(pool, items, contexts or {}, epoch, "", actor)
    if epoch is None or last:
        _withdraw(pool, now, actor, done)
    return done


def rebuild_whole(*, pool: TypeSnapshot, items: Mapping[str, Score], actor: str) -> Rebuilt:
    """Make any number of keys the whole pool."""
    total, now = Rebuilt(), _Epoch(0, "")
    for some in chunks([*items.items()], MAX_AT_ONCE) if items else [()]:
        done, now = _add(pool, dict(some), {}, now.number or None, now.stamp, actor)
        for name in ("added", "held", "unchanged", "moved"):
            setattr(total, name, getattr(total, name) + getattr(done, name))
    _withdraw(pool, now, actor, total)
    return total


# --- adding ---------------------------------------------------------------------------------------
@transactional
def _add(
    pool: TypeSnapshot,
    items: Mapping[str, Score],
    contexts: Mapping[str, Any],
    number: int | None,
    stamp: str,
    actor: str,
) -> tuple[Rebuilt, _Epoch]:
    """Insert the keys that are not in the pool, and stamp and move the others."""
    epoch = _begin(pool.name, number, stamp)
    _check_contexts(pool, contexts)
    keys = {unique_key(pool.name, key): key for key in items}
    twins = {keys[each]: twin.id for each, twin in open_twins(keys).items()}
    fresh = [key for key in items if key not in twins]
    _submit(pool.name, fresh, items, contexts, epoch.stamp, actor)
    done = Rebuilt(added=len(fresh))
    moved: dict[int, dict[str, Any]] = {}
    stamped: dict[int, dict[str, Any]] = {}
    # Keys that the present rebuild names are wanted again.
    named = {"trace_id": epoch.stamp, "cancel_requested": False}
    for job in read_jobs(_Open, twins.values(), exclusive_lock()).values():
        if job.status not in t.OPEN:
            continue
        place = score_key(items[job.key])
        if job.status == t.RUNNING:
            done.held += 1
        elif job.order_key == place:
            done.unchanged += 1
        else:
            done.moved += 1
        if job.order_key != place:
            moved[job.id] = {**named, "order_key": place}
        elif job.trace_id != epoch.stamp or job.cancel_requested:
            stamped[job.id] = named
    update_rows(Job, moved)
    update_rows(Job, stamped)
    update_rows(Job, {twins[key]: {"context": contexts[key]} for key in contexts if key in twins})
    return done, epoch


def _begin(pool: str, number: int | None, stamp: str) -> _Epoch:
    """The rebuild, which is the latest; no other goes on until the transaction ends."""
    latest = lock_states([pool])[pool].pool_epoch
    if number is None:
        number = latest + 1
        stamp = f"single-{number}"
    epoch = _Epoch(number, stamp or str(number))
    _require_latest(epoch, latest)
    if number > latest:
        TypeState.objects.filter(type=pool).update(pool_epoch=number)
    return epoch


def _require_latest(epoch: _Epoch, latest: int) -> None:
    if epoch.number < latest:
        raise Conflict(
            _(
                "Rebuild {epoch} is outdated: rebuild {latest} has begun.",
                epoch=epoch.number,
                latest=latest,
            )
        )


class _Open(NamedTuple):
    """The columns of an open job that a rebuild compares."""

    id: int
    key: str
    status: str
    order_key: int
    trace_id: str
    cancel_requested: bool


def _submit(
    pool: str,
    keys: list[str],
    items: Mapping[str, Score],
    contexts: Mapping[str, Any],
    stamp: str,
    actor: str,
) -> None:
    try:
        submit_many(
            [
                Submission(
                    type=pool,
                    key=key,
                    context=contexts.get(key, {}),
                    score=items[key],
                    trace_id=stamp,
                )
                for key in keys
            ],
            by=actor,
        )
    except PlatformError as error:
        raise _error_by_key(error, keys) from error


def _error_by_key(error: PlatformError, keys: list[str]) -> PlatformError:
    """The error with the names of keys where the fields have positions."""
    errors = []
    for each in error.errors:
        position, found = _PLACE.match(each.field), each.field
        if position:
            key, field = keys[int(position[1])], each.field[position.end() :]
            inside = field.removeprefix("context")
            found = f"contexts.{key}{inside}" if inside != field else f"items.{key}"
        errors.append(FieldError(found, each.code, each.message))
    return refusal(errors) if errors else error


def _check_contexts(pool: TypeSnapshot, contexts: Mapping[str, Any]) -> None:
    """Raise an error that names what is wrong with the contexts, or with the first of them."""
    errors: list[FieldError] = []
    cost = 0
    for key, context in contexts.items():
        field = f"contexts.{key}"
        check_json(context, field=field)
        if pool.checker is None:
            continue
        if wrong := pool.checker.faults(context, field=field):
            errors += wrong
            cost += pool.checker.cost(context)
        if len(errors) >= MAX_ERRORS or cost > MAX_COST:
            break
    if errors:
        raise refusal(errors[:MAX_ERRORS])


# --- withdrawing ----------------------------------------------------------------------------------
def _withdraw(pool: TypeSnapshot, epoch: _Epoch, actor: str, done: Rebuilt) -> None:
    """Withdraw what the rebuild has not named, in blocks, until the time of a call is over."""
    until = time.monotonic() + CALL_SECONDS
    done.more = True
    while done.more and time.monotonic() < until:
        withdrawn = _withdraw_block(pool, epoch, actor)
        done.withdrawn += withdrawn or 0
        done.more = withdrawn is not None


@transactional
def _withdraw_block(pool: TypeSnapshot, epoch: _Epoch, actor: str) -> int | None:
    """Withdraw one block of waiting jobs, and ask for held ones; how many were withdrawn, None when
    nothing was left, which ends the rebuild."""
    _require_latest(epoch, lock_states([pool.name])[pool.name].pool_epoch)
    now = clock.now()
    unnamed = _unnamed_jobs(pool.name, epoch.stamp)
    if not unnamed:
        status = status_of(pool.name)
        facts = {"rebuild": epoch.stamp, "waiting": status.waiting, "held": status.held}
        entry = journal.Entry(
            at=now,
            source=Source.PLAN,
            subject_id=pool.pk,
            event=EVENT,
            type_or_task=pool.name,
            actor=actor,
            data=facts,
        )
        journal.write([entry])
        return None
    cancelled, asked = list[Move](), list[Move]()
    noted = partial(entry_of, now=now, actor=actor, reason=epoch.reason)
    for job in lock_jobs(unnamed).values():
        if job.status in t.WAITING:
            entry = noted(job, "cancelled", t.CANCELLED)
            cancelled.append(("cancel", job, {}, entry))
        elif job.status == t.RUNNING:
            wanted = {"cancel_requested": True}
            entry = noted(job, "cancel_requested", t.RUNNING)
            asked.append(("request_cancel", job, wanted, entry))
    for moves in (cancelled, asked):
        for part in chunks(moves, MAX_AT_ONCE):
            move(part)
    return len(cancelled)


def _unnamed_jobs(pool: str, stamp: str) -> list[int]:
    """The first jobs of the pool without the stamp, but those that workers were asked for.

    One statement, which sees every job in one state: none can pass from a state that has been read
    to one that has not.
    """
    jobs = f"{table(Job)}{force_index('job_claim')}"
    # The states are literals, without which SQLite would not use its partial indexes.
    one = f"SELECT id FROM {jobs} WHERE status = '{{0}}' AND type = %s AND trace_id <> %s{{1}}"
    parts = [one.format(each, f" LIMIT {BLOCK}") for each in t.WAITING]
    parts.append(one.format(t.RUNNING, f" AND cancel_requested = %s LIMIT {BLOCK}"))
    values: list[Any] = [pool, stamp]
    rows = fetch_each((part, [*values, False] if part is parts[-1] else values) for part in parts)
    return [number for (number,) in rows]


# --- beforehand -----------------------------------------------------------------------------------
def foresee(*, pool: TypeSnapshot, items: Mapping[str, Score]) -> Rebuilt:
    """The changes that a rebuild of the pool with these keys would make at this moment."""
    key = connection.ops.quote_name("key")
    jobs = f"{table(Job)}{force_index('job_claim')}"
    rows = fetch_each(
        (
            f"SELECT {key}, order_key, status FROM {jobs} WHERE status = '{each}' AND type = %s",
            [pool.name],
        )
        for each in t.OPEN
    )
    seen = Rebuilt(added=len(items))
    for name, place, status in rows:
        if name not in items:
            seen.withdrawn += status != t.RUNNING
            continue
        seen.added -= 1
        if status == t.RUNNING:
            seen.held += 1
        elif place == score_key(items[name]):
            seen.unchanged += 1
        else:
            seen.moved += 1
    return seen
