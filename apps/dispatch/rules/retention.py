"""When finished tasks and dispatches go to the archive, and how long they are kept there.

Rows that still decide about a hand-out are never old enough: see `horizon` and `is_settled`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.common.zones import later
from apps.dispatch.rules.plan import ONCE

# Added to the lookback, because ids and clocks differ by seconds.
MARGIN = timedelta(days=1)


def horizon(now: datetime, *, after: timedelta, lookback: timedelta) -> datetime:
    """The instant before which a task or dispatch must have been over to go to the archive.

    It always lies behind the lookback: no occurrence due before it can be handed out.
    """
    return now - max(after, lookback + MARGIN)


def archived_before(now: datetime, *, retention: timedelta, archive_after: timedelta) -> datetime:
    """Tasks that went to the archive before this instant are forgotten."""
    return now - (retention - archive_after)


def over_since(
    *,
    source: str,
    is_deleted: bool,
    changed_at: datetime,
    start_at: datetime,
    end_at: datetime | None,
    lookback: timedelta,
) -> datetime | None:
    """The instant since which the task is neither handed out nor edited; None = it is not over.

    A task is over at its end_at; a once task without one, when it has fallen out of the lookback. A
    task that is not deleted can still be shifted, so an edit postpones that.
    """
    by_itself = end_at
    if by_itself is None and source == ONCE:
        by_itself = later(start_at, lookback)
    if is_deleted:
        return changed_at if by_itself is None else min(by_itself, changed_at)
    return None if by_itself is None else max(by_itself, changed_at)


def is_settled(source: str, *, due_at: datetime, is_task_kept: bool, before: datetime) -> bool:
    """Whether the hand-outs of an occurrence decide nothing any more, seen from the horizon.

    Those of a once task decide as long as the task stands, because a shift would make it due again;
    those of a rotation keep their instant for ever, and then fall out of every window.
    """
    return not is_task_kept if source == ONCE else due_at < before
