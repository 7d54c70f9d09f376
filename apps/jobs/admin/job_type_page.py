"""How a job type stands now: paused or not, its breaker, what waits, and who serves it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from apps.common import clock
from apps.common.admin.display import shown_text
from apps.common.admin.theme import label
from apps.jobs.admin import labels
from apps.jobs.models import Job, JobType, TypeState
from apps.jobs.rules import breaker as rules
from apps.jobs.services.counts import MAX_COUNTED, counts_of
from apps.jobs.services.facts import active_workers, breakers, serves

BREAKER_COLOURS = {rules.CLOSED: "success", rules.OPEN: "danger", rules.HALF_OPEN: "warning"}
MAX_SERVING = 20


def state_panel(job_type: JobType) -> SafeString:
    now = clock.now()
    counts = counts_of([job_type.name])[job_type.name]
    serving = [worker for worker in active_workers(now) if serves(worker, job_type.snapshot)]
    shown = (
        (Job.Status.READY, counts.ready),
        (Job.Status.SCHEDULED, counts.scheduled),
        (Job.Status.RUNNING, counts.running),
    )
    context: dict[str, Any] = {
        "type": job_type,
        "is_paused": job_type.snapshot.is_paused(now),
        "pause_reason": shown_text(job_type.pause_reason),
        "paused_until": None
        if job_type.paused_until is None
        else labels.time_from_now(job_type.paused_until, now),
        "counts": [
            (
                labels.jobs_url(type=job_type.name, status=status.value),
                capfirst(str(status.label)),
                labels.capped(count, MAX_COUNTED),
            )
            for status, count in shown
        ],
        "too_long": labels.waiting_too_long([job_type.snapshot]),
        "workers": serving[:MAX_SERVING],
        "more": max(0, len(serving) - MAX_SERVING),
        "breaker": _breaker(job_type, now),
    }
    return SafeString(render_to_string("admin/includes/job_type_state.html", context))


def _breaker(job_type: JobType, now: datetime) -> dict[str, Any] | None:
    found = breakers([job_type.snapshot], now).get(job_type.name)
    if found is None:
        return None
    word = capfirst(str(dict(TypeState.Breaker.choices)[TypeState.Breaker(found.state)]))
    return {
        "label": label(word, BREAKER_COLOURS[found.state]),
        "probes": found.probe_at and labels.time_from_now(found.probe_at, now),
        "calls": found.calls,
        "failures": found.failures,
        "share": round(100 * found.failures / found.calls) if found.calls else None,
    }
