"""Closing dispatches whose executors fell silent."""

from __future__ import annotations

from datetime import datetime

from apps.common import clock
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch
from apps.dispatch.services.ending import State, end

SILENT = "silent past the deadline"


def expire_if_due(dispatch: Dispatch, *, now: datetime) -> bool:
    """End the open dispatch as expired when its deadline has passed; False otherwise.

    The row decides: since it was read, its executor may have been given more time.
    """
    return end(dispatch, State.EXPIRED, now=now, reason=SILENT, is_overdue=True)


def expire_due(*, until: datetime) -> int:
    """End what is open past its deadline, oldest first, in blocks; returns how many.

    Stops between two blocks when the clock has passed `until`. A dispatch that cannot be ended
    does not hold up the others: the block goes on after it.
    """
    ended = 0
    after: tuple[datetime, int] | None = None
    while (now := clock.now()) < until:
        block = _due(now, after)
        for dispatch in block:
            ended += expire_if_due(dispatch, now=now)
        if len(block) < conf.EXPIRY_BATCH:
            break
        after = (block[-1].deadline_at, block[-1].pk)
    return ended


def _due(now: datetime, after: tuple[datetime, int] | None) -> list[Dispatch]:
    due = Dispatch.objects.filter(state=State.OPEN, deadline_at__lte=now)
    if after is not None:
        due = due.filter(deadline_at__gte=after[0]).exclude(deadline_at=after[0], pk__lte=after[1])
    return list(due.prefetch_related("executor").order_by("deadline_at", "pk")[: conf.EXPIRY_BATCH])
