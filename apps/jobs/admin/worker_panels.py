"""The jobs that workers run now, all of them or one, and the reason why one is quiet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import short_time, shown_actor, shown_text
from apps.common.admin.html import list_url, page_link
from apps.common.admin.pages import Panel
from apps.common.masking import redact
from apps.jobs.admin import job_fields, labels
from apps.jobs.admin.worker_links import WorkerLinks
from apps.jobs.models import Job, Worker
from apps.jobs.rules import transitions
from apps.jobs.services.running import running_ids
from apps.journal.models import JournalEntry, Source

MAX_SHOWN = 50
MAX_LISTED = 200
# How often the table above the list of workers renews itself.
LIVE_SECONDS = 5
RUNNING_URL = "admin:jobs_worker_running"
# People with limits see only jobs among the first of these.
MAX_READ = 1_000


def quiet_panel(worker: Worker) -> Panel:
    """The panel of a quiet worker: since when it takes nothing new, who made it quiet and why."""
    entries = JournalEntry.objects.timeline(Source.WORKER, worker.pk).filter(event="quieted")
    last = entries.order_by("-id").first()
    meaning = gettext("It takes nothing new, also after a restart. It ends what it has.")
    if worker.kind == Worker.Kind.CELERY:
        meaning = gettext("It takes nothing new and ends what it has. A new process is not quiet.")
    context = {
        "since": None if last is None else short_time(last.at),
        "actor": "" if last is None else shown_actor(last.actor),
        "reason": "" if last is None else shown_text(redact(last.reason)),
        "meaning": meaning,
    }
    return Panel("", render_to_string("admin/includes/worker_quiet.html", context))


class _Line(NamedTuple):
    number: int
    worker: SafeString | str
    job: SafeString
    type: SafeString
    key: str
    took: str
    progress: SafeString | None
    attempt: str
    deadline: str


def running_panel(worker: Worker, person: Any) -> Panel:
    """The jobs that it runs now, as far as the person sees them, longest running first."""
    jobs = _running(running_ids(MAX_READ, worker), person, MAX_SHOWN)
    context = {
        "lines": _lines(jobs[:MAX_SHOWN]),
        "more": len(jobs) > MAX_SHOWN,
        "running_url": jobs_url(worker, status=transitions.RUNNING),
        "all_url": jobs_url(worker),
    }
    html = render_to_string("admin/includes/worker_jobs.html", context)
    return Panel(_("Running now"), html)


def running_now(person: Any) -> dict[str, Any]:
    """The jobs of all workers, for the template above the list of workers."""
    jobs = _running(running_ids(MAX_READ), person, MAX_LISTED)
    return {
        "lines": _lines(jobs[:MAX_LISTED]),
        "more": len(jobs) > MAX_LISTED,
        "running_url": list_url(Job, status=transitions.RUNNING),
        "live_url": reverse(RUNNING_URL),
        "live_seconds": LIVE_SECONDS,
    }


def running_of(type_: str, person: Any, limit: int) -> dict[str, Any]:
    """The first `limit` jobs of one type that have run longest, for the page of the type."""
    jobs = _running(running_ids(MAX_READ, type_=type_), person, limit)
    return {
        "lines": _lines(jobs[:limit]),
        "more": len(jobs) > limit,
        "running_url": list_url(Job, type=type_, status=transitions.RUNNING),
    }


def running_view(request: HttpRequest, *, model_admin: Any) -> HttpResponse:
    """The running jobs above the list of workers; this part of the page renews itself."""
    if not (model_admin.has_view_permission(request) and request.user.has_perm("jobs.view_job")):
        raise PermissionDenied
    return render(
        request, "admin/includes/running_now.html", {"running": running_now(request.user)}
    )


def _running(ids: Sequence[int], person: Any, limit: int) -> list[Job]:
    """The jobs that the person sees and that still run, one more than the limit."""
    if not ids:
        return []
    visible = Job.objects.visible_to(person).filter(pk__in=ids, status=transitions.RUNNING)
    columns = visible.only(
        *("type", "key", "held_at", "progress", "status", "hard_end_at"),
        *("worker", "client", "attempts", "max_attempts"),
    )
    return list(columns.order_by("held_at", "pk")[: limit + 1])


def _lines(jobs: Sequence[Job]) -> list[_Line]:
    now, workers = clock.now(), WorkerLinks([job.worker for job in jobs])
    return [
        _Line(
            number=job.pk,
            worker=workers.link(job.worker, job.client),
            job=_link(job),
            type=job_fields.type_link(job),
            key=shown_text(job.key),
            took=labels.took(job, now),
            progress=job_fields.shown_progress(job),
            attempt=f"{job.attempts} / {job.max_attempts}",
            deadline="" if job.hard_end_at is None else labels.relative(job.hard_end_at, now),
        )
        for job in jobs
    ]


def jobs_url(worker: Worker, **filters: str) -> str:
    """The list of the jobs that this worker held last."""
    client = {"client": worker.client} if worker.client else {}
    return list_url(Job, worker=worker.name, **client, **filters)


def _link(job: Job) -> SafeString:
    return page_link(Job, job.pk)
