"""How the archive of dispatches rolls."""

from __future__ import annotations

from datetime import datetime

from apps.common.db import transactional
from apps.common.rolling import RollingArchive
from apps.dispatch.conf import conf
from apps.dispatch.models import ArchivedDispatch
from apps.dispatch.services import retention
from apps.journal import services as journal


@transactional
def _record(dispatches: int, partition: str, now: datetime) -> None:
    data = {"archived_dispatches": dispatches, "partition": partition}
    journal.note(retention.FORGOTTEN, data, at=now)


ROLLING = RollingArchive(
    ArchivedDispatch,
    rows="older dispatches",
    sweep="dispatch.roll",
    mover=retention.SWEEP,
    retention=lambda: conf.DISPATCH_RETENTION,
    record=_record,
)
