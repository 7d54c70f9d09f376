"""Facts about workers, breakers and waiting jobs that pages, reports and metrics share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from apps.jobs.conf import conf
from apps.jobs.models import Job, TypeState, Worker
from apps.jobs.rules import breaker
from apps.jobs.rules import transitions as t
from apps.jobs.rules.explain import Server
from apps.jobs.rules.type_snapshot import TypeSnapshot

MAX_HOSTS = 2_000


# --- workers --------------------------------------------------------------------------------------
def registered() -> list[Worker]:
    """The workers that have not gone, lost ones included, by name."""
    return list(Worker.objects.exclude(state=Worker.State.GONE).order_by("name"))


def is_lost(worker: Worker, now: datetime) -> bool:
    """Whether its heartbeat is overdue."""
    silence = now - worker.last_heartbeat_at
    return worker.state != Worker.State.GONE and silence >= conf.JOB_WORKER_SILENCE


def takes_jobs(worker: Worker, now: datetime) -> bool:
    return worker.state == Worker.State.ACTIVE and not is_lost(worker, now)


def active_workers(now: datetime) -> list[Worker]:
    """The workers that take jobs now, by name."""
    return [worker for worker in registered() if takes_jobs(worker, now)]


def hosts() -> list[str]:
    """The hosts of registered workers, by name."""
    rows = Worker.objects.exclude(state=Worker.State.GONE).order_by()
    return sorted(rows.values_list("host", flat=True).distinct()[:MAX_HOSTS])


class Slots(NamedTuple):
    """How many jobs the in-house workers can run at once."""

    total: int
    free: int


def slots(workers: Iterable[Worker]) -> Slots:
    inside = [worker for worker in workers if worker.kind == Worker.Kind.CELERY]
    total = sum(worker.capacity for worker in inside)
    return Slots(total, total - sum(map(busy_slots, inside)))


def busy_slots(worker: Worker) -> int:
    """A slot with a batch of jobs counts once; a worker loop that waits for jobs leaves it free."""
    loops = sum(count for count in worker.drains.values() if isinstance(count, int))
    return min(worker.running, loops or worker.capacity)


def server_of(worker: Worker) -> Server:
    return Server(host=worker.host, types=frozenset(worker.types), lanes=frozenset(worker.lanes))


def serves(worker: Worker, type_: TypeSnapshot) -> bool:
    """Whether the worker can hold jobs of the type."""
    return server_of(worker).serves(type_) and type_.serves(worker.host)


def unserved(types: Iterable[TypeSnapshot], workers: Iterable[Worker]) -> list[TypeSnapshot]:
    """The types that none of the workers can hold jobs of."""
    servers = {server_of(worker) for worker in workers}
    return [
        each for each in types if not any(s.serves(each) and each.serves(s.host) for s in servers)
    ]


# --- breakers -------------------------------------------------------------------------------------
class BreakerNow(NamedTuple):
    """A breaker at this instant. `probe_at`: when an open one lets the first job through."""

    state: str
    probe_at: datetime | None
    calls: int
    failures: int


def breakers(types: Iterable[TypeSnapshot], now: datetime) -> dict[str, BreakerNow]:
    """The breakers of the types that have one, by type."""
    guarded = {each.name: each.breaker for each in types if each.breaker.enabled}
    if not guarded:
        return {}
    rows = TypeState.objects.filter(type__in=guarded)
    stored = {row.type: row.breaker_state for row in rows}
    found = {}
    for name, policy in guarded.items():
        state = breaker.at(policy, stored.get(name, breaker.BreakerState()), now)
        probe_at = None
        if state.state == breaker.OPEN and state.since is not None:
            probe_at = state.since + timedelta(seconds=policy.open_seconds)
        found[name] = BreakerNow(state.state, probe_at, state.calls, state.failures)
    return found


# --- waiting jobs ---------------------------------------------------------------------------------
def jobs_before(job: Job, *, limit: int) -> int:
    """How many ready jobs of its type and host are held before this one, counted up to `limit`.

    Two ranges of the claim index: lower order keys, then the same key with lower ids.
    """
    if job.status != t.READY:
        return 0
    ready = Job.objects.filter(status=t.READY, type=job.type, affinity_host=job.affinity_host)
    lower = ready.filter(order_key__lt=job.order_key).order_by("order_key")
    count = len(lower.values_list("pk", flat=True)[:limit])
    if count < limit:
        equal = ready.filter(order_key=job.order_key, pk__lt=job.pk).order_by("pk")
        count += len(equal.values_list("pk", flat=True)[: limit - count])
    return count
