"""The workers that are there, and the types that they serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Q

from apps.common.db import fetch, placeholders, table, written
from apps.common.ids import lowest_id_at
from apps.jobs.conf import conf
from apps.jobs.models import Worker
from apps.jobs.rules.explain import Server
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.counts import types_with_ready
from apps.jobs.services.register import LEFT, LIVING, LOST, MAX_REMOVED, WorkerKey
from apps.journal.models import Source
from apps.journal.services.undo import last_entries

MAX_HOSTS = 2_000
# How long a worker that was lost is missed.
MISSED_FOR = timedelta(hours=1)
# The rescue asks for their jobs for this long; by then every lease has expired.
_REMEMBERED = timedelta(hours=1)


def alive(now: datetime) -> list[Worker]:
    """The workers with a recent heartbeat or call, by name.

    Asked some times a second on an idle machine: Django takes three times as long to write the SQL
    as to run it.
    """
    there = Worker.objects.raw(
        f"SELECT * FROM {table(Worker)} WHERE state IN ({placeholders(len(LIVING))}) "
        "AND last_heartbeat_at > %s ORDER BY name",
        [*(state.value for state in LIVING), written(now - conf.JOB_WORKER_SILENCE)],
    )
    return list(there)


def gone_workers(now: datetime) -> list[WorkerKey]:
    """The workers that left or were lost in the last hour, and whose jobs nobody works on.

    A worker that promised no heartbeats may still be working.
    """
    gone = fetch(
        f"SELECT client, name FROM {table(Worker)} "
        "WHERE state = %s AND promises_beats = %s AND last_heartbeat_at > %s LIMIT %s",
        [Worker.State.GONE.value, True, now - _REMEMBERED, MAX_REMOVED],
    )
    return [WorkerKey(*key) for key in gone]


def outsiders(now: datetime) -> int:
    """How many workers over HTTP are there."""
    return Worker.objects.filter(
        kind=Worker.Kind.HTTP,
        state__in=LIVING,
        last_heartbeat_at__gt=now - conf.JOB_WORKER_SILENCE,
    ).count()


def registered(now: datetime) -> list[Worker]:
    """The workers that have not gone, and those that went within MISSED_FOR, by name."""
    lately = Q(state__in=LIVING) | Q(last_heartbeat_at__gt=now - MISSED_FOR)
    return list(Worker.objects.filter(lately).order_by("name"))


def missed(workers: Iterable[Worker], now: datetime) -> list[Worker]:
    """Those of the workers that are lost and on whose host nobody is there; one without a host is
    missed while its API key has no other. A sweep counts their jobs as lost within seconds, but
    that they are missing is still wrong."""
    there = {_place(each) for each in workers if is_there(each, now)}
    gone = [each for each in workers if each.state == Worker.State.GONE]
    gone = [each for each in gone if _place(each) not in there]
    lost = _lost([each.pk for each in gone], now - MISSED_FOR)
    return [each for each in workers if is_lost(each, now) or each.pk in lost]


def _place(worker: Worker) -> str:
    return worker.host or f"of {worker.client}"


def _lost(numbers: Sequence[int], since: datetime) -> set[int]:
    """Those of the workers that have gone since an instant which did not leave by themselves."""
    of = {"event__in": (LEFT, LOST), "pk__gte": lowest_id_at(since)}
    last = last_entries(Source.WORKER, numbers, of) if numbers else {}
    return {number for number, entry in last.items() if entry.event == LOST}


def offline(now: datetime) -> Q:
    """The workers that pages call offline, as `is_there` and `is_lost` say it of one: those that
    left, that are missed, and that do not call though they take work."""
    is_silent = Q(last_heartbeat_at__lte=now - conf.JOB_WORKER_SILENCE)
    is_away = is_silent & Q(state=Worker.State.ACTIVE, is_quiet=False)
    return Q(state=Worker.State.GONE) | is_silent & Q(promises_beats=True) | is_away


def is_there(worker: Worker, now: datetime) -> bool:
    """Whether it has not left, and was heard of lately."""
    silence = now - worker.last_heartbeat_at
    return worker.state != Worker.State.GONE and silence < conf.JOB_WORKER_SILENCE


def is_lost(worker: Worker, now: datetime) -> bool:
    """Whether its heartbeat is overdue; never for one that promises none."""
    has_stayed = worker.state != Worker.State.GONE and worker.promises_beats
    return has_stayed and not is_there(worker, now)


def active_workers(now: datetime) -> list[Worker]:
    """The workers that take jobs now, by name."""
    return [worker for worker in alive(now) if takes_jobs(worker)]


def takes_jobs(worker: Worker) -> bool:
    """Whether a worker that is there takes new jobs: it is neither stopping nor quiet."""
    return worker.state == Worker.State.ACTIVE and not worker.is_quiet


def hosts() -> list[str]:
    """The hosts of registered workers, by name."""
    rows = Worker.objects.filter(state__in=LIVING).order_by()
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
    return Server(
        host=worker.host,
        types=frozenset(worker.types),
        lanes=frozenset(worker.lanes),
        is_outside=worker.kind == Worker.Kind.HTTP,
        is_quiet=worker.is_quiet,
    )


def serves(worker: Worker, type_: TypeSnapshot) -> bool:
    """Whether the worker can hold jobs of the type."""
    return server_of(worker).serves(type_) and type_.serves(worker.host)


def hosts_serving(type_: TypeSnapshot, now: datetime) -> list[str]:
    """The hosts, by name, where a worker is there that can hold jobs of the type."""
    found = {worker.host for worker in alive(now) if serves(worker, type_)}
    return sorted(found - {""})


def unserved(types: Iterable[TypeSnapshot], workers: Iterable[Worker]) -> list[TypeSnapshot]:
    """The types that none of the workers can hold jobs of."""
    servers = {server_of(worker) for worker in workers}
    return [
        each for each in types if not any(s.serves(each) and each.serves(s.host) for s in servers)
    ]


def missing(
    types: Iterable[TypeSnapshot],
    workers: Iterable[Worker],
    *,
    ready: Mapping[str, int] | None = None,
) -> list[TypeSnapshot]:
    """The types that lack a worker: the unserved ones, but those without a handler only while a
    job of theirs is ready; `ready` are the counts of those jobs if they are known. Workers over
    HTTP may come and go with their work."""
    idle = unserved(types, workers)
    names = [each.name for each in idle if not each.handler]
    asked = types_with_ready(names) if ready is None else {n for n in names if ready.get(n)}
    return [each for each in idle if each.handler or each.name in asked]
