"""What an executor would get over time: a simulation of its own queue.

It finishes every task at once, and no other executor takes any. Order, window and verdicts are
those of a pull; only the clock and the hand-outs are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

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


class Windows(Protocol):
    """The window at an instant, for an executor whose latest work was due at `latest_done`."""

    def __call__(self, now: datetime, latest_done: datetime | None) -> Window: ...


@dataclass(kw_only=True)
class Past:
    """What has been handed out: the stock that counts, and one executor's latest dispatches."""

    handed: dict[Identity, int]
    latest: dict[Identity, PastDispatch]
    latest_done: datetime | None = None

    def verdict_of(self, identity: Identity, policy: Policy, now: datetime) -> Verdict:
        """What the executor's latest dispatch of it says about another one."""
        return verdict(policy, self.latest.get(identity), now)

    def left(self, identity: Identity, policy: Policy) -> int | None:
        """How much stock is left; None = unlimited."""
        if policy.dispatch_times is None:
            return None
        return max(0, policy.dispatch_times - self.handed.get(identity, 0))

    def close(self, held: Held, state: str, now: datetime) -> None:
        """The open dispatch ends in that state."""
        keeps = keeps_stock(held.policy, state)
        if not keeps:
            self.handed[held.identity] = max(0, self.handed.get(held.identity, 0) - 1)
        before = self.latest.get(held.identity)
        self.latest[held.identity] = PastDispatch(
            number=held.number,
            rounds=held.rounds,
            state=state,
            holds_stock=keeps,
            finished_at=now,
            earlier_counts=before is not None and before.earlier_counts,
        )
        if state == SUCCEEDED:
            self.latest_done = held.occurrence_at

    def close_if_expired(self, held: Held | None, now: datetime) -> Held | None:
        """What a pull makes of the open dispatch first: past its deadline it is over."""
        if held is None or held.deadline_at > now:
            return held
        self.close(held, EXPIRED, now)
        return None

    def hand_out(self, candidate: Candidate, given: Verdict, now: datetime) -> None:
        """The executor gets it and finishes it at once."""
        identity = candidate.identity
        if given.carried is None:
            self.handed[identity] = self.handed.get(identity, 0) + 1
        last = self.latest.get(identity)
        self.latest[identity] = PastDispatch(
            number=0,
            rounds=1 if last is None else last.rounds + 1,
            state=SUCCEEDED,
            holds_stock=True,
            finished_at=now,
        )
        self.latest_done = candidate.occurrence_at


@dataclass(frozen=True, kw_only=True)
class Held:
    """The dispatch that an executor has open; `rounds` counts it."""

    number: int
    identity: Identity
    occurrence_at: datetime
    deadline_at: datetime
    rounds: int
    policy: Policy
    priority: int


class Step(NamedTuple):
    """One hand-out at the instant `at`: by an open dispatch's number, or of a candidate.

    `left` is the stock just before it, None when it is unlimited.
    """

    at: datetime
    source: str
    task: int
    occurrence_at: datetime
    priority: int
    left: int | None
    number: int | None = None


def steps_of_user(
    queue: Queue, past: Past, held: Held | None, *, now: datetime, until: datetime, windows: Windows
) -> Iterator[Step]:
    """What a user would get from `now` to before `until`, in this order; `past` moves on with it.

    The open dispatch is first, unless its deadline has passed: it then ends by its task's policy.
    """
    held = past.close_if_expired(held, now)
    if held is not None and now < until:
        yield _step_of(held, past, now)
        past.close(held, SUCCEEDED, now)
    at: datetime | None = now
    over: set[Identity] = set()
    while at is not None and at < until:
        cooling: list[datetime] = []
        window = windows(at, past.latest_done)
        for candidate in queue.due(at, window):
            identity, policy = candidate.identity, candidate.policy
            if identity in over:
                continue
            # The window moves on with what is done; a blocking task comes again at once.
            while candidate.occurrence_at in window:
                given, left = past.verdict_of(identity, policy, at), past.left(identity, policy)
                if given.until is not None:
                    cooling.append(given.until)
                if given.code == ALREADY_TAKEN or (left == 0 and given.carried is None):
                    over.add(identity)
                    break
                if not given.allows:
                    break
                yield _step(candidate, left, at)
                past.hand_out(candidate, given, at)
                window = windows(at, past.latest_done)
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
        for candidate in queue.due(at, windows(at, None)):
            if candidate.identity in seen_before:
                continue
            seen.add(candidate.identity)
            left = past.left(candidate.identity, candidate.policy)
            if left != 0:
                yield _step(candidate, left, at)
        seen_before |= seen
        queue.drop(seen)
        at = _next(queue, at, [])


def _next(queue: Queue, at: datetime, cooling: list[datetime]) -> datetime | None:
    coming = queue.next_at(at)
    return min([*cooling, *([] if coming is None else [coming])], default=None)


def _step(candidate: Candidate, left: int | None, at: datetime) -> Step:
    return Step(
        at, candidate.source, candidate.task, candidate.occurrence_at, candidate.priority, left
    )


def _step_of(held: Held, past: Past, now: datetime) -> Step:
    source, task, _ = held.identity
    left = past.left(held.identity, held.policy)
    return Step(now, source, task, held.occurrence_at, held.priority, left, held.number)
