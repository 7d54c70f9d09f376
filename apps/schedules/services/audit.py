"""Journal entries about schedules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apps.journal import services as journal
from apps.journal.models import Source
from apps.schedules.models import Schedule


def entry(
    schedule: Schedule,
    event: str,
    *,
    now: datetime,
    actor: str = "",
    reason: str = "",
    error: str = "",
    **data: Any,
) -> journal.Entry:
    """What the journal says of one event of a schedule."""
    return journal.Entry(
        at=now,
        source=Source.SCHEDULE,
        subject_id=schedule.pk,
        event=event,
        type_or_task=schedule.subject,
        actor=actor,
        reason=reason,
        error=error,
        data=data,
    )


def record_edit(
    schedule: Schedule,
    event: str,
    *,
    now: datetime,
    actor: str,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    **data: Any,
) -> None:
    """Write the one entry for an edit, with the changed values before and after."""
    changed: dict[str, Any] = {"before": dict(before or {}), "after": dict(after or {})}
    journal.write([entry(schedule, event, now=now, actor=actor, reason=reason, **changed, **data)])


def shown(schedule: Schedule) -> dict[str, Any]:
    """The editable fields as the journal keeps them."""
    values = {name: getattr(schedule, name) for name in schedule.editable}
    for name in ("start_at", "end_at"):
        values[name] = None if values[name] is None else values[name].isoformat()
    return values
