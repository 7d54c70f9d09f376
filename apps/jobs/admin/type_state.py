"""The obstacles to jobs of a type and its workers, for the page of the type."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.common.admin.display import choice_label, shown_text
from apps.common.masking import redact
from apps.jobs.admin import labels
from apps.jobs.models import JobType, TypeState
from apps.jobs.rules import breaker as rules
from apps.jobs.services.living import alive, serves, takes_jobs
from apps.jobs.services.protection import breakers

BREAKER_COLOURS = {rules.CLOSED: "success", rules.OPEN: "danger", rules.HALF_OPEN: "warning"}
MAX_SERVING = 20


def state_of(job_type: JobType, now: datetime) -> dict[str, Any]:
    """The variables for the templates of the type's page."""
    snapshot = job_type.snapshot
    serving = [worker for worker in alive(now) if serves(worker, snapshot)]
    taking = [worker for worker in serving if takes_jobs(worker)]
    return {
        "type": job_type,
        "is_paused": snapshot.is_paused(now),
        "pause_reason": shown_text(redact(job_type.pause_reason)),
        "paused_until": None
        if job_type.paused_until is None
        else labels.time_from_now(job_type.paused_until, now),
        "too_long": labels.waiting_too_long([snapshot]),
        "workers": taking[:MAX_SERVING],
        "more": max(0, len(taking) - MAX_SERVING),
        "quiet": [worker for worker in serving if worker.is_quiet][:MAX_SERVING],
        "breaker": _breaker(job_type, now),
    }


def _breaker(job_type: JobType, now: datetime) -> dict[str, Any] | None:
    found = breakers([job_type.snapshot], now).get(job_type.name)
    if found is None:
        return None
    return {
        "label": choice_label(TypeState.Breaker, found.state, BREAKER_COLOURS),
        "probes": found.probe_at and labels.time_from_now(found.probe_at, now),
        "calls": found.calls,
        "failures": found.failures,
        "share": round(100 * found.failures / found.calls) if found.calls else None,
    }
