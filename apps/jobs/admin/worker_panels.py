"""The panels on the page of a worker: why it is quiet, and what it runs now."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.base import Panel
from apps.common.admin.display import shown_text, shown_time
from apps.jobs.admin import job_fields, labels
from apps.jobs.models import Job, Worker
from apps.jobs.rules import transitions
from apps.jobs.services.running import running_ids
from apps.journal.models import JournalEntry, Source

MAX_SHOWN = 50
# Of more jobs, those with limits see only what is among these.
MAX_READ = 1_000


def quiet_panel(worker: Worker) -> Panel:
    """Since when it takes nothing new, who wanted that and why."""
    entries = JournalEntry.objects.timeline(Source.WORKER, worker.pk).filter(event="quieted")
    last = entries.order_by("-id").first()
    meaning = gettext("It takes nothing new, also after a restart. It ends what it has.")
    if worker.kind == Worker.Kind.CELERY:
        meaning = gettext("It takes nothing new and ends what it has. A new process is not quiet.")
    context = {
        "since": None if last is None else shown_time(last.at),
        "actor": "" if last is None else shown_text(last.actor),
        "reason": "" if last is None else shown_text(last.reason),
        "meaning": meaning,
    }
    return Panel("", SafeString(render_to_string("admin/includes/worker_quiet.html", context)))


class _Line(NamedTuple):
    job: SafeString
    type: SafeString
    key: str
    took: str
    progress: SafeString | None
    deadline: str


def running_panel(worker: Worker, person: Any) -> Panel:
    """The jobs that it runs now, as far as the person sees them, longest running first."""
    now = clock.now()
    ids = running_ids(worker, MAX_READ)
    visible = Job.objects.visible_to(person).filter(pk__in=ids, status=transitions.RUNNING)
    columns = visible.only("type", "key", "held_at", "progress", "status", "hard_end_at")
    jobs = list(columns.order_by("held_at", "pk")[: MAX_SHOWN + 1]) if ids else []
    lines = [
        _Line(
            job=_link(job),
            type=job_fields.type_link(job),
            key=shown_text(job.key),
            took="" if job.held_at is None else labels.age(job.held_at, now),
            progress=job_fields.shown_progress(job),
            deadline="" if job.hard_end_at is None else labels.relative(job.hard_end_at, now),
        )
        for job in jobs[:MAX_SHOWN]
    ]
    context = {
        "lines": lines,
        "more": len(jobs) > MAX_SHOWN,
        "running_url": jobs_url(worker, status=transitions.RUNNING),
        "all_url": jobs_url(worker),
    }
    html = render_to_string("admin/includes/worker_jobs.html", context)
    return Panel(_("Running now"), SafeString(html))


def jobs_url(worker: Worker, **filters: str) -> str:
    """The list of the jobs that this worker held last."""
    client = {"client": worker.client} if worker.client else {}
    return labels.jobs_url(worker=worker.name, **client, **filters)


def _link(job: Job) -> SafeString:
    url = reverse("admin:jobs_job_change", args=[job.pk])
    return format_html('<a class="text-link" href="{}">{}</a>', url, job.pk)
