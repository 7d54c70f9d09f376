"""The register of workers: alive, lost and gone ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.db import repeatable, transactional
from apps.common.rows import ensure_row
from apps.jobs.conf import conf
from apps.jobs.models import Worker
from apps.jobs.rules.explain import Server
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.journal import services as journal
from apps.journal.models import Source

KEPT = timedelta(days=1)
MAX_REMOVED = 500
MAX_HOSTS = 2_000
# Why a worker counts as lost.
NO_HEARTBEAT = "it sent no heartbeat"
PROCESS_GONE = "its process is gone"
# The rescue asks for their jobs for this long; by then every lease has expired.
_REMEMBERED = timedelta(hours=1)
_LIVING = (Worker.State.ACTIVE, Worker.State.DRAINING)


@transactional
def register(
    *,
    name: str,
    host: str,
    node: str = "",
    machine: str = "",
    pid: int = 0,
    kind: str = Worker.Kind.CELERY,
    lanes: Collection[str] = (),
    types: Collection[str] = (),
    capacity: int = 1,
) -> None:
    """Register a worker, or register it again after it counted as lost."""
    now = clock.now()
    row: dict[str, Any] = {
        "host": host,
        "node": node,
        "machine": machine,
        "pid": pid,
        "kind": kind,
        "state": Worker.State.ACTIVE,
        "lanes": sorted(lanes),
        "types": sorted(types),
        "capacity": capacity,
        "drains": {},
        "running": 0,
        # Only workers over HTTP have one of their own.
        "version": "",
        "started_at": now,
        "last_heartbeat_at": now,
    }
    ensure_row(Worker, ["name"], {"name": name, **row})
    Worker.objects.filter(name=name).update(**row)
    _write_entries([name], "registered", now)


@repeatable
def beat(
    *,
    name: str,
    drains: Mapping[str, int],
    running: int,
    types: Collection[str] = (),
    stopping: bool = False,
) -> bool:
    """Update a live worker's row; False when it has to register again."""
    state = Worker.State.DRAINING if stopping else Worker.State.ACTIVE
    return bool(
        Worker.objects.filter(name=name, state__in=_LIVING).update(
            last_heartbeat_at=clock.now(),
            state=state,
            drains=dict(drains),
            running=running,
            types=sorted(types),
        )
    )


@transactional
def leave(*, name: str) -> None:
    """The worker ends; jobs that it still holds are rescued at once."""
    _go([name], "left", clock.now())


@transactional
def lose(*, names: Collection[str], reason: str) -> int:
    """Mark workers as lost: their jobs are rescued at once. Returns how many were alive before."""
    return _go(names, "lost", clock.now(), reason)


def _go(names: Collection[str], event: str, now: datetime, reason: str = "") -> int:
    # Locked in the order of their ids, so that two processes that find the same workers wait for
    # each other and do not deadlock.
    living = Worker.objects.filter(name__in=names, state__in=_LIVING)
    pks = sorted(living.values_list("pk", flat=True))
    locked = living.filter(pk__in=pks).select_for_update().order_by("pk")
    gone = dict(locked.values_list("pk", "name"))
    Worker.objects.filter(pk__in=gone).update(state=Worker.State.GONE, drains={}, running=0)
    _write_entries(sorted(gone.values()), event, now, reason)
    return len(gone)


def lose_overdue(*, now: datetime) -> int:
    """Mark workers without a heartbeat for JOB_WORKER_SILENCE as lost; returns how many."""
    overdue = Worker.objects.filter(
        state__in=_LIVING, last_heartbeat_at__lte=now - conf.JOB_WORKER_SILENCE
    ).values_list("name", flat=True)[:MAX_REMOVED]
    names = list(overdue)
    return lose(names=names, reason=NO_HEARTBEAT) if names else 0


@repeatable
def forget_gone(*, now: datetime) -> int:
    """Remove the rows of workers that ended a day ago; returns how many."""
    old = Worker.objects.filter(
        state=Worker.State.GONE, last_heartbeat_at__lte=now - KEPT
    ).values_list("pk", flat=True)[:MAX_REMOVED]
    ids = list(old)
    return Worker.objects.filter(pk__in=ids).delete()[0] if ids else 0


def _write_entries(names: Sequence[str], event: str, now: datetime, reason: str = "") -> None:
    if not names:
        return
    numbers = dict(Worker.objects.filter(name__in=names).values_list("name", "pk"))
    journal.write(
        [
            journal.Entry(
                at=now,
                source=Source.WORKER,
                subject_id=numbers[name],
                event=event,
                worker=name,
                reason=reason,
            )
            for name in names
        ]
    )


# --- who is there ---------------------------------------------------------------------------------
def alive(now: datetime) -> list[Worker]:
    """The workers with a recent heartbeat, by name."""
    return list(
        Worker.objects.filter(
            state__in=_LIVING, last_heartbeat_at__gt=now - conf.JOB_WORKER_SILENCE
        ).order_by("name")
    )


def gone_workers(now: datetime) -> list[str]:
    """The names of workers that left or were lost in the last hour."""
    return list(
        Worker.objects.filter(
            state=Worker.State.GONE, last_heartbeat_at__gt=now - _REMEMBERED
        ).values_list("name", flat=True)[:MAX_REMOVED]
    )


def registered() -> list[Worker]:
    """The workers that have not gone, lost ones included, by name."""
    return list(Worker.objects.filter(state__in=_LIVING).order_by("name"))


def is_lost(worker: Worker, now: datetime) -> bool:
    """Whether its heartbeat is overdue."""
    silence = now - worker.last_heartbeat_at
    return worker.state != Worker.State.GONE and silence >= conf.JOB_WORKER_SILENCE


def active_workers(now: datetime) -> list[Worker]:
    """The workers that take jobs now, by name."""
    return [worker for worker in alive(now) if worker.state == Worker.State.ACTIVE]


def hosts() -> list[str]:
    """The hosts of registered workers, by name."""
    rows = Worker.objects.filter(state__in=_LIVING).order_by()
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
