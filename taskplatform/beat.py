"""Every sweep and its period, in this one table."""

from __future__ import annotations

from typing import Any

from apps.dispatch.conf import conf as dispatch
from apps.jobs.conf import conf as jobs
from apps.reports.conf import conf as reports

# Of machines whose wall clocks differ by less, each can run what the other's beat has sent.
_CLOCKS_DIFFER_SECONDS = 60


def periods() -> dict[str, int]:
    """How many seconds lie between two turns of each sweep."""
    return {
        "dispatch.expire": dispatch.EXPIRY_SWEEP_SECONDS,
        "dispatch.purge": dispatch.PURGE_SWEEP_SECONDS,
        "jobs.scan": jobs.JOB_SCAN_SECONDS,
        "jobs.rescue": jobs.JOB_RESCUE_SECONDS,
        "jobs.give_up": 30,
        "jobs.reorder": 10,
        "jobs.starving": 10,
        "jobs.workers": 600,
        "reports.rollup": reports.REPORT_SWEEP_SECONDS,
    }


def schedule() -> dict[str, dict[str, Any]]:
    """Celery's beat schedule; a beat that was missed is not worth a second run."""
    return {
        name: {
            "task": name,
            "schedule": seconds,
            "options": {"expires": seconds * 2 + _CLOCKS_DIFFER_SECONDS},
        }
        for name, seconds in periods().items()
    }
