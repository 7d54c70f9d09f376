"""The facts about an active task that the queue needs."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import NamedTuple

from apps.common.zones import later
from apps.dispatch.rules.policy import Policy
from apps.dispatch.rules.recurrence import (
    SKIP,
    DueOccurrences,
    Recurrence,
    due_and_next,
    how_many_due,
    instant_of,
    occurrence_of,
)

ONCE = "once"
ROTATE = "rotate"
# The number of a once task's only occurrence.
ONLY = 0


class Planned(NamedTuple):
    """One active task; without a recurrence it is a once task, due at its start.

    `owner` is the executor that it is addressed to, None where nobody asks; `version` is raised by
    every edit.
    """

    source: str
    task: int
    priority: int
    start_at: datetime
    end_at: datetime | None
    policy: Policy
    owner: int | None
    version: int
    recurrence: Recurrence | None = None
    misfire: str = SKIP
    misfire_limit: int = 0

    def due(self, now: datetime) -> DueOccurrences:
        """The instants of the occurrences that may be handed out at `now`, oldest first, and the
        first instant after it at which another will be; nothing at all once it has ended."""
        if self.recurrence is not None:
            return due_and_next(
                self.recurrence, now, misfire=self.misfire, misfire_limit=self.misfire_limit
            )
        if self.end_at is not None and self.end_at <= now:
            return DueOccurrences([], None)
        if self.start_at <= now:
            return DueOccurrences([self.start_at], None)
        return DueOccurrences([], self.start_at)

    def due_since(self, next_at: datetime | None, now: datetime) -> DueOccurrences:
        """The instants of a rotation from `next_at` to `now`, and the first one after `now`."""
        if self.recurrence is None or next_at is None:
            return DueOccurrences([], None)
        instants: list[datetime] = []
        for instant in self.recurrence.after(next_at):
            if instant > now:
                return DueOccurrences(instants, instant)
            instants.append(instant)
        return DueOccurrences(instants, None)

    def number_of(self, due_at: datetime | None) -> int:
        """The number of the occurrence that is due then; without an instant, of one that nobody
        gets."""
        return ONLY if self.recurrence is None or due_at is None else occurrence_of(due_at)

    def until(self, due_at: datetime, lookback: timedelta) -> datetime:
        """The instant from which the occurrence that is due then can no longer be had."""
        end = later(due_at, lookback)
        if self.end_at is not None:
            end = min(end, self.end_at)
        if self.recurrence is not None:
            newer = (instant for instant in self.recurrence.after(due_at) if instant > due_at)
            sooner = takewhile(lambda instant: instant < end, newer)
            # So many newer ones put it out of reach.
            count = how_many_due(self.misfire, self.misfire_limit)
            end = next(islice(sooner, count - 1, None), end)
        return end

    def due_at(self, occurrence: int, now: datetime) -> datetime | None:
        """When that occurrence was due, if it is one that may be handed out at `now`."""
        if self.recurrence is None:
            return next(iter(self.due(now).occurrences), None) if occurrence == ONLY else None
        instant = instant_of(occurrence)
        return instant if instant in self.due(now).occurrences else None
