"""Dispatch in plain memory: what the design says about hand-outs, as plainly as it can be said.

It knows no database, no cache and none of the rules' modules; it goes through everything each time.
Times of tasks are whole seconds, zones are UTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

LOOKBACK = timedelta(days=7)
DONE = ("succeeded", "failed")


@dataclass
class Task:
    source: str
    number: int
    executor: str
    start_at: datetime
    end_at: datetime | None
    mode: str
    dispatch_times: int | None
    priority: int
    lease_seconds: int
    on_failure: str
    on_expiry: str
    max_rounds: int
    status: str = "active"
    # Of rotations only.
    rule: dict[str, Any] = field(default_factory=dict)
    misfire: str = ""
    misfire_limit: int = 0
    effective_from: datetime | None = None

    def due(self, now: datetime) -> list[datetime]:
        """The instants whose occurrences can be had at `now`."""
        if self.end_at is not None and self.end_at <= now:
            return []
        if self.source == "once":
            return [self.start_at] if self.start_at <= now else []
        missed = {"skip": 0, "once": 1, "all": self.misfire_limit}[self.misfire]
        return list(islice(self._backwards(now), 1 + missed))

    def _backwards(self, now: datetime) -> Iterator[datetime]:
        """Every instant of the rule that is not after `now`, the newest first."""
        assert self.effective_from is not None
        first = max(self.start_at, self.effective_from)
        for instant in self._series_backwards(now):
            if instant < first:
                return
            if instant <= now and (self.end_at is None or instant < self.end_at):
                yield instant

    def is_ever_due(self, since: datetime) -> bool:
        """Whether an instant of the rule lies from then on and before the end."""
        if self.source == "once" or self.end_at is None:
            return True
        ahead = (each for each in self._series_backwards(self.end_at) if each < self.end_at)
        return next(ahead, self.start_at - timedelta(1)) >= max(self.start_at, since)

    def _series_backwards(self, now: datetime) -> Iterator[datetime]:
        if "every_minutes" in self.rule:
            step = timedelta(minutes=self.rule["every_minutes"])
            instant = self.start_at + (now - self.start_at) // step * step
            while instant >= self.start_at:
                yield instant
                instant -= step
            return
        hour, minute = map(int, self.rule["at"].split(":"))
        day = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        while day.date() >= self.start_at.date():
            if (day.date() - self.start_at.date()).days % self.rule["every_days"] == 0:
                yield day
            day -= timedelta(days=1)

    def keeps(self, state: str) -> bool:
        """Whether a dispatch that ends so still counts."""
        return (
            state == "succeeded"
            or (state == "failed" and self.on_failure in ("finish", "retry_same"))
            or (state == "expired" and self.on_expiry == "keep")
        )


@dataclass
class Handed:
    """A dispatch; `gone` when housekeeping has removed its row."""

    user: str
    task: Task
    due_at: datetime
    round: int
    deadline: datetime
    number: int = 0
    state: str = "open"
    holds: bool = True
    redo: int = 0
    finished_at: datetime | None = None
    result: Any = None
    gone: bool = False

    @property
    def is_open(self) -> bool:
        return self.state == "open"


@dataclass
class Offer:
    """What a user would be handed; `carried` is the failed dispatch that it repeats."""

    task: Task
    due_at: datetime
    carried: Handed | None


class Model:
    def __init__(self, members: dict[str, set[str]]) -> None:
        self.members = members
        self.disabled: set[str] = set()
        self.tasks: list[Task] = []
        self.handed: list[Handed] = []

    # --- what is there ---------------------------------------------------------------------
    def open_of(self, user: str) -> Handed | None:
        mine = [each for each in self.handed if each.user == user and each.is_open]
        assert len(mine) <= 1
        return mine[0] if mine else None

    def count(self, task: Task, due_at: datetime) -> int:
        """How many dispatches of the occurrence count."""
        return sum(each.holds for each in self._of(task, due_at))

    def _of(self, task: Task, due_at: datetime, user: str | None = None) -> list[Handed]:
        """The dispatches of an occurrence; a once task has one, wherever it is shifted."""
        return [
            each
            for each in self.handed
            if each.task is task
            and (task.source == "once" or each.due_at == due_at)
            and user in (None, each.user)
        ]

    def edges(self, now: datetime) -> list[datetime]:
        """The next instants at which an answer could change by itself."""
        found: set[datetime | None] = set()
        for each in self.handed:
            found |= {each.deadline if each.is_open else None}
            if each.finished_at is not None:
                found |= {each.finished_at + timedelta(seconds=each.task.lease_seconds)}
        for task in self.tasks:
            found |= {task.start_at, task.end_at, task.start_at + LOOKBACK}
        return sorted(at for at in found if at is not None and at > now)

    # --- who may have what -----------------------------------------------------------------
    def offer(self, user: str, now: datetime) -> Offer | None:
        """What a user without an open dispatch is handed at `now`."""
        if user in self.disabled:
            return None
        due = [
            (-task.priority, due_at, task.source, task.number, task)
            for task in self.tasks
            if task.status == "active" and self._belongs(user, task.executor)
            for due_at in task.due(now)
            if now < due_at + LOOKBACK
        ]
        for _, due_at, _, _, task in sorted(due, key=lambda each: each[:4]):
            allowed, carried = self._may(user, task, due_at, now)
            if not allowed:
                continue
            limit = task.dispatch_times
            if carried or limit is None or self.count(task, due_at) < limit:
                return Offer(task, due_at, carried)
        return None

    def _belongs(self, user: str, executor: str) -> bool:
        if executor == user:
            return True
        return executor not in self.disabled and user in self.members.get(executor, ())

    def _may(
        self, user: str, task: Task, due_at: datetime, now: datetime
    ) -> tuple[bool, Handed | None]:
        """The table of endings; the second is the dispatch whose stock goes over."""
        before = self._of(task, due_at, user)
        if not before:
            return True, None
        if any(each.state == "cancelled" for each in before):
            return False, None
        last = before[-1]
        if last.state == "failed" and last.holds and task.on_failure == "retry_same":
            if len(before) < task.max_rounds:
                return True, last
        if any(each.holds for each in before) and task.mode != "blocking":
            return False, None
        if last.holds:
            return True, None
        assert last.finished_at is not None
        return now >= last.finished_at + timedelta(seconds=task.lease_seconds), None

    # --- what happens ----------------------------------------------------------------------
    def pull(self, user: str, now: datetime) -> Handed | None:
        current = self.open_of(user)
        if current is not None and current.deadline > now:
            current.redo += 1
            return current
        if current is not None:
            self.end(current, "expired", now)
        offer = self.offer(user, now)
        if offer is None:
            return None
        if offer.carried:
            offer.carried.holds = False
        handed = Handed(
            user,
            offer.task,
            offer.due_at,
            round=len(self._of(offer.task, offer.due_at, user)),
            deadline=now + timedelta(seconds=offer.task.lease_seconds),
        )
        self.handed.append(handed)
        limit = offer.task.dispatch_times
        assert offer.carried or limit is None or self.count(handed.task, handed.due_at) <= limit
        return handed

    def end(self, handed: Handed, state: str, now: datetime, result: Any = None) -> None:
        assert handed.is_open
        handed.state, handed.finished_at, handed.result = state, now, result
        handed.holds = handed.task.keeps(state)

    def overdue(self, now: datetime) -> list[Handed]:
        return [each for each in self.handed if each.is_open and each.deadline <= now]

    def call_back(
        self, user: str, handed: Handed | None, state: str, result: Any, now: datetime
    ) -> str:
        if handed is None or handed.user != user or handed.gone:
            return "not_found"
        if handed.is_open:
            self.end(handed, state, now, result)
            return state
        if handed.state not in DONE:
            return "closed"
        return state if (handed.state, handed.result) == (state, result) else "conflict"

    def extend(self, handed: Handed, seconds: int, now: datetime) -> str:
        if handed.gone:
            return "not_found"
        if not handed.is_open:
            return "closed"
        handed.deadline = max(handed.deadline, now + timedelta(seconds=seconds))
        return "open"

    def end_by_hand(self, handed: Handed, state: str, now: datetime) -> str:
        """Released, cancelled or expired by a person."""
        if handed.gone:
            return "not_found"
        if handed.is_open:
            self.end(handed, state, now)
        return state if handed.state == state else "closed"

    def edit(self, task: Task, changes: dict[str, Any], now: datetime) -> str:
        if task.status == "deleted":
            return "conflict"
        before = {name: getattr(task, name) for name in changes}
        for name, value in changes.items():
            setattr(task, name, value)
        changed = {name for name in changes if before[name] != changes[name]}
        if changed & {"rule", "start_at"} and not task.is_ever_due(now):
            for name, value in before.items():
                setattr(task, name, value)
            return "invalid"
        resumed = "status" in changed and task.status == "active"
        goes_on = "end_at" in changed and before["end_at"] is not None and before["end_at"] <= now
        if task.source == "rotate" and (resumed or goes_on or changed & {"rule", "start_at"}):
            task.effective_from = now
        return task.status
