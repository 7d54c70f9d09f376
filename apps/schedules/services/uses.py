"""The schedules that make jobs of a type."""

from __future__ import annotations

from apps.common import uses
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.schedules.models import Schedule


def register() -> None:
    uses.register(uses.JOB_TYPE, _schedules_of)


def _schedules_of(job_type: str) -> Message | None:
    count = Schedule.objects.not_deleted().filter(job_type=job_type).count()
    if not count:
        return None
    return _("Schedules that make its jobs: {count}; delete or change them first.", count=count)
