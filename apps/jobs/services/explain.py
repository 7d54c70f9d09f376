"""Why a job is not running, from what is in the database now."""

from __future__ import annotations

from datetime import datetime

from apps.common import clock
from apps.common.masking import redact
from apps.common.messages import Reason
from apps.jobs.models import Job, JobType, TypeState, Worker
from apps.jobs.rules import breaker
from apps.jobs.rules import transitions as t
from apps.jobs.rules.explain import Case, Server, reasons
from apps.jobs.services.admission import key_position
from apps.jobs.services.counts import jobs_before
from apps.jobs.services.living import alive, server_of
from apps.jobs.services.protection import probes_of
from apps.jobs.services.slices import preferred_by

MAX_COUNTED = 1000


def explain(job: Job) -> list[Reason]:
    """Every reason why the job is not running, and how many jobs are before it."""
    now = clock.now()
    job_type = JobType.objects.filter(name=job.type).first()
    state = TypeState.objects.filter(type=job.type).first()
    waits = job.status in t.WAITING
    known = breaker.BreakerState() if state is None else state.breaker_state
    key = key_position(job)
    case = Case(
        status=job.status,
        type=job.type,
        worker=job.worker,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        run_at=job.run_at,
        expected_at=job.expected_at,
        affinity_host=job.affinity_host,
        affinity_until=job.affinity_until,
        settings=None if job_type is None else job_type.snapshot,
        pause_reason="" if job_type is None else str(redact(job_type.pause_reason)),
        breaker=known,
        running=_running(job_type) if waits else 0,
        probes=probes_of(job.type, known) if waits else 0,
        tokens=None if state is None else state.tokens,
        filled_at=None if state is None else state.filled_at,
        workers=_servers(now) if waits else [],
        ahead=jobs_before(job),
        preferred_by=preferred_by(job),
        **(key._asdict() if key else {}),
    )
    return reasons(case, now)


def _servers(now: datetime) -> list[Server]:
    """The live workers that take jobs, and the quiet ones."""
    return [server_of(each) for each in alive(now) if each.state == Worker.State.ACTIVE]


def _running(job_type: JobType | None) -> int:
    """The number of running jobs of a limited type, counted a little beyond its limit."""
    if job_type is None or not job_type.snapshot.is_limited:
        return 0
    running = Job.objects.filter(status=t.RUNNING, type=job_type.name).order_by()
    limit = max(MAX_COUNTED, (job_type.max_running or 0) + 1)
    return len(running.values_list("pk", flat=True)[: min(limit, 10 * MAX_COUNTED)])
