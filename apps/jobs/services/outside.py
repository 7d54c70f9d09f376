"""Workers over HTTP: what one request holds, settles and renews."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from itertools import count
from typing import Any, NamedTuple

from django.db import IntegrityError, connection
from django.db.models import DateTimeField

from apps.common import clock
from apps.common.db import fetch, instant, placeholders, table, time_text
from apps.common.errors import Invalid, NotFound, PlatformError
from apps.common.messages import Message as _
from apps.common.ttl_cache import TTLCache
from apps.jobs.handlers import registry
from apps.jobs.models import Job
from apps.jobs.rules.caller import Caller
from apps.jobs.rules.outcome import HeldJob, Outcome
from apps.jobs.rules.transitions import RUNNING, SCHEDULED
from apps.jobs.services import living, register
from apps.jobs.services.exchange import exchange
from apps.jobs.services.hold import Holder
from apps.jobs.services.recent_work import RecentWork
from apps.jobs.services.request import EarlierAnswer, Request
from apps.jobs.services.rescue import rescue_all_of
from apps.jobs.services.rows import ANSWER_BYTES
from apps.jobs.services.settle import settle
from apps.jobs.services.type_snapshots import type_snapshots

# The columns of a held job, as a worker over HTTP gets it: its times as texts.
HELD = (
    *("id", "type", "key", "user_id", "status", "stage", "priority", "run_at", "attempts"),
    *("max_attempts", "holds", "progress", "cancel_requested", "worker", "host", "held_at"),
    *("lease_until", "memo", "result", "created_at", "started_at", "finished_at", "trace_id"),
    *("version", "lease_token", "context", "checkpoint", "sequence", "hard_end_at"),
)
HELD_TIMES = frozenset(
    name for name in HELD if isinstance(Job._meta.get_field(name), DateTimeField)
)
_TYPE = HELD.index("type")
# All idle workers together ask this often in a second, and at most twice as often while something
# is about to be due; one of them waits so long at least and at most, give or take a quarter.
ASKS_PER_SECOND = 25
POLL_SECONDS = (0.2, 15.0)
_SPREAD = 0.25
_LOST_SECONDS = (0.02, 0.1)
# Longer than any attempt may take: the lease of a worker that promises no heartbeats.
_NO_BEATS = timedelta(days=31)
_KNOWN_SECONDS = 0.2
_LEAVE_TIME = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class HoldRequest:
    """A worker's request for jobs. `content` is the whole request that `request_id` names.

    `lease` is how long the worker wants to count as alive without a heartbeat, `version` is the
    known version of its program.
    """

    types: Sequence[str]
    limit: int
    host: str = ""
    lease: timedelta | None = None
    request_id: str = ""
    content: Mapping[str, Any] | None = None
    version: str = ""


class HoldAnswer(NamedTuple):
    """The answer to a hold over HTTP: the jobs that run under its token, as rows of HELD.

    `unknown` are the types that the caller may not hold, and pools. The caller may ask again after
    `retry_after` seconds.
    """

    rows: Sequence[tuple[Any, ...]]
    unknown: Sequence[str]
    retry_after: float


def hold_for(caller: Caller, worker: str, request: HoldRequest) -> HoldAnswer:
    """Hold jobs for a worker. A repeated request gets those of its jobs that still run.

    When it may hold none of the types, Invalid if one is a pool, else NotFound.
    """
    known = _known_types(caller, request)
    if not known:
        pool = next(
            (name for name in request.types if _is_pool(name) and caller.may_use(name)), None
        )
        if pool:
            raise Invalid.field(
                "types",
                _("{name} is a pool; take its keys at /api/v1/pools/{name}/assign/.", name=pool),
            )
        names = ", ".join(map(repr, request.types))[:200]
        raise NotFound(_("This key sees no job type {names}.", names=names))
    return _Hold(caller, worker, request, known).exchange(())[1]


def settle_and_hold(
    caller: Caller, worker: str, outcomes: Sequence[Outcome], request: HoldRequest
) -> tuple[list[str | PlatformError], HoldAnswer]:
    """Settle what has ended and hold what is next, in one transaction if that succeeds.

    The outcomes are settled whatever becomes of the hold.
    """
    return _Hold(caller, worker, request, _known_types(caller, request)).exchange(outcomes)


def _known_types(caller: Caller, request: HoldRequest) -> list[str]:
    """The types that exist and that the caller may use.

    Pools are left out: their jobs are keys, which `assign` hands to buckets. So are types whose
    jobs only code submits: they run in-house only.
    """
    types = type_snapshots()
    if any(name not in types for name in request.types):
        # A worker may be started before its types are made.
        types = type_snapshots(max_age=_KNOWN_SECONDS)
    return [
        name
        for name in request.types
        if name in types
        and not types[name].pool
        and not registry.is_closed(name, types[name].handler)
        and caller.may_use(name)
    ]


def _is_pool(name: str) -> bool:
    found = type_snapshots().get(name)
    return found is not None and found.pool


class _Hold:
    """One request of a worker for jobs of known types."""

    def __init__(
        self, caller: Caller, worker: str, request: HoldRequest, known: Sequence[str]
    ) -> None:
        self._wanted = request
        self._known = known
        self._caller = caller
        self._calling = register.touch(
            client=caller.client,
            name=worker,
            host=request.host,
            types=known,
            version=request.version,
        )
        # Without promised heartbeats, nothing but the deadline of the attempt can end it.
        unpromised = None if self._calling.promises_beats else _NO_BEATS
        self._holder = Holder(worker, request.host, caller.client, request.lease or unpromised)
        self._request = Request(caller.client, request.request_id, request.content)

    def exchange(
        self, outcomes: Sequence[Outcome], *, is_repeated: bool = False
    ) -> tuple[list[str | PlatformError], HoldAnswer]:
        """Throttled when the worker has neither a place in the register nor outcomes to settle."""
        if not (outcomes or self._calling.has_place):
            raise register.no_place(self._caller.client)
        earlier = self._request.earlier()
        if earlier is None and not self._takes_nothing:
            recent, rotation = _recent_work(frozenset(self._known), self._wanted.host)
            losses = recent.losses
            try:
                answers, jobs = exchange(
                    outcomes=outcomes,
                    caller=self._caller,
                    request=self._request if self._wanted.request_id else None,
                    holder=self._holder,
                    types=self._known,
                    limit=self._wanted.limit,
                    rotation=next(rotation),
                    recent=recent,
                    columns=_held_columns(),
                    max_bytes=ANSWER_BYTES,
                )
            except IntegrityError:
                # The same request was faster.
                earlier = self._request.earlier()
                if earlier is None and is_repeated:
                    raise
                if earlier is None:
                    # Its short leases are over by now, so it is no answer.
                    return self.exchange(outcomes, is_repeated=True)
            else:
                if jobs or not (earlier := self._request.earlier()):
                    return answers, self._answer(jobs, is_lost=recent.losses > losses)
                return answers, self._answer_again(earlier)
        return settle(outcomes=outcomes, caller=self._caller), self._answer_again(earlier)

    @property
    def _takes_nothing(self) -> bool:
        calling = self._calling
        return calling.is_quiet or not calling.has_place or not self._known

    def _answer(self, jobs: Sequence[HeldJob], *, is_lost: bool = False) -> HoldAnswer:
        """`is_lost`: other workers were faster, so there may be more."""
        wait = 0.0
        if not jobs:
            wait = random.uniform(*_LOST_SECONDS) if is_lost else retry_after()  # noqa: S311
        return HoldAnswer([tuple(job.row) for job in jobs], self._unknown, round(wait, 3))

    def _answer_again(self, earlier: EarlierAnswer | None) -> HoldAnswer:
        """The answer to a repeated request; empty for a worker that must take nothing."""
        if earlier is None:
            return self._answer([])
        # The key may have been bound to fewer types meanwhile.
        rows = [
            row for row in running(earlier.ids, earlier.token) if self._caller.may_use(row[_TYPE])
        ]
        return HoldAnswer(rows, self._unknown, 0.0)

    @property
    def _unknown(self) -> list[str]:
        return [name for name in self._wanted.types if name not in self._known]


def leave(caller: Caller, name: str) -> int:
    """The worker ends; returns how many jobs it still held, whose attempts have ended."""
    key = register.WorkerKey(caller.client, name)
    register.leave(client=key.client, name=key.name)
    return rescue_all_of(worker=key, until=clock.now() + _LEAVE_TIME)


@lru_cache(maxsize=1_000)
def _recent_work(types: frozenset[str], host: str) -> tuple[RecentWork, count[int]]:
    """The recent work of this process, for workers that ask for these types, and their rotation
    among the types."""
    return RecentWork(), count(random.randrange(1_000))  # noqa: S311


# --- when to ask again ----------------------------------------------------------------------------
# How long a worker should wait at least, and when the first scheduled job becomes due.
_poll: TTLCache[tuple[float, datetime | None]] = TTLCache(_KNOWN_SECONDS)


def retry_after() -> float:
    """The seconds after which a worker that got nothing should ask again."""
    now = clock.now()
    poll, due = _poll.get("", lambda: (_pause(now), _next_due()))
    if due is not None and (left := (due - now).total_seconds()) < poll:
        # From then on workers ask one after the other: it is one job, and any may have its type.
        return max(0.0, left) + random.uniform(0.0, poll)  # noqa: S311
    return poll * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311


def forget() -> None:
    """Look anew for every worker at its next call."""
    _poll.forget()
    _recent_work.cache_clear()


def _pause(now: datetime) -> float:
    least, most = POLL_SECONDS
    return min(most, max(least, living.outsiders(now) / ASKS_PER_SECOND))


def _next_due() -> datetime | None:
    """When the first scheduled job becomes due."""
    # A literal, without which SQLite would not use its partial index.
    rows = fetch(
        f"SELECT run_at FROM {table(Job)} WHERE status = '{SCHEDULED}' ORDER BY run_at LIMIT 1"
    )
    return instant(rows[0][0]) if rows else None


@cache
def _held_columns() -> dict[str, str]:
    """HELD, each with its SQL."""
    quoted = {name: connection.ops.quote_name(name) for name in HELD}
    return {name: time_text(q) if name in HELD_TIMES else q for name, q in quoted.items()}


def running(ids: Collection[int], token: str) -> list[tuple[Any, ...]]:
    """The jobs that run under the token, in the given order, as rows of HELD.

    The rows are as the driver reads them: the ORM takes ten times as long.
    """
    columns = ", ".join(_held_columns().values())
    rows = fetch(
        f"SELECT {columns} FROM {table(Job)} WHERE id IN ({placeholders(len(ids))}) "
        "AND status = %s AND lease_token = %s",
        [*ids, RUNNING, token],
    )
    found = {row[0]: row for row in rows}
    return [found[number] for number in ids if number in found]
