"""Why a job is not running: every reason, and when it may change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from apps.common.messages import Message, Reason
from apps.common.messages import Message as _
from apps.jobs.rules import breaker, rate
from apps.jobs.rules import transitions as t
from apps.jobs.rules.type_snapshot import TypeSnapshot

RUNNING = "running"
FINISHED = "finished"
NO_TYPE = "no_type"
ATTEMPTS_USED = "attempts_used"
EXPIRED = "expired"
SCHEDULED = "scheduled"
LIMITED = "limited"
PAUSED = "paused"
BREAKER_OPEN = "breaker_open"
BREAKER_PROBING = "breaker_probing"
MAX_RUNNING = "max_running"
RATE = "rate"
NO_WORKER = "no_worker"
HOST = "host"
AFFINITY = "affinity"
AHEAD = "ahead"
NEXT = "next"
PREFERRED = "preferred"

CODES = (
    RUNNING,
    FINISHED,
    NO_TYPE,
    ATTEMPTS_USED,
    EXPIRED,
    SCHEDULED,
    LIMITED,
    PAUSED,
    BREAKER_OPEN,
    BREAKER_PROBING,
    MAX_RUNNING,
    RATE,
    NO_WORKER,
    HOST,
    AFFINITY,
    AHEAD,
    NEXT,
    PREFERRED,
)
# Jobs before it are counted up to this; each is a step in an index.
MAX_AHEAD = 1_000


@dataclass(frozen=True, kw_only=True)
class Server:
    """A worker: its host, and the types and lanes it runs; no lanes means any.

    One outside (over HTTP) runs whatever it lists. One in-house runs handlers, so it has nothing
    to run for a type without one. A quiet one takes nothing new.
    """

    host: str
    types: frozenset[str]
    lanes: frozenset[str]
    is_outside: bool = False
    is_quiet: bool = False

    def serves(self, type_: TypeSnapshot) -> bool:
        if type_.name not in self.types:
            return False
        runs_lane = not self.lanes or type_.lane in self.lanes
        return self.is_outside or (bool(type_.handler) and runs_lane)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job and what decides whether it runs. `settings` are those of its type, None if it is gone;
    `ahead` is the number of ready jobs of its type before it, counted up to MAX_AHEAD;
    `preferred_by` is the worker that takes it before those of other shards, "" if all are alike."""

    status: str
    type: str
    worker: str
    attempts: int
    max_attempts: int
    run_at: datetime
    expected_at: datetime
    affinity_host: str
    affinity_until: datetime | None
    settings: TypeSnapshot | None
    pause_reason: str
    breaker: breaker.BreakerState
    running: int
    probes: int
    tokens: float | None
    filled_at: datetime | None
    workers: Sequence[Server]
    ahead: int
    preferred_by: str = ""
    # Of a blocked job: the places of its key, the blocked ones before it, and when the rate allows
    # the next.
    taken: int = 0
    blocked_ahead: int = 0
    look_at: datetime | None = None


def reasons(case: Case, now: datetime) -> list[Reason]:
    """Why the job is not running: at least one reason, the most permanent one first."""
    if case.status == t.RUNNING:
        return [Reason(RUNNING, _("Worker {worker} is running it.", worker=case.worker))]
    if case.status in t.FINAL:
        return [Reason(FINISHED, _("The job has ended as {status}.", status=Message(case.status)))]
    if case.settings is None:
        return [
            Reason(
                NO_TYPE,
                _(
                    "The type {type} no longer exists. Create it again or cancel the job.",
                    type=case.type,
                ),
            )
        ]
    found = [
        *_over(case, case.settings, now),
        *_waits(case, now),
        *_limited(case, case.settings),
        *_held_back(case, case.settings, now),
        *_worker_reasons(case, case.settings),
    ]
    return found or list(_turn_reasons(case))


def _over(case: Case, type_: TypeSnapshot, now: datetime) -> Iterator[Reason]:
    if case.attempts >= case.max_attempts:
        yield Reason(
            ATTEMPTS_USED,
            _(
                "{attempts} of {max} tries are used. The job will end as failed.",
                attempts=case.attempts,
                max=case.max_attempts,
            ),
        )
    expiry = type_.expires_at(case.expected_at)
    if expiry is not None and now >= expiry:
        yield Reason(
            EXPIRED,
            _("The job expired at {at}. It will end as failed.", at=expiry),
        )


def _waits(case: Case, now: datetime) -> Iterator[Reason]:
    if case.status == t.SCHEDULED:
        yield Reason(
            SCHEDULED,
            _("The job is scheduled for {at}.", at=case.run_at),
            until=max(case.run_at, now),
        )


