"""What an executor would get over time: a simulation of its own queue.

It finishes every task at once, and no other executor takes any. Order, window and verdicts are
those of a pull; only the clock and the hand-outs are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeAlias

from apps.dispatch.rules.policy import (
    ALREADY_TAKEN,
    EXPIRED,
    SUCCEEDED,
    PastDispatch,
    Policy,
    Verdict,
    keeps_stock,
    verdict,
)
from apps.dispatch.rules.queue import Candidate, Identity, Queue
from apps.dispatch.rules.window import Window

# The queue drops candidates that are over once it holds this many.
_MAX_OVER = 64


# The window at an instant.
Windows: TypeAlias = Callable[[datetime], Window]


@dataclass(kw_only=True)
class Past:
    """What has been handed out: the stock that counts, and one executor's latest dispatches.

    `people`: how many there are behind each executor whose tasks go to every member; `had`: who of
    them has had an occurrence.
    """

    handed: dict[Identity, int]
    latest: dict[Identity, PastDispatch]
    people: dict[int, int] = field(default_factory=dict)
    had: dict[tuple[Identity, int], int] = field(default_factory=dict)

    def copy(self) -> Past:
        return Past(
            handed=dict(self.handed),
            latest=dict(self.latest),
            people=self.people,
            had=dict(self.had),
        )

    def verdict_of(self, identity: Identity, policy: Policy, now: datetime) -> Verdict:
        """What the executor's latest dispatch of it says about another one."""
        return verdict(policy, self.latest.get(identity), now)

    def left(self, identity: Identity, policy: Policy) -> int | None:
        """How much stock is left; None = there is no limit, because it goes to every member."""
        if policy.dispatch_times is None:
            return None
        return max(0, policy.dispatch_times - self.handed.get(identity, 0))

    def remaining(self, of: Candidate | Held) -> int:
        """How often it is yet to be handed out: what is left, or how many members lack it."""
        left = self.left(of.identity, of.policy)
        if left is None:
            people = 0 if of.owner is None else self.people.get(of.owner, 0)
            left = max(0, people - self.taken(of))
        return left

    def taken(self, of: Candidate | Held) -> int:
        """How often it has been handed out, or how many of the members have had it."""
        if of.policy.dispatch_times is None and of.owner is not None:
            return self.had.get((of.identity, of.owner), 0)
        return self.handed.get(of.identity, 0)

    def _count(self, of: Candidate | Held, change: int) -> None:
        self.handed[of.identity] = max(0, self.handed.get(of.identity, 0) + change)
        if of.owner is not None:
            key = of.identity, of.owner
            self.had[key] = max(0, self.had.get(key, 0) + change)

    def close(self, held: Held, state: str, now: datetime) -> None:
        """The open dispatch ends in that state."""
        keeps = keeps_stock(held.policy, state)
        if not keeps:
            self._count(held, -1)
        before = self.latest.get(held.identity)
        self.latest[held.identity] = PastDispatch(
            number=held.number,
            rounds=held.rounds,
            state=state,
            holds_stock=keeps,
            finished_at=now,
            earlier_counts=before is not None and before.earlier_counts,
        )

    def close_if_expired(self, held: Held | None, now: datetime) -> Held | None:
        """What a pull makes of the open dispatch first: past its deadline it is over."""
        if held is None or held.deadline_at > now or not held.can_expire:
            return held
        self.close(held, EXPIRED, now)
        return None

    def hand_out(self, candidate: Candidate, given: Verdict, now: datetime) -> None:
        """The executor gets it and finishes it at once."""
        identity = candidate.identity
        if given.carried is None:
            self._count(candidate, 1)
        last = self.latest.get(identity)
        self.latest[identity] = PastDispatch(
            number=0,
            rounds=1 if last is None else last.rounds + 1,
            state=SUCCEEDED,
            holds_stock=True,
            finished_at=now,
        )


@dataclass(frozen=True, kw_only=True)
class Held:
    """The dispatch that an executor has open; `rounds` counts it, `owner` has its task.

    One whose task is gone has no policy to expire by: it `can_expire` not.
    """

    number: int
    title: str
    identity: Identity
    occurrence_at: datetime
    deadline_at: datetime
    rounds: int
    policy: Policy
    priority: int
    owner: int | None = None
    can_expire: bool = True


class Step(NamedTuple):
    """One hand-out at the instant `at`: of an open dispatch, which has number and title, or of a
    candidate.

    `left` is how often it was yet to be handed out just before.
    """

    at: datetime
    source: str
    task: int
    occurrence_at: datetime
    priority: int
    left: int
    number: int | None = None
    title: str | None = None


def steps_of_user(
    queue: Queue, past: Past, held: Held | None, *, now: datetime, until: datetime, windows: Windows
) -> Iterator[Step]:
    """What a user would get from `now` to before `until`, in this order; `past` moves on with it.

    The open dispatch is first, unless its deadline has passed: it then ends by its task's policy,
    if the task is there.
    """
    held = past.close_if_expired(held, now)
    if held is not None and now < until:
        yield _step_of(held, past, now)
        past.close(held, SUCCEEDED, now)
    at: datetime | None = now
    over: set[Identity] = set()
    while at is not None and at < until:
        cooling: list[datetime] = []
        for candidate in queue.due(at, windows(at)):
            identity, policy = candidate.identity, candidate.policy
            # A blocking task comes again at once.
            while identity not in over:
                given, left = past.verdict_of(identity, policy, at), past.left(identity, policy)
                if given.until is not None:
                    cooling.append(given.until)
                if given.code == ALREADY_TAKEN or (left == 0 and given.carried is None):
                    over.add(identity)
                elif given.allows:
                    yield _step(candidate, past.remaining(candidate), at)
                    past.hand_out(candidate, given, at)
                    continue
                break
        if len(over) >= _MAX_OVER:
            queue.drop(over)
            over = set()
        at = _next(queue, at, cooling)


def steps_of_group(
    queue: Queue, past: Past, *, now: datetime, until: datetime, windows: Windows
) -> Iterator[Step]:
    """The occurrences that the members of a group could get from `now` to before `until`.

    Each once: a missed one that is made up for is due again beside the next one.
    """
    at: datetime | None = now
    seen_before: set[Identity] = set()
    while at is not None and at < until:
        seen: set[Identity] = set()
        for candidate in queue.due(at, windows(at)):
            if candidate.identity in seen_before:
                continue
            seen.add(candidate.identity)
            left = past.remaining(candidate)
            # What nobody has had is shown, even if the group has no members yet.
            if left or not past.taken(candidate):
                yield _step(candidate, left, at)
        seen_before |= seen
        queue.drop(seen)
        at = _next(queue, at, [])


def _next(queue: Queue, at: datetime, cooling: list[datetime]) -> datetime | None:
    coming = queue.next_at(at)
    return min([*cooling, *([] if coming is None else [coming])], default=None)


def _step(candidate: Candidate, left: int, at: datetime) -> Step:
    return Step(
        at, candidate.source, candidate.task, candidate.occurrence_at, candidate.priority, left
    )


def _step_of(held: Held, past: Past, now: datetime) -> Step:
    source, task, _ = held.identity
    left = past.remaining(held)
    return Step(now, source, task, held.occurrence_at, held.priority, left, held.number, held.title)
