"""Why a job is not running, from what is in the database now."""

from __future__ import annotations

from apps.common import clock
from apps.common.reasons import Reason
from apps.jobs.models import Job, JobType, TypeState, Worker
from apps.jobs.rules import breaker
from apps.jobs.rules import transitions as t
from apps.jobs.rules.explain import MAX_AHEAD, Case, Server, reasons

MAX_COUNTED = 1000
MAX_WORKERS = 1000


def explain(job: Job) -> list[Reason]:
    """All that keeps the job from running; one that waits in turn learns how many come first."""
    now = clock.now()
    job_type = JobType.objects.filter(name=job.type).first()
    state = TypeState.objects.filter(type=job.type).first()
    waits = job.status in t.WAITING
    case = Case(
        status=job.status,
        type=job.type,
        worker=job.worker,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        last_end=job.last_end,
        run_at=job.run_at,
        expected_at=job.expected_at,
        affinity_host=job.affinity_host,
        affinity_until=job.affinity_until,
        policy=None if job_type is None else job_type.policy,
        pause_reason="" if job_type is None else job_type.pause_reason,
        breaker=breaker.BreakerState() if state is None else state.breaker_state,
        running=_running(job_type) if waits else 0,
        tokens=None if state is None else state.tokens,
        filled_at=None if state is None else state.filled_at,
        workers=_workers() if waits else [],
        ahead=_ahead(job) if waits else 0,
    )
    return reasons(case, now)


def _running(job_type: JobType | None) -> int:
    """How many jobs of a limited type run, counted no further than its limit can be told."""
    if job_type is None or not job_type.policy.is_limited:
        return 0
    running = Job.objects.filter(status=t.RUNNING, type=job_type.name).order_by()
    most = max(MAX_COUNTED, (job_type.max_running or 0) + 1)
    return len(running.values_list("pk", flat=True)[: min(most, 10 * MAX_COUNTED)])


def _ahead(job: Job) -> int:
    """How many ready jobs of its type and host come before it, in the order of the claim index."""
    if job.status != t.READY:
        return 0
    ready = Job.objects.filter(status=t.READY, type=job.type, affinity_host=job.affinity_host)
    first = ready.filter(order_key__lt=job.order_key).order_by("order_key")
    count = len(first.values_list("pk", flat=True)[:MAX_AHEAD])
    if count < MAX_AHEAD:
        level = ready.filter(order_key=job.order_key, pk__lt=job.pk).order_by("pk")
        count += len(level.values_list("pk", flat=True)[: MAX_AHEAD - count])
    return count


def _workers() -> list[Server]:
    """Those that live: a silent one is soon marked as gone."""
    live = Worker.objects.exclude(state=Worker.State.GONE).order_by()
    rows = live.values_list("host", "types", "lanes")[:MAX_WORKERS]
    return [
        Server(host=host, types=frozenset(types), lanes=frozenset(lanes))
        for host, types, lanes in rows
    ]
