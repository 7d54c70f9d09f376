"""Every state of a job and every arrow between states: services/move.py moves rows by this table
only, the admin draws it. A change without an arrow is a conflict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

SCHEDULED = "scheduled"
BLOCKED = "blocked"
READY = "ready"
RUNNING = "running"
SUCCEEDED = "succeeded"
FAILED = "failed"
CANCELLED = "cancelled"

STATUSES = (SCHEDULED, BLOCKED, READY, RUNNING, SUCCEEDED, FAILED, CANCELLED)
WAITING = (SCHEDULED, BLOCKED, READY)
OPEN = (*WAITING, RUNNING)
# What takes a place of a limited key.
PLACED = (READY, RUNNING)
FINAL = (SUCCEEDED, FAILED, CANCELLED)
AT_REST = (*WAITING, *FINAL)

# How an attempt ended, as `last_end` of a job keeps it.
END_SUCCEEDED = "succeeded"
END_FAILED = "failed"
END_TIMED_OUT = "timed_out"  # past the deadline of the attempt
END_LOST = "lost"  # its worker died or stopped renewing the lease
END_STAGE_DONE = "stage_done"
END_RELEASED = "released"
END_YIELDED = "yielded"  # its worker put it off; not counted
END_INTERRUPTED = "interrupted"  # its worker stopped in good order meanwhile; not counted
END_CANCELLED = "cancelled"

SYSTEM, WORKER, OPERATOR = "system", "worker", "operator"


class LockedJob(NamedTuple):
    """The columns of a job by which its end is decided, read under its row lock.

    `attempts` counts the present one while the job runs, `held_at` belongs to the latest hold.
    """

    id: int
    type: str
    status: str
    stage: str
    priority: int
    attempts: int
    max_attempts: int
    holds: int
    last_end: str
    lease_token: str
    worker: str
    client: str
    host: str
    cancel_requested: bool
    trace_id: str
    run_at: datetime
    expected_at: datetime
    held_at: datetime
    limit_id: int | None = None
    unique_for: int | None = None
    part_of: int | None = None
    together: int | None = None
    affinity_host: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A change of state that may happen: from any of `sources` to one of `targets`."""

    name: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    by: str

    def allows(self, source: str, target: str) -> bool:
        return source in self.sources and target in self.targets


ARROWS: dict[str, Arrow] = {
    arrow.name: arrow
    for arrow in (
        Arrow("promote", (SCHEDULED,), (READY,), SYSTEM),
        Arrow("block", (SCHEDULED,), (BLOCKED,), SYSTEM),
        Arrow("admit", (BLOCKED,), (READY,), SYSTEM),
        Arrow("hold", (READY,), (RUNNING,), WORKER),
        Arrow("succeed", (RUNNING,), (SUCCEEDED,), WORKER),
        Arrow("fail", (RUNNING,), (READY, SCHEDULED, FAILED), WORKER),
        Arrow("stage_done", (RUNNING,), (READY, SCHEDULED, BLOCKED), WORKER),
        Arrow("release", (RUNNING,), (READY, SCHEDULED), WORKER),
        Arrow("yield", (RUNNING,), (READY, SCHEDULED, BLOCKED), WORKER),
        Arrow("end_cancelled", (RUNNING,), (CANCELLED,), WORKER),
        Arrow("rescue", (RUNNING,), (READY, SCHEDULED, FAILED, CANCELLED), SYSTEM),
        Arrow("discard", WAITING, (FAILED,), SYSTEM),
        Arrow("cancel", WAITING, (CANCELLED,), OPERATOR),
        Arrow("request_cancel", (RUNNING,), (RUNNING,), OPERATOR),
        Arrow("force_cancel", (RUNNING,), (CANCELLED,), OPERATOR),
        Arrow("mark_done", (*WAITING, FAILED), (SUCCEEDED,), OPERATOR),
        Arrow("retry", (FAILED, CANCELLED, SUCCEEDED), (BLOCKED, READY), OPERATOR),
        Arrow("take_back", (CANCELLED,), (SCHEDULED,), OPERATOR),
        Arrow("run_now", WAITING, (BLOCKED, READY), OPERATOR),
        Arrow("edit", WAITING, WAITING, OPERATOR),
        # Back to where an act of an operator took it from.
        Arrow("undo", AT_REST, AT_REST, OPERATOR),
    )
}


@lru_cache(maxsize=64)
def implied(source: str, target: str, at: datetime) -> Mapping[str, Any]:
    """The columns that a change of state at this instant sets, whichever arrow it takes: a job that
    no longer runs has no lease, one that is over keeps no other out and waits for nothing."""
    changes: dict[str, Any] = {}
    if source == RUNNING != target:
        changes |= {"lease_until": None, "hard_end_at": None}
    if target in FINAL:
        changes |= {"finished_at": at, "unique_key": None}
        # A running job is bound to no host, and nobody asks a waiting one to stop.
        if source == RUNNING:
            changes["cancel_requested"] = False
        else:
            changes |= {"affinity_host": "", "affinity_until": None}
    return changes


def sources(name: str) -> tuple[str, ...]:
    """The states that the arrow of this name leaves from."""
    return ARROWS[name].sources


def is_legal(name: str, status: str) -> bool:
    """Whether the arrow may leave from this state."""
    return status in ARROWS[name].sources


def legal_actions(status: str) -> list[str]:
    """The actions that an operator may take on a job in this state."""
    return [a.name for a in ARROWS.values() if a.by == OPERATOR and status in a.sources]
