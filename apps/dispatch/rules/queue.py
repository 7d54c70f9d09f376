"""The order in which the occurrences of a plan are handed out, as time goes on."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

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


# Several threads of a process may serve one user from one queue.
_moving = threading.Lock()


class _Place(NamedTuple):
    """Where a rotation has come to: what is due, and when the next will be. Nobody is to find the
    one without the other, so they are put as one."""

    due: list[Candidate]
    next_at: datetime | None


class _Series:
    """A rotation with its occurrences that are due, worked out again when the next one is."""

    __slots__ = ("place", "planned")

    def __init__(self, planned: Planned, now: datetime) -> None:
        self.planned = planned
        self.place = self._place_at(now)

    def is_behind(self, now: datetime) -> bool:
        """Whether another occurrence has become due."""
        next_at = self.place.next_at
        return next_at is not None and next_at <= now

    def move_to(self, now: datetime) -> None:
        with _moving:
            # Another thread may have gone on, even further than this one would.
            if self.is_behind(now):
                self.place = self._place_at(now)

    def drop(self, closed: Collection[Identity]) -> None:
        """Forget what is closed of what is due; the caller keeps others from moving it on."""
        due, next_at = self.place
        self.place = _Place(_without(due, closed), next_at)

    def _place_at(self, now: datetime) -> _Place:
        planned = self.planned
        instants, next_at = planned.due(now)
        due = [_candidate(planned, instant, occurrence_of(instant)) for instant in instants]
        return _Place(due, next_at)


class Queue:
    """A personal queue: the occurrences of a plan that start within a frame of time.

    It knows neither stock nor earlier dispatches; whoever takes from it asks for those. `size` is
    how many tasks it was made of, `unsaved` the work put into it since it was last saved.
    """

    __slots__ = ("_once", "_series", "frame", "size", "unsaved")

    def __init__(self, plan: Iterable[Planned], *, frame: Window, now: datetime) -> None:
        self.frame = frame
        self.unsaved = 0
        self._once: list[Candidate] = []
        self._series: list[_Series] = []
        for planned in plan:
            if planned.recurrence is not None:
                self._series.append(_Series(planned, now))
            elif planned.start_at in frame:
                self._once.append(_candidate(planned, planned.start_at, ONLY))
        self._once.sort(key=_order)
        self.size = len(self._once) + len(self._series)

    def __getstate__(self) -> tuple[Any, ...]:
        # Plain tuples are pickled in half the time.
        once = [tuple(each) for each in self._once]
        return once, self._series, self.frame, self.size, self.unsaved

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        once, self._series, self.frame, self.size, self.unsaved = state
        self._once = list(map(Candidate._make, once))

    def __len__(self) -> int:
        return len(self._once) + sum(len(series.place.due) for series in self._series)

    def __iter__(self) -> Iterator[Candidate]:
        """What is in here, due or not, in no order."""
        yield from self._once
        for series in self._series:
            yield from series.place.due

    def covers(self, window: Window, now: datetime) -> bool:
        """Whether all that the window lets through at `now` is in here."""
        return self.frame.lower <= window.lower and now < self.frame.upper

    def due(self, now: datetime, window: Window) -> Iterator[Candidate]:
        """What may be handed out at `now`, in hand-out order."""
        for series in self._series:
            if series.is_behind(now):
                series.move_to(now)
                self.unsaved += 1
        rotating = [each for series in self._series for each in series.place.due]
        rotating.sort(key=_order)
        both = heapq.merge(self._once, rotating, key=_order) if rotating else self._once
        for candidate in both:
            at, end = candidate.occurrence_at, candidate.end_at
            if at <= now and at in window and (end is None or end > now):
                yield candidate

    def next_at(self, now: datetime) -> datetime | None:
        """The first instant after `now` at which more will be due; None = nothing ahead."""
        # Another thread, or a process with a faster clock, may have moved a rotation beyond `now`.
        places = [series.place for series in self._series]
        coming = [
            each.occurrence_at
            for each in chain(self._once, *(place.due for place in places))
            if each.occurrence_at > now and (each.end_at is None or each.end_at > now)
        ]
        coming += [place.next_at for place in places if place.next_at and place.next_at > now]
        return min(coming, default=None)

    def drop(self, closed: Collection[Identity]) -> None:
        """Forget occurrences that this executor can never have again under this plan."""
        if not closed:
            return
        self.unsaved += len(closed)
        with _moving:
            self._once = _without(self._once, closed)
            for series in self._series:
                series.drop(closed)


def _without(some: list[Candidate], closed: Collection[Identity]) -> list[Candidate]:
    """Those that are not closed. Most often the first ones are, and the rest is left alone."""
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
