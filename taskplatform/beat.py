"""Every sweep and its period, in this one table."""

from __future__ import annotations

from typing import Any

from apps.common.conf import conf


def schedule() -> dict[str, dict[str, Any]]:
    """Celery's beat schedule; a beat that was missed is not worth a second run."""
    periods = {
        "dispatch.expire": conf.EXPIRY_SWEEP_SECONDS,
        "dispatch.purge": conf.PURGE_SWEEP_SECONDS,
    }
    return {
        name: {"task": name, "schedule": seconds, "options": {"expires": seconds * 2}}
        for name, seconds in periods.items()
    }