def _limited(case: Case, type_: TypeSnapshot) -> Iterator[Reason]:
    """The limit of its key."""
    limit = type_.key_limit
    if case.status != t.BLOCKED:
        return
    if limit is not None and limit.running is not None and case.taken >= limit.running:
        text = _(
            "{taken} of {max} jobs with the same {path} are ready or running; {ahead} are before "
            "this one.",
            taken=case.taken,
            max=limit.running,
            path=limit.by,
            ahead=case.blocked_ahead,
        )
        yield Reason(LIMITED, text)
        return
    if limit is not None and limit.per_minute is not None and case.look_at is not None:
        text = _(
            "At most {max} jobs with the same {path} start per minute; {ahead} are before this "
            "one.",
            max=limit.per_minute,
            path=limit.by,
            ahead=case.blocked_ahead,
        )
        yield Reason(LIMITED, text, until=case.look_at)
        return
    # The limit has been raised or removed, or the look after a commit was lost.
    text = _(
        "Its key has a free place, which is filled within a minute; {ahead} are before this one.",
        ahead=case.blocked_ahead,
    )
    yield Reason(LIMITED, text)


def _held_back(case: Case, type_: TypeSnapshot, now: datetime) -> Iterator[Reason]:
    """The protections of the type."""
    if type_.is_paused(now):
        yield Reason(
            PAUSED,
            _("The type {type} is paused: {reason}", type=case.type, reason=case.pause_reason),
            until=type_.paused_until,
        )
    state = breaker.at(type_.breaker, case.breaker, now)
    if state.state == breaker.OPEN:
        opened = state.since or now
        yield Reason(
            BREAKER_OPEN,
            _(
                "Too many jobs of type {type} failed. No job starts until the breaker tests one.",
                type=case.type,
            ),
            until=opened + timedelta(seconds=type_.breaker.open_seconds),
        )
    elif state.state == breaker.HALF_OPEN and case.probes:
        yield Reason(
            BREAKER_PROBING,
            _(
                "After many failures of type {type}, the breaker tests one job at a time.",
                type=case.type,
            ),
        )
    if type_.max_running is not None and case.running >= type_.max_running:
        yield Reason(
            MAX_RUNNING,
            _(
                "{running} jobs of type {type} are running, the maximum is {max}.",
                type=case.type,
                running=case.running,
                max=type_.max_running,
            ),
        )
    if type_.rate_per_minute is not None:
        yield from _too_fast(case, type_.rate_per_minute, now)


def _too_fast(case: Case, per_minute: int, now: datetime) -> Iterator[Reason]:
    missing = 1 - rate.tokens_at(per_minute, case.tokens, case.filled_at, now)
    if per_minute and missing <= 0:
        return
    yield Reason(
        RATE,
        _(
            "At most {max} jobs of type {type} start per minute, evenly spread. The next one "
            "has to wait.",
            type=case.type,
            max=per_minute,
        ),
        until=now + timedelta(minutes=missing / per_minute) if per_minute else None,
    )


def _worker_reasons(case: Case, type_: TypeSnapshot) -> Iterator[Reason]:
    serving = [server for server in case.workers if server.serves(type_)]
    hosts = {server.host for server in serving if not server.is_quiet}
    if not hosts:
        yield Reason(NO_WORKER, _no_worker(case, type_, is_quiet=bool(serving)))
    elif not any(type_.serves(host) for host in hosts):
        yield Reason(
            HOST,
            _(
                "The type runs only on {hosts}, where no worker runs it.",
                hosts=", ".join(type_.allowed_hosts),
            ),
        )
    if case.affinity_host:
        yield Reason(
            AFFINITY,
            _("Only a worker on {host} may run it now.", host=case.affinity_host),
            until=case.affinity_until,
        )


def _no_worker(case: Case, type_: TypeSnapshot, *, is_quiet: bool) -> Message:
    if is_quiet:
        return _(
            "All live workers that run jobs of type {type} are quiet. Resume one, or start "
            "another.",
            type=case.type,
        )
    if not type_.handler:
        return _(
            "No live worker runs jobs of type {type}. It has no handler: connect a worker over "
            "HTTP that lists it.",
            type=case.type,
        )
    return _(
        "No live worker runs jobs of type {type}. Start a worker with its handler for the "
        "speed class {lane}, or connect one over HTTP.",
        type=case.type,
        lane=type_.lane,
    )


def _turn_reasons(case: Case) -> Iterator[Reason]:
    if case.ahead >= MAX_AHEAD:
        yield Reason(
            AHEAD,
            _("{count} or more jobs of its type are before it.", count=case.ahead),
        )
    elif case.ahead:
        yield Reason(AHEAD, _("{count} jobs of its type are before it.", count=case.ahead))
    else:
        yield Reason(NEXT, _("The next free worker runs it."))
    if case.preferred_by:
        yield Reason(
            PREFERRED,
            _(
                "Worker {worker} prefers its shard. Any other worker may take it, too.",
                worker=case.preferred_by,
            ),
        )
