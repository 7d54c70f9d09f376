"""Why a job is not running: all that stands in its way, and when that could change."""

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
PAUSED = "paused"
BREAKER_OPEN = "breaker_open"
BREAKER_PROBING = "breaker_probing"
MAX_RUNNING = "max_running"
RATE = "rate"
NO_WORKER = "no_worker"
HOST = "host"
AFFINITY = "affinity"
ALONE = "alone"
AHEAD = "ahead"
NEXT = "next"

CODES = (
    RUNNING,
    FINISHED,
    NO_TYPE,
    ATTEMPTS_USED,
    EXPIRED,
    SCHEDULED,
    PAUSED,
    BREAKER_OPEN,
    BREAKER_PROBING,
    MAX_RUNNING,
    RATE,
    NO_WORKER,
    HOST,
    AFFINITY,
    ALONE,
    AHEAD,
    NEXT,
)
# Of the jobs that come first no more are counted.
MAX_AHEAD = 100


@dataclass(frozen=True, kw_only=True)
class Server:
    """A live worker: where it is, and what it can hold. Without lanes it holds of any."""

    host: str
    types: frozenset[str]
    lanes: frozenset[str]

    def serves(self, policy: TypeSnapshot) -> bool:
        return policy.name in self.types and (not self.lanes or policy.lane in self.lanes)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job and what decides about it. `policy` None: its type is gone. `ahead`: how many ready
    jobs of its type come first, counted up to MAX_AHEAD."""

    status: str
    type: str
    worker: str
    attempts: int
    max_attempts: int
    last_end: str
    run_at: datetime
    expected_at: datetime
    affinity_host: str
    affinity_until: datetime | None
    policy: TypeSnapshot | None
    pause_reason: str
    breaker: breaker.BreakerState
    running: int
    tokens: float | None
    filled_at: datetime | None
    workers: Sequence[Server]
    ahead: int


def reasons(case: Case, now: datetime) -> list[Reason]:
    """What keeps the job from running, the most final first; at least one."""
    if case.status == t.RUNNING:
        return [Reason(RUNNING, _("The worker {worker} runs it.", worker=case.worker))]
    if case.status in t.FINAL:
        return [Reason(FINISHED, _("It has ended as {status}.", status=Message(case.status)))]
    if case.policy is None:
        return [
            Reason(
                NO_TYPE,
                _(
                    "There is no type {type} any more; make it again or cancel the job.",
                    type=case.type,
                ),
            )
        ]
    found = [
        *_over(case, case.policy, now),
        *_waits(case, now),
        *_held_back(case, case.policy, now),
        *_unserved(case, case.policy),
    ]
    return found or list(_in_turn(case))


def _over(case: Case, policy: TypeSnapshot, now: datetime) -> Iterator[Reason]:
    if case.attempts >= case.max_attempts:
        yield Reason(
            ATTEMPTS_USED,
            _(
                "{attempts} of {most} attempts are used; it will be ended as failed.",
                attempts=case.attempts,
                most=case.max_attempts,
            ),
        )
    expiry = policy.expires_at(case.expected_at)
    if expiry is not None and now >= expiry:
        yield Reason(
            EXPIRED,
            _("It expired at {at}; it will be ended as failed.", at=expiry),
        )


def _waits(case: Case, now: datetime) -> Iterator[Reason]:
    if case.status == t.SCHEDULED:
        yield Reason(
            SCHEDULED,
            _("It waits for its time, {at}.", at=case.run_at),
            until=max(case.run_at, now),
        )


def _held_back(case: Case, policy: TypeSnapshot, now: datetime) -> Iterator[Reason]:
    """The protections of the type."""
    if policy.is_paused(now):
        yield Reason(
            PAUSED,
            _("The type {type} is paused: {reason}", type=case.type, reason=case.pause_reason),
            until=policy.paused_until,
        )
    state = breaker.at(policy.breaker, case.breaker, now)
    if state.state == breaker.OPEN:
        opened = state.since or now
        yield Reason(
            BREAKER_OPEN,
            _("Too many jobs of type {type} failed, so none is tried for a while.", type=case.type),
            until=opened + timedelta(seconds=policy.breaker.open_seconds),
        )
    elif state.state == breaker.HALF_OPEN and case.running:
        yield Reason(
            BREAKER_PROBING,
            _("After many failures of type {type} one job at a time is tried.", type=case.type),
        )
    if policy.max_running is not None and case.running >= policy.max_running:
        yield Reason(
            MAX_RUNNING,
            _(
                "Of type {type} {running} jobs are running, and {most} may.",
                type=case.type,
                running=case.running,
                most=policy.max_running,
            ),
        )
    if policy.rate_per_minute is not None:
        yield from _too_fast(case, policy.rate_per_minute, now)


def _too_fast(case: Case, per_minute: int, now: datetime) -> Iterator[Reason]:
    missing = 1 - rate.tokens_at(per_minute, case.tokens, case.filled_at, now)
    if per_minute and missing <= 0:
        return
    yield Reason(
        RATE,
        _(
            "Of type {type} {most} jobs may begin in a minute, spread evenly; the next one "
            "has to wait.",
            type=case.type,
            most=per_minute,
        ),
        until=now + timedelta(minutes=missing / per_minute) if per_minute else None,
    )


def _unserved(case: Case, policy: TypeSnapshot) -> Iterator[Reason]:
    hosts = {server.host for server in case.workers if server.serves(policy)}
    if not hosts:
        yield Reason(
            NO_WORKER,
            _(
                "No live worker takes jobs of type {type} in the lane {lane}.",
                type=case.type,
                lane=policy.lane,
            ),
        )
    elif not any(policy.serves(host) for host in hosts):
        yield Reason(
            HOST,
            _(
                "Its type runs on {hosts} only, and no worker that takes it is there.",
                hosts=", ".join(policy.allowed_hosts),
            ),
        )
    if case.affinity_host:
        yield Reason(
            AFFINITY,
            _("Only a worker on {host} may take it now.", host=case.affinity_host),
            until=case.affinity_until,
        )


def _in_turn(case: Case) -> Iterator[Reason]:
    if case.last_end == t.END_LOST or case.max_attempts == 1:
        yield Reason(
            ALONE,
            _("A worker takes it when it can run it alone, for it may be dangerous."),
        )
    if case.ahead >= MAX_AHEAD:
        yield Reason(
            AHEAD,
            _("{count} or more jobs of its type come first.", count=case.ahead),
        )
    elif case.ahead:
        yield Reason(AHEAD, _("{count} jobs of its type come first.", count=case.ahead))
    else:
        yield Reason(NEXT, _("Nothing stands in its way; the next free worker takes it."))
