"""The state of a task, from its plan and the hand-outs of its present occurrence.

| state | the occurrence |
|---|---|
| waiting | is not due yet |
| open | can be had |
| overdue | can be had and was due long ago, but none of it is handed out |
| full | has nothing left of its quota |
| over | can no longer be had, and its quota was not used up |
| paused, deleted | as an operator has set the task |
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

WAITING = "waiting"
OPEN = "open"
OVERDUE = "overdue"
FULL = "full"
OVER = "over"
ACTIVE = "active"
PAUSED = "paused"
DELETED = "deleted"

# The states of active tasks.
OF_ACTIVE = (WAITING, OPEN, OVERDUE, FULL, OVER)
# Several states at once: the quota is not used up and still can be, now or later.
UNFILLED = "unfilled"
_MEANT = {UNFILLED: (WAITING, OPEN, OVERDUE)}


class Availability(NamedTuple):
    """The state of the present occurrence of a task: of a rotation the current one, else the first.

    It can be had from `due_at` to before `until`, both None when there is none. `handed` of
    `quota` is handed out; of a task that goes to every member, that is how many members have it.
    """

    state: str
    due_at: datetime | None
    until: datetime | None
    handed: int
    quota: int

    @property
    def left(self) -> int:
        return max(0, self.quota - self.handed)


def meant_by(name: str) -> tuple[str, ...]:
    """The states that a list of this one shows."""
    return _MEANT.get(name, (name,))


def state_of(
    *,
    status: str,
    due_at: datetime | None,
    until: datetime | None,
    is_full: bool,
    is_handed_out: bool,
    overdue_after: timedelta,
    now: datetime,
) -> str:
    """The state at `now`; `is_handed_out`: some of it is."""
    if status != ACTIVE:
        return status
    if is_full:
        return FULL
    if due_at is None or until is None or until <= now:
        return OVER
    if due_at > now:
        return WAITING
    if not is_handed_out and due_at + overdue_after <= now:
        return OVERDUE
    return OPEN
