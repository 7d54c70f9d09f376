"""When finished tasks and dispatches go to the archive, and how long they are kept there.

What still decides about a hand-out is never old enough: see `horizon` and `is_settled`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

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
        by_itself = start_at + lookback
    if is_deleted:
        return changed_at if by_itself is None else min(by_itself, changed_at)
    return None if by_itself is None else max(by_itself, changed_at)


def is_settled(source: str, *, due_at: datetime, is_task_kept: bool, before: datetime) -> bool:
    """Whether what an occurrence was handed out decides nothing any more, seen from the horizon.

    That of a once task decides as long as the task stands, because a shift would make it due
    again; that of a rotation keeps its instant for ever, and then falls out of every window.
    """
    return not is_task_kept if source == ONCE else due_at < before
