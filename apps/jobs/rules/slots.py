"""How the slots of workers are shared between the lanes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from apps.jobs.rules.type_snapshot import FAST, SLOW

LANES = (FAST, SLOW)


@dataclass(frozen=True, slots=True)
class Group:
    """One Celery worker: the lanes it serves, its slots, and its live drains per lane."""

    lanes: Collection[str]
    slots: int
    drains: Mapping[str, int]

    @property
    def free(self) -> int:
        return max(0, self.slots - sum(self.drains.values()))


def max_drains(lane: str, lanes: Collection[str], slots: int) -> int:
    """How many drains of a lane a worker may run: never all of its slots where it serves both.

    A worker with one place has a drain of the fast lane, which then serves both by turns.
    """
    if lane not in lanes:
        return 0
    if len([each for each in lanes if each in LANES]) == 1:
        return slots
    if slots == 1:
        return 1 if lane == FAST else 0
    return slots - 1


def lanes_polled(lane: str, lanes: Collection[str], slots: int) -> tuple[str, ...]:
    """The lanes that a drain takes jobs of, first its own.

    Slow ones help with fast jobs when they have none of their own; fast ones never with slow jobs,
    of which one could hold them up, unless there is no other place.
    """
    if lane == SLOW and FAST in lanes:
        return (SLOW, FAST)
    if lane == FAST and SLOW in lanes and slots == 1:
        return (FAST, SLOW)
    return (lane,)


def wanted(groups: Sequence[Group], due: Collection[str]) -> dict[str, int]:
    """How many drains to start for each lane.

    As many as there are slots where jobs are due; otherwise one, which waits for the next job.
    """
    free = [group.free for group in groups]
    starts = dict.fromkeys(LANES, 0)

    def start(lane: str, most: int) -> None:
        for position, group in enumerate(groups):
            room = max_drains(lane, group.lanes, group.slots) - group.drains.get(lane, 0)
            while most > 0 and room > 0 and free[position] > 0:
                free[position] -= 1
                room -= 1
                most -= 1
                starts[lane] += 1

    live = {lane: sum(group.drains.get(lane, 0) for group in groups) for lane in LANES}
    for lane in LANES:
        if not live[lane]:
            start(lane, 1)
    for lane in LANES:
        if lane in due:
            start(lane, sum(free))
    return starts
