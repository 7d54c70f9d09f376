"""Which live workers serve which types."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from apps.common import clock
from apps.common.conf import conf
from apps.jobs.models import JobType, Worker
from apps.jobs.rules.explain import Server
from apps.jobs.rules.policy import TypePolicy
from apps.jobs.services.register import alive

MOST_HOSTS = 2_000


def is_silent(worker: Worker, now: datetime) -> bool:
    """Whether it should have given a sign of life, and has not."""
    silence = now - worker.last_heartbeat_at
    return worker.state != Worker.State.GONE and silence >= conf.JOB_WORKER_SILENCE


def is_live(worker: Worker, now: datetime) -> bool:
    """Whether it takes work now."""
    return worker.state == Worker.State.ACTIVE and not is_silent(worker, now)


def registered() -> list[Worker]:
    """Those that have not gone, by name, silent or not."""
    return list(Worker.objects.exclude(state=Worker.State.GONE).order_by("name"))


def live_workers() -> list[Worker]:
    """Those that take work now."""
    return [row for row in alive(clock.now()) if row.state == Worker.State.ACTIVE]


def serves(worker: Worker, policy: TypePolicy) -> bool:
    return _serves(_server(worker), policy)


def all_types() -> list[JobType]:
    """By name, and in full as the rules read them, but for what only forms do."""
    return list(JobType.objects.order_by("name").defer("params_schema"))


def unserved(types: Iterable[JobType], workers: Iterable[Worker]) -> list[JobType]:
    """Those of the types that none of the workers, which are live ones, takes."""
    servers = [_server(worker) for worker in workers]
    policies = ((made, made.policy) for made in types)
    return [made for made, policy in policies if not any(_serves(each, policy) for each in servers)]


def _server(worker: Worker) -> Server:
    return Server(host=worker.host, types=frozenset(worker.types), lanes=frozenset(worker.lanes))


def _serves(server: Server, policy: TypePolicy) -> bool:
    return server.serves(policy) and policy.serves(server.host)


def hosts() -> list[str]:
    """The hosts that registered workers are on, by name."""
    registered = Worker.objects.exclude(state=Worker.State.GONE).order_by()
    return sorted(registered.values_list("host", flat=True).distinct()[:MOST_HOSTS])
