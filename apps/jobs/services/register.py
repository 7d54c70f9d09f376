"""The register of workers: who lives, who fell silent, who left."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from apps.common import clock
from apps.common.db import transactional
from apps.common.rows import ensure_row
from apps.jobs.conf import conf
from apps.jobs.models import Worker
from apps.journal import services as journal
from apps.journal.models import Source

KEPT = timedelta(days=1)
MAX_REMOVED = 500
# Why a worker counts as lost.
NO_HEARTBEAT = "it sent no heartbeat"
PROCESS_GONE = "its process is gone"
# Whose jobs are still looked for: later than this, leases have long told.
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
    """Enter a worker, or enter it anew after it was taken for dead."""
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
    _tell([name], "registered", now)


def beat(
    *,
    name: str,
    drains: Mapping[str, int],
    running: int,
    types: Collection[str] = (),
    stopping: bool = False,
) -> bool:
    """A sign of life, with what the worker does; False when it has to register again."""
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
    """The worker ends; what it should still hold is rescued at once."""
    _go([name], "left", clock.now())


@transactional
def lose(*, names: Collection[str], reason: str) -> int:
    """These workers are dead: their jobs are rescued at once. Returns how many were not known."""
    return _go(names, "lost", clock.now(), reason)


def _go(names: Collection[str], event: str, now: datetime, reason: str = "") -> int:
    # In one order for all, so that two who find the same dead do not lock each other out.
    gone = [
        name
        for name in sorted(names)
        if Worker.objects.filter(name=name, state__in=_LIVING).update(
            state=Worker.State.GONE, drains={}, running=0
        )
    ]
    _tell(gone, event, now, reason)
    return len(gone)


def lose_silent(*, now: datetime) -> int:
    """Take those for dead that have not beaten for JOB_WORKER_SILENCE; returns how many."""
    silent = Worker.objects.filter(
        state__in=_LIVING, last_heartbeat_at__lte=now - conf.JOB_WORKER_SILENCE
    ).values_list("name", flat=True)[:MAX_REMOVED]
    names = list(silent)
    return lose(names=names, reason=NO_HEARTBEAT) if names else 0


def alive(now: datetime) -> list[Worker]:
    """The workers that are believed to live, by name."""
    return list(
        Worker.objects.filter(
            state__in=_LIVING, last_heartbeat_at__gt=now - conf.JOB_WORKER_SILENCE
        ).order_by("name")
    )


def silent_workers(now: datetime) -> list[str]:
    """The names of workers that ended lately, in whatever way: what they hold is nobody's."""
    return list(
        Worker.objects.filter(
            state=Worker.State.GONE, last_heartbeat_at__gt=now - _REMEMBERED
        ).values_list("name", flat=True)[:MAX_REMOVED]
    )


def forget_gone(*, now: datetime) -> int:
    """Remove the rows of workers that ended a day ago; returns how many."""
    old = Worker.objects.filter(
        state=Worker.State.GONE, last_heartbeat_at__lte=now - KEPT
    ).values_list("pk", flat=True)[:MAX_REMOVED]
    ids = list(old)
    return Worker.objects.filter(pk__in=ids).delete()[0] if ids else 0


def _tell(names: Sequence[str], event: str, now: datetime, reason: str = "") -> None:
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
