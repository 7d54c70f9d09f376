"""How the slots of workers are shared between lanes, and those of a hold between types."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from apps.jobs.rules.type_snapshot import FAST, SLOW

LANES = (FAST, SLOW)


@dataclass(frozen=True, slots=True)
class CeleryWorker:
    """One Celery worker: the lanes it serves, its slots, and its live drains per lane."""

    lanes: Collection[str]
    slots: int
    drains: Mapping[str, int]

    @property
    def free(self) -> int:
        return max(0, self.slots - sum(self.drains.values()))


def max_drains(lane: str, lanes: Collection[str], slots: int) -> int:
    """How many drains of a lane a worker may run: never all of its slots where it serves both.

    A worker with one slot has a drain of the fast lane, which serves both lanes alternately.
    """
    if lane not in lanes:
        return 0
    if len([each for each in lanes if each in LANES]) == 1:
        return slots
    if slots == 1:
        return 1 if lane == FAST else 0
    return slots - 1


def places_of_others(lane: str, lanes: Collection[str], slots: int) -> int | None:
    """How many drains of the lane may run slow jobs of others than the platform: one fewer than
    there may be, where there may be several. None: all of them."""
    most = max_drains(lane, lanes, slots)
    return most - 1 if lane == SLOW and most > 1 else None


def lanes_polled(lane: str, lanes: Collection[str], slots: int) -> tuple[str, ...]:
    """The lanes that a drain takes jobs of, first its own.

    A slow drain takes fast jobs when no slow job is due. A fast drain never takes slow jobs, which
    would delay fast ones, unless the worker has only one slot.
    """
    if lane == SLOW and FAST in lanes:
        return (SLOW, FAST)
    if lane == FAST and SLOW in lanes and slots == 1:
        return (FAST, SLOW)
    return (lane,)


def wanted(groups: Sequence[CeleryWorker], due: Collection[str]) -> dict[str, int]:
    """How many drains to start for each lane.

    As many as there are slots where jobs are due; otherwise one, which waits for the next job.
    """
    free = [group.free for group in groups]
    starts = dict.fromkeys(LANES, 0)

    def start(lane: str, limit: int) -> None:
        for position, group in enumerate(groups):
            free_drains = max_drains(lane, group.lanes, group.slots) - group.drains.get(lane, 0)
            while limit > 0 and free_drains > 0 and free[position] > 0:
                free[position] -= 1
                free_drains -= 1
                limit -= 1
                starts[lane] += 1

    live = {lane: sum(group.drains.get(lane, 0) for group in groups) for lane in LANES}
    for lane in LANES:
        if not live[lane]:
            start(lane, 1)
    for lane in LANES:
        if lane in due:
            start(lane, sum(free))
    return starts


def shares(slots: int, weights: Mapping[str, int], *, rotation: int = 0) -> dict[str, int]:
    """The slots of each type in proportion to its weight; their sum is `slots`.

    The remainder goes one by one to the types in order of name, from the one that `rotation` falls
    on: as it counts up, single slots are shared by weight, too. Types without a slot are left out.
    """
    names = sorted(weights)
    if not names or slots <= 0:
        return {}
    total = sum(max(1, weights[name]) for name in names)
    given = {name: slots * max(1, weights[name]) // total for name in names}
    left = slots - sum(given.values())
    first = _first_by_weight(names, weights, rotation % total)
    for step in range(left):
        given[names[(first + step) % len(names)]] += 1
    return {name: count for name, count in given.items() if count}


def _first_by_weight(names: Sequence[str], weights: Mapping[str, int], point: int) -> int:
    """The position of the type whose part of the weights, laid end to end, has the point."""
    for position, name in enumerate(names):
        point -= max(1, weights[name])
        if point < 0:
            return position
    return 0
