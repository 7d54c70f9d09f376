"""Which live workers serve which types."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from apps.common import clock
from apps.common.conf import conf
from apps.common.db import fetch, instant, table
from apps.jobs.models import Worker
from apps.jobs.rules.explain import Server
from apps.jobs.rules.policy import TypePolicy
from apps.jobs.services.policies import KnownType
from apps.jobs.services.register import alive

MAX_HOSTS = 2_000


class Registered(NamedTuple):
    """A worker as the overview reads it; `types` and `lanes` are lists in JSON."""

    id: int
    name: str
    host: str
    kind: str
    state: str
    capacity: int
    running: int
    types: str
    lanes: str
    last_heartbeat_at: datetime


def is_silent(worker: Worker | Registered, now: datetime) -> bool:
    """Whether it should have given a sign of life, and has not."""
    silence = now - worker.last_heartbeat_at
    return worker.state != Worker.State.GONE and silence >= conf.JOB_WORKER_SILENCE


def is_live(worker: Worker | Registered, now: datetime) -> bool:
    """Whether it takes work now."""
    return worker.state == Worker.State.ACTIVE and not is_silent(worker, now)


def registered() -> list[Registered]:
    """Those that have not gone, by name, silent or not."""
    columns = ", ".join(Registered._fields)
    rows = fetch(
        f"SELECT {columns} FROM {table(Worker)} WHERE state <> %s ORDER BY name",
        [str(Worker.State.GONE)],
    )
    return [Registered._make((*row[:-1], instant(row[-1]))) for row in rows]


def live_workers() -> list[Worker]:
    """Those that take work now."""
    return [row for row in alive(clock.now()) if row.state == Worker.State.ACTIVE]


def serves(worker: Worker, policy: TypePolicy) -> bool:
    return _serves(_server(worker), policy)


def unserved(types: Iterable[KnownType], workers: Iterable[Worker | Registered]) -> list[KnownType]:
    """Those of the types that none of the workers, which are live ones, takes."""
    servers = {_server(worker) for worker in workers}
    return [each for each in types if not any(_serves(server, each.policy) for server in servers)]


def _server(worker: Worker | Registered) -> Server:
    if isinstance(worker, Registered):
        return _server_of(worker.host, worker.types, worker.lanes)
    return Server(host=worker.host, types=frozenset(worker.types), lanes=frozenset(worker.lanes))


@functools.lru_cache(maxsize=1024)
def _server_of(host: str, types: str, lanes: str) -> Server:
    """Of lists in JSON, which seldom change."""
    return Server(host=host, types=frozenset(json.loads(types)), lanes=frozenset(json.loads(lanes)))


def _serves(server: Server, policy: TypePolicy) -> bool:
    return server.serves(policy) and policy.serves(server.host)


def hosts() -> list[str]:
    """The hosts that registered workers are on, by name."""
    registered = Worker.objects.exclude(state=Worker.State.GONE).order_by()
    return sorted(registered.values_list("host", flat=True).distinct()[:MAX_HOSTS])
