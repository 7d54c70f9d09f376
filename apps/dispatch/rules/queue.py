"""The order in which the occurrences of a plan are handed out, as time goes on."""

from __future__ import annotations

import heapq
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from apps.dispatch.rules.plan import ONLY, Planned
from apps.dispatch.rules.policy import Policy
from apps.dispatch.rules.recurrence import how_many_due, instant_of, occurrence_of
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
        # Source, task and occurrence: asked for most often of all.
        return self[2:5]


def _order(candidate: Candidate) -> tuple[int, datetime, str, int]:
    return candidate.order


# Threads of a process share the series of a plan.
_moving = threading.Lock()


class _Position(NamedTuple):
    """The due occurrences of a rotation, ascending, and the instant of the next, always replaced
    together."""

    occurrences: list[int]
    next_at: datetime | None


class Starts:
    """The positions of rotations at one moment, each worked out once for however many queues."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._known: dict[Planned, _Position] = {}

    def of(self, planned: Planned) -> _Position:
        found = self._known.get(planned)
        if found is None:
            instants, next_at = planned.due(self._now)
            found = _Position([occurrence_of(each) for each in instants], next_at)
            self._known[planned] = found
        return found


class _Series:
    """A rotation with its due occurrences, which move on when the next one is due."""

    __slots__ = ("planned", "position")

    def __init__(self, planned: Planned, position: _Position) -> None:
        self.planned = planned
        self.position = position

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
        """The present position, from the one before, at the cost of what has become due since."""
        instants, next_at = self.planned.due_since(self.position.next_at, now)
        newer = [occurrence_of(each) for each in instants]
        count = how_many_due(self.planned.misfire, self.planned.misfire_limit)
        return _Position([*self.position.occurrences, *newer][-count:], next_at)

    def identity_of(self, occurrence: int) -> Identity:
        return (self.planned.source, self.planned.task, occurrence)

    def order_of(self, occurrence: int) -> tuple[int, int, str, int]:
        """The order of the occurrence's candidate: the seconds of an occurrence are its instant."""
        planned = self.planned
        return (-planned.priority, occurrence, planned.source, planned.task)

    def candidate(self, occurrence: int) -> Candidate:
        return _candidate(self.planned, instant_of(occurrence), occurrence)


class Queue:
    """The occurrences of a plan that start within a frame of time.

    It ignores stock and earlier dispatches. `size` is the number of its tasks, `closed` are
    occurrences that were dropped. `starts`, of the same `now`, are shared with other queues.
    """

    __slots__ = ("_done", "_once", "_series", "closed", "frame", "size")

    def __init__(
        self,
        plan: Iterable[Planned],
        *,
        frame: Window,
        now: datetime,
        starts: Starts | None = None,
    ) -> None:
        starts = Starts(now) if starts is None else starts
        self.frame = frame
        self.closed: set[Identity] = set()
        self._once: list[Candidate] = []
        self._series: list[_Series] = []
        # Up to these occurrences of a series nothing can be had any more: pulls begin after them.
        self._done: dict[_Series, int] = {}
        for planned in plan:
            if planned.recurrence is not None:
                self._series.append(_Series(planned, starts.of(planned)))
            elif planned.start_at in frame:
                self._once.append(_candidate(planned, planned.start_at, ONLY))
        self._once.sort(key=_order)
        self.size = len(self._once) + len(self._series)

    @classmethod
    def merged(cls, queues: Sequence[Queue], *, frame: Window, now: datetime) -> Queue:
        """One queue of the tasks of several, within their frames; these keep what it drops."""
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
        for series in self._series:
            for occurrence in series.position.occurrences:
                if series.identity_of(occurrence) not in self.closed:
                    yield series.candidate(occurrence)

    def covers(self, window: Window, now: datetime) -> bool:
        """Whether the queue contains the whole window at `now`."""
        return self.frame.lower <= window.lower and now < self.frame.upper

    def due(self, now: datetime, window: Window) -> Iterator[Candidate]:
        """The candidates that may be handed out at `now`, in hand-out order."""
        for series in self._series:
            series.move_to(now)
        both = (self._due_once(now, window), self._due_rotating(now, window))
        yield from heapq.merge(*both, key=_order)

    def _due_once(self, now: datetime, window: Window) -> Iterator[Candidate]:
        for each in self._once:
            at = each.occurrence_at
            if at <= now and at in window and (each.end_at is None or each.end_at > now):
                yield each

    def _due_rotating(self, now: datetime, window: Window) -> Iterator[Candidate]:
        """The due occurrences of rotations, merged lazily: a rotation may have a thousand that are
        due."""
        after, upto = occurrence_of(window.lower), occurrence_of(now)
        heads = []
        for series in self._series:
            if not _is_over(series.planned, now):
                occurrences = series.position.occurrences
                place = self._first_open(series, occurrences, after)
                if place < len(occurrences) and occurrences[place] <= upto:
                    heads.append((series.order_of(occurrences[place]), place, occurrences, series))
        heapq.heapify(heads)
        while heads:
            _order, place, occurrences, series = heads[0]
            yield series.candidate(occurrences[place])
            place = self._next_open(series, occurrences, place + 1)
            if place < len(occurrences) and occurrences[place] <= upto:
                head = (series.order_of(occurrences[place]), place, occurrences, series)
                heapq.heapreplace(heads, head)
            else:
                heapq.heappop(heads)

    def _first_open(self, series: _Series, occurrences: list[int], after: int) -> int:
        """The place of the first one after the start of the window that is not closed."""
        begin = bisect_right(occurrences, max(after, self._done.get(series, after)))
        first = self._next_open(series, occurrences, begin)
        if first > begin:
            self._done[series] = occurrences[first - 1]
        return first

    def _next_open(self, series: _Series, occurrences: list[int], place: int) -> int:
        while place < len(occurrences) and series.identity_of(occurrences[place]) in self.closed:
            place += 1
        return place

    def next_at(self, now: datetime) -> datetime | None:
        """The first instant after `now` at which more will be due; None = nothing ahead."""
        coming = [
            each.occurrence_at
            for each in self._once
            if each.occurrence_at > now and (each.end_at is None or each.end_at > now)
        ]
        for series in self._series:
            # Another thread, or a process with a faster clock, may have moved it beyond `now`.
            occurrences, following = series.position
            ahead = bisect_right(occurrences, occurrence_of(now))
            at = instant_of(occurrences[ahead]) if ahead < len(occurrences) else following
            if at is not None and at > now:
                coming.append(at)
        return min(coming, default=None)

    def drop(self, closed: Collection[Identity]) -> None:
        """Remove occurrences that this executor can never receive again under this plan."""
        if closed:
            self.closed.update(closed)
            self._once = _without(self._once, closed)


def _is_over(planned: Planned, now: datetime) -> bool:
    return planned.end_at is not None and planned.end_at <= now


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


def candidate_of(planned: Planned, due_at: datetime | None) -> Candidate:
    """The occurrence that is due then, whether anybody can get it or not."""
    return _candidate(planned, due_at or planned.start_at, planned.number_of(due_at))


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
