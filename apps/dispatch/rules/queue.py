"""The order in which the occurrences of a plan are handed out, as time goes on."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple, TypeAlias

from apps.dispatch.rules.plan import ONLY, Planned
from apps.dispatch.rules.policy import Policy
from apps.dispatch.rules.recurrence import occurrence_of
from apps.dispatch.rules.window import Window

# Source, task and occurrence.
Identity: TypeAlias = tuple[str, int, int]
# Executors with the versions of their plans.
Versions: TypeAlias = tuple[tuple[int, int], ...]


class Candidate(NamedTuple):
    """One occurrence that its executor could get, if stock and earlier dispatches allow it.

    `owner` and `version`: those of its task.
    """

    priority: int
    occurrence_at: datetime
    source: str
    task: int
    occurrence: int
    end_at: datetime | None
    policy: Policy
    owner: int | None
    version: int

    @property
    def order(self) -> tuple[int, datetime, str, int]:
        """Total and stable: the higher priority, then the earlier, then once before rotate."""
        return (-self.priority, self.occurrence_at, self.source, self.task)

    @property
    def identity(self) -> Identity:
        return (self.source, self.task, self.occurrence)


def _order(candidate: Candidate) -> tuple[int, datetime, str, int]:
    return candidate.order


# Threads of a process share the series of a plan.
_moving = threading.Lock()


class _Position(NamedTuple):
    """The due occurrences of a rotation and the instant of the next, always replaced together."""

    due: list[Candidate]
    next_at: datetime | None


class _Series:
    """A rotation with its due occurrences, worked out again when the next one is due."""

    __slots__ = ("_planned", "position")

    def __init__(self, planned: Planned, now: datetime) -> None:
        self._planned = planned
        self.position = self._position_at(now)

    def move_to(self, now: datetime) -> None:
        if not self._is_behind(now):
            return
        with _moving:
            # Another thread may have moved it, even further than this one would.
            if self._is_behind(now):
                self.position = self._position_at(now)

    def _is_behind(self, now: datetime) -> bool:
        next_at = self.position.next_at
        return next_at is not None and next_at <= now

    def _position_at(self, now: datetime) -> _Position:
        planned = self._planned
        instants, next_at = planned.due(now)
        due = [_candidate(planned, instant, occurrence_of(instant)) for instant in instants]
        return _Position(due, next_at)


class Queue:
    """The occurrences of a plan that start within a frame of time.

    It ignores stock and earlier dispatches. `size` is the number of its tasks, `closed` are
    occurrences that were dropped.
    """

    __slots__ = ("_once", "_series", "closed", "frame", "size")

    def __init__(self, plan: Iterable[Planned], *, frame: Window, now: datetime) -> None:
        self.frame = frame
        self.closed: set[Identity] = set()
        self._once: list[Candidate] = []
        self._series: list[_Series] = []
        for planned in plan:
            if planned.recurrence is not None:
                self._series.append(_Series(planned, now))
            elif planned.start_at in frame:
                self._once.append(_candidate(planned, planned.start_at, ONLY))
        self._once.sort(key=_order)
        self.size = len(self._once) + len(self._series)

    @classmethod
    def merged(cls, queues: Sequence[Queue], *, frame: Window, now: datetime) -> Queue:
        """One queue of the tasks of several, within their frames; what it drops, they keep."""
        made = cls((), frame=frame, now=now)
        made._once = [
            each for queue in queues for each in queue._once if each.occurrence_at > frame.lower
        ]
        if len(queues) > 1:
            made._once.sort(key=_order)
        made._series = [each for queue in queues for each in queue._series]
        made.size = len(made._once) + len(made._series)
        return made

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Candidate]:
        """Every candidate, due or not, in no order."""
        yield from self._once
        yield from self._rotating()

    def _rotating(self) -> list[Candidate]:
        return [
            each
            for series in self._series
            for each in series.position.due
            if each.identity not in self.closed
        ]

    def covers(self, window: Window, now: datetime) -> bool:
        """Whether the queue contains the whole window at `now`."""
        return self.frame.lower <= window.lower and now < self.frame.upper

    def due(self, now: datetime, window: Window) -> Iterator[Candidate]:
        """The candidates that may be handed out at `now`, in hand-out order."""
        for series in self._series:
            series.move_to(now)
        rotating = sorted(self._rotating(), key=_order)
        both = heapq.merge(self._once, rotating, key=_order) if rotating else self._once
        for candidate in both:
            at, end = candidate.occurrence_at, candidate.end_at
            if at <= now and at in window and (end is None or end > now):
                yield candidate

    def next_at(self, now: datetime) -> datetime | None:
        """The first instant after `now` at which more will be due; None = nothing ahead."""
        # Another thread, or a process with a faster clock, may have moved a rotation beyond `now`.
        positions = [series.position for series in self._series]
        coming = [
            each.occurrence_at
            for each in chain(self._once, *(position.due for position in positions))
            if each.occurrence_at > now and (each.end_at is None or each.end_at > now)
        ]
        coming += [each.next_at for each in positions if each.next_at and each.next_at > now]
        return min(coming, default=None)

    def drop(self, closed: Collection[Identity]) -> None:
        """Remove occurrences that this executor can never receive again under this plan."""
        if closed:
            self.closed.update(closed)
            self._once = _without(self._once, closed)


def _without(some: list[Candidate], closed: Collection[Identity]) -> list[Candidate]:
    """The candidates that are not closed; mostly the first ones are, so the rest is only copied."""
    kept: list[Candidate] = []
    left = len(closed)
    for position, each in enumerate(some):
        if not left:
            return kept + some[position:]
        if each.identity in closed:
            left -= 1
        else:
            kept.append(each)
    return kept


def _candidate(planned: Planned, instant: datetime, occurrence: int) -> Candidate:
    return Candidate(
        planned.priority,
        instant,
        planned.source,
        planned.task,
        occurrence,
        planned.end_at,
        planned.policy,
        planned.owner,
        planned.version,
    )
