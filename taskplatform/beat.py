"""Every sweep and its period."""

from __future__ import annotations

from typing import Any

from apps.dispatch.conf import conf as dispatch
from apps.jobs.conf import conf as jobs
from apps.journal.conf import conf as journal
from apps.reports.conf import conf as reports

# Machines whose wall clocks differ by less can run each other's sweeps.
_MAX_CLOCK_DRIFT_SECONDS = 60
# Each sink of the journal has a sweep of its own.
_SINK = "journal.sink."


def periods() -> dict[str, int]:
    """The seconds between two runs of each sweep."""
    return {
        "alerts.deliver": 15,
        "alerts.evaluate": 15,
        "alerts.report": 15,
        "common.tidy": 600,
        "bulk.purge": 3600,
        "dispatch.expire": dispatch.EXPIRY_SWEEP_SECONDS,
        "dispatch.purge": dispatch.PURGE_SWEEP_SECONDS,
        "dispatch.roll": 600,
        "flows.look": 1,
        "jobs.scan": jobs.JOB_SCAN_SECONDS,
        "jobs.rescue": jobs.JOB_RESCUE_SECONDS,
        "jobs.archive": 60,
        "jobs.forget": 600,
        "jobs.give_up": 30,
        "jobs.roll": 60,
        "jobs.reorder": 10,
        "jobs.slices": 2,
        "jobs.starving": 10,
        "journal.roll": 3600,
        **{f"{_SINK}{sink.name}": 2 for sink in journal.JOURNAL_SINKS},
        "schedules.make": 5,
        "schedules.purge": 600,
        "reports.rollup": reports.REPORT_SWEEP_SECONDS,
    }


def schedule() -> dict[str, dict[str, Any]]:
    """Celery's beat schedule. Late messages expire, because the next one follows soon."""
    return {
        name: {
            **_task_of(name),
            "schedule": seconds,
            "options": {"expires": seconds * 2 + _MAX_CLOCK_DRIFT_SECONDS},
        }
        for name, seconds in periods().items()
    }


def _task_of(name: str) -> dict[str, Any]:
    if name.startswith(_SINK):
        return {"task": "journal.carry", "args": [name.removeprefix(_SINK)]}
    return {"task": name}
