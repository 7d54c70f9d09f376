"""The register of workers: who comes, goes, is lost, made quiet and resumed."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.db import fetch, instant, placeholders, repeatable, table, transactional
from apps.common.errors import Conflict, NotFound, Throttled
from apps.common.messages import Message as _
from apps.common.rows import ensure_row
from apps.common.tidy import remove
from apps.jobs.conf import conf
from apps.jobs.models import Worker
from apps.jobs.rules import reasons
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal import services as journal
from apps.journal.models import Source

KEPT = timedelta(days=7)
MAX_REMOVED = 500
# How often a registered worker sends a heartbeat.
BEAT_SECONDS = 5.0
# How long the known state of a worker over HTTP is kept, and for how many workers.
TOUCH_SECONDS = 5.0
MAX_SEEN = 10_000
# A worker that promises no heartbeats is forgotten when it has not called for so long.
_UNHEARD = timedelta(hours=1)
_PLAIN: dict[str, Any] = {
    **{"node": "", "machine": "", "pid": 0, "capacity": 1, "running": 0},
}
# The events of workers that have gone: by themselves, or because nobody heard of them.
LEFT, LOST = "left", "lost"
# The states of workers that have not left.
LIVING = (Worker.State.ACTIVE, Worker.State.DRAINING)


class WorkerKey(NamedTuple):
    """The key of a worker: its API key, "" in-house, and its own name."""

    client: str
    name: str


@transactional
def register(
    *,
    name: str,
    host: str,
    client: str = "",
    node: str = "",
    machine: str = "",
    pid: int = 0,
    kind: str = Worker.Kind.CELERY,
    lanes: Collection[str] = (),
    types: Collection[str] = (),
    capacity: int = 1,
    version: str = "",
) -> Worker:
    """Register a worker, or register it again after it counted as lost.

    A worker that was quiet stays so until an operator resumes it. Throttled when its client has
    JOB_WORKERS_PER_KEY others.
    """
    now = clock.now()
    if client and not _has_place(WorkerKey(client, name), now):
        raise no_place(client)
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
        "promises_beats": True,
        # Only workers over HTTP have a version of their own.
        "version": version,
        "started_at": now,
        "last_heartbeat_at": now,
    }
    key = WorkerKey(client, name)
    ensure_row(
        Worker, ["client", "name"], {"client": client, "name": name, "is_quiet": False, **row}
    )
    Worker.objects.filter(client=client, name=name).update(**row)
    worker = Worker.objects.get(client=client, name=name)
    _write_entries({worker.pk: key}, "registered", now)
    return worker


@repeatable
def beat(
    *,
    name: str,
    drains: Mapping[str, int],
    running: int,
    client: str = "",
    types: Collection[str] | None = None,
    stopping: bool = False,
) -> Worker | None:
    """Update a live worker's row; None when it has to register again.

    `types` None: they are the same as before.
    """
    state = Worker.State.DRAINING if stopping else Worker.State.ACTIVE
    changes: dict[str, Any] = {} if types is None else {"types": sorted(types)}
    row = Worker.objects.filter(client=client, name=name, state__in=LIVING, promises_beats=True)
    changed = row.update(
        last_heartbeat_at=clock.now(),
        state=state,
        drains=dict(drains),
        running=running,
        **changes,
    )
    return row.first() if changed else None


class CallingWorker(NamedTuple):
    """The state of a worker over HTTP that has just called."""

    is_quiet: bool
    promises_beats: bool
    # A worker without a place gets no new jobs; its reports of earlier jobs count.
    has_place: bool = True


# The latest calls of workers over HTTP: until when an entry is valid on the monotonic clock, the
# types that the row lists, and the answer.
_seen: dict[WorkerKey, tuple[float, frozenset[str], CallingWorker]] = {}


def touch(
    *,
    client: str,
    name: str,
    host: str = "",
    types: Collection[str] | None = None,
    version: str = "",
) -> CallingWorker:
    """Note a call of a worker over HTTP, registered or not, at most once in TOUCH_SECONDS.

    `types` are the types that the worker asks for, None when it asks for none. A registered worker
    serves them beside the types that it registered, which name no pools. A worker with a `version`,
    the kind of program that asks for one type at a time, serves them beside its earlier ones. Any
    other serves the types of its latest hold, and the pools that it took keys of.

    A new worker is not noted and has no place if its client has JOB_WORKERS_PER_KEY others.
    """
    key = WorkerKey(client, name)
    asked = None if types is None else frozenset(types)
    until, listed, calling = _seen.get(key, (0.0, frozenset(), CallingWorker(False, False)))
    known = time.monotonic()
    adds = calling.promises_beats or bool(version)
    if known < until and _listed(listed, asked, adds=adds) == listed:
        return calling
    calling, listed = _touch(key, host, asked, version)
    if not calling.has_place:
        return calling
    if len(_seen) >= MAX_SEEN:
        _seen.clear()
    _seen[key] = known + TOUCH_SECONDS, listed, calling
    return calling


def _listed(listed: frozenset[str], asked: frozenset[str] | None, *, adds: bool) -> frozenset[str]:
    """The types to list of a worker when it asks for these; `adds`: besides those of before."""
    if asked is None:
        return listed
    types = type_snapshots()
    pools = {name for name in listed | asked if name in types and types[name].pool}
    return listed | asked if adds or asked <= pools else asked | pools


def forget_seen() -> None:
    """Read the rows of workers over HTTP at their next calls."""
    _seen.clear()


@repeatable
def _touch(
    key: WorkerKey, host: str, asked: frozenset[str] | None, version: str
) -> tuple[CallingWorker, frozenset[str]]:
    """The state of the worker now, and the types that its row lists."""
    now = clock.now()
    # This read is most of the cost of an idle worker; the ORM takes four times as long.
    rows = fetch(
        "SELECT state, host, types, version, is_quiet, promises_beats, last_heartbeat_at "
        f"FROM {table(Worker)} WHERE client = %s AND name = %s",
        key,
    )
    if (not rows or rows[0][0] == Worker.State.GONE) and not _has_place(key, now):
        return CallingWorker(is_quiet=False, promises_beats=False, has_place=False), frozenset()
    if not rows:
        new = {
            **key._asdict(),
            **{"host": host, "kind": Worker.Kind.HTTP, "state": Worker.State.ACTIVE},
            **{"lanes": [], "types": sorted(asked or ()), "drains": {}, "promises_beats": False},
            **{"is_quiet": False, "started_at": now, "last_heartbeat_at": now},
            "version": version,
        }
        ensure_row(Worker, ["client", "name"], {**_PLAIN, **new})
        return CallingWorker(is_quiet=False, promises_beats=False), asked or frozenset()
    [(state, known_host, known_types, known_version, is_quiet, promises_beats, seen_at)] = rows
    known = frozenset(json.loads(known_types))
    listed = _listed(known, asked, adds=bool(promises_beats or version))
    changes: dict[str, Any] = {}
    if now - instant(seen_at) >= conf.JOB_WORKER_SILENCE / 2:
        changes["last_heartbeat_at"] = now
    if state == Worker.State.GONE:
        changes |= {"state": Worker.State.ACTIVE, "last_heartbeat_at": now}
    if not promises_beats:
        # A registered worker has given these values itself.
        changes |= {"host": host} if host not in ("", known_host) else {}
        changes |= {"version": version} if version not in ("", known_version) else {}
    if listed != known:
        changes["types"] = sorted(listed)
    if changes:
        Worker.objects.filter(client=key.client, name=key.name).update(**changes)
    return CallingWorker(bool(is_quiet), bool(promises_beats)), listed


def _has_place(key: WorkerKey, now: datetime) -> bool:
    """Whether the worker is among those of its client, or may join them. Where all places are
    taken, those whose workers promise no heartbeats and are silent become free."""
    others = Worker.objects.filter(client=key.client, state__in=LIVING).exclude(name=key.name)
    if others.count() < conf.JOB_WORKERS_PER_KEY:
        return True
    silent = others.filter(
        promises_beats=False, last_heartbeat_at__lte=now - conf.JOB_WORKER_SILENCE
    )
    return silent.update(state=Worker.State.GONE) > 0


def no_place(client: str) -> Throttled:
    """The refusal of a worker that has no place."""
    text = _(
        "The key {client} has {most} workers already, by JOB_WORKERS_PER_KEY; let some leave, or "
        "use a name again.",
        client=client,
        most=conf.JOB_WORKERS_PER_KEY,
    )
    return Throttled(text, retry_after=conf.JOB_WORKER_SILENCE.total_seconds())


@transactional
def leave(*, name: str, client: str = "") -> None:
    """The worker ends; jobs that it still holds are rescued at once."""
    _go([WorkerKey(client, name)], LEFT, clock.now())


@transactional
def lose(*, workers: Collection[WorkerKey], reason: str) -> int:
    """Mark workers as lost: their jobs are rescued at once. Returns how many were alive before."""
    return _go(workers, LOST, clock.now(), reason)


def _go(keys: Collection[WorkerKey], event: str, now: datetime, reason: str = "") -> int:
    wanted = set(keys)
    # Locked in the order of their ids, so that two processes that find the same workers wait for
    # each other and do not deadlock.
    living = Worker.objects.filter(name__in={key.name for key in wanted}, state__in=LIVING)
    found = living.values_list("pk", "client", "name")
    pks = sorted(pk for pk, *key in found if WorkerKey(*key) in wanted)
    locked = living.filter(pk__in=pks).select_for_update().order_by("pk")
    gone = {pk: WorkerKey(*key) for pk, *key in locked.values_list("pk", "client", "name")}
    Worker.objects.filter(pk__in=gone).update(state=Worker.State.GONE, drains={}, running=0)
    _write_entries(gone, event, now, reason)
    return len(gone)


def lose_overdue(*, now: datetime) -> int:
    """Mark workers without a heartbeat for JOB_WORKER_SILENCE as lost; returns how many."""
    overdue = fetch(
        f"SELECT client, name FROM {table(Worker)} WHERE state IN ({placeholders(len(LIVING))}) "
        "AND promises_beats = %s AND last_heartbeat_at <= %s LIMIT %s",
        [*(each.value for each in LIVING), True, now - conf.JOB_WORKER_SILENCE, MAX_REMOVED],
    )
    keys = [WorkerKey(*key) for key in overdue]
    return lose(workers=keys, reason=reasons.NO_HEARTBEAT) if keys else 0


def forget_gone(now: datetime) -> int:
    """Remove the rows of workers that ended a week ago; returns how many.

    Those that promise no heartbeats and have not called for an hour end here.
    """
    unheard = Worker.objects.filter(
        state__in=LIVING, promises_beats=False, last_heartbeat_at__lte=now - _UNHEARD
    )
    unheard.update(state=Worker.State.GONE)
    return remove(Worker.objects.filter(state=Worker.State.GONE, last_heartbeat_at__lte=now - KEPT))


# --- what operators do ----------------------------------------------------------------------------
@transactional
def quiet(*, worker: Worker, actor: str, reason: str = "") -> Worker:
    """The worker takes nothing new from its next heartbeat on, and ends what it has.

    It stays so when it registers again. Conflict when it is gone.
    """
    current = _locked(worker)
    if current.state == Worker.State.GONE:
        raise Conflict(_("Worker {name} is offline; it takes nothing.", name=current.name))
    return _set_quiet(current, True, "quieted", actor, reason)


@transactional
def resume(*, worker: Worker, actor: str, reason: str = "") -> Worker:
    """A quiet worker takes jobs again from its next heartbeat on; a gone one when it is back."""
    return _set_quiet(_locked(worker), False, "resumed", actor, reason)


def _locked(worker: Worker) -> Worker:
    """The row, locked until this transaction ends."""
    current = Worker.objects.select_for_update().filter(pk=worker.pk).first()
    if current is None:
        raise NotFound(_("There is no worker {name} any more.", name=worker.name))
    return current


def _set_quiet(worker: Worker, is_quiet: bool, event: str, actor: str, reason: str) -> Worker:
    if worker.is_quiet != is_quiet:
        worker.is_quiet = is_quiet
        worker.save(update_fields=["is_quiet"])
        key = WorkerKey(worker.client, worker.name)
        _write_entries({worker.pk: key}, event, clock.now(), reason, actor)
    return worker


def _write_entries(
    workers: Mapping[int, WorkerKey], event: str, now: datetime, reason: str = "", actor: str = ""
) -> None:
    """Write the event of these workers, given by id, into the journal."""
    journal.write(
        [
            journal.Entry(
                at=now,
                source=Source.WORKER,
                subject_id=pk,
                event=event,
                worker=key.name,
                actor=actor,
                reason=reason,
            )
            for pk, key in sorted(workers.items())
        ]
    )
