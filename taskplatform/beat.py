"""Every sweep and its period, in this one table."""

from __future__ import annotations

from typing import Any

from apps.common.conf import conf

# Of machines whose wall clocks differ by less, each can run what the other's beat has sent.
_CLOCKS_DIFFER_SECONDS = 60


def periods() -> dict[str, int]:
    """How many seconds lie between two turns of each sweep."""
    return {
        "dispatch.expire": conf.EXPIRY_SWEEP_SECONDS,
        "dispatch.purge": conf.PURGE_SWEEP_SECONDS,
        "jobs.scan": conf.JOB_SCAN_SECONDS,
        "jobs.rescue": conf.JOB_RESCUE_SECONDS,
        "jobs.give_up": 30,
        "jobs.reorder": 10,
        "jobs.starving": 10,
        "jobs.workers": 600,
        "reports.rollup": conf.REPORT_SWEEP_SECONDS,
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
