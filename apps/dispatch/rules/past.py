"""The earlier hand-outs that decide about pulls, previews, explanations and states of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.policy import (
    EXPIRED,
    SUCCEEDED,
    PastDispatch,
    Verdict,
    keeps_stock,
    verdict,
)
from apps.dispatch.rules.queue import Candidate, Identity


@dataclass(frozen=True, kw_only=True)
class Held:
    """The dispatch that an executor has open, of this candidate; `rounds` counts it.

    One whose task is gone has no policy to expire by: it `can_expire` not.
    """

    number: int
    title: str
    candidate: Candidate
    deadline_at: datetime
    rounds: int
    can_expire: bool = True

    def with_plan(self, changed: Planned) -> Held:
        """The dispatch with the changed policy, priority and owner, if it is of that task."""
        of = self.candidate
        if (of.source, of.task) != (changed.source, changed.task):
            return self
        now = of._replace(policy=changed.policy, priority=changed.priority, owner=changed.owner)
        return replace(self, candidate=now)


@dataclass(kw_only=True)
class Past:
    """The earlier hand-outs: the stock that counts, and one executor's latest dispatches.

    `handed` has the occurrences with a stock row. `people`: how many there are behind each executor
    whose tasks go to every member; `had`: how many of them have had an occurrence.
    """

    handed: dict[Identity, int] = field(default_factory=dict)
    latest: dict[Identity, PastDispatch] = field(default_factory=dict)
    people: dict[int, int] = field(default_factory=dict)
    had: dict[tuple[Identity, int], int] = field(default_factory=dict)

    def copy(self) -> Past:
        return Past(
            handed=dict(self.handed),
            latest=dict(self.latest),
            people=self.people,
            had=dict(self.had),
        )

    def verdict_on(self, of: Candidate, now: datetime, *, is_asked: bool = False) -> Verdict:
        """The verdict of the executor's latest dispatch of the candidate over another one."""
        return verdict(of.policy, self.latest.get(of.identity), now, is_asked=is_asked)

    def is_used_up(self, of: Candidate) -> bool:
        """Whether no stock is left; an occurrence that goes to every member has no limit."""
        times = of.policy.dispatch_times
        return times is not None and self.handed.get(of.identity, 0) >= times

    def quota(self, of: Candidate) -> int:
        """How often the occurrence is to be handed out; if it goes to every member, the number of
        members."""
        if of.policy.dispatch_times is not None:
            return of.policy.dispatch_times
        return 0 if of.owner is None else self.people.get(of.owner, 0)

    def taken(self, of: Candidate) -> int:
        """How often the occurrence has been handed out, or how many of the members have had it."""
        if of.policy.dispatch_times is None and of.owner is not None:
            return self.had.get((of.identity, of.owner), 0)
        return self.handed.get(of.identity, 0)

    def remaining(self, of: Candidate) -> int:
        """How often the occurrence is yet to be handed out, or how many members lack it."""
        return max(0, self.quota(of) - self.taken(of))

    def _count(self, of: Candidate, change: int) -> None:
        self.handed[of.identity] = max(0, self.handed.get(of.identity, 0) + change)
        if of.owner is not None:
            key = of.identity, of.owner
            self.had[key] = max(0, self.had.get(key, 0) + change)

    def close(self, held: Held, state: str, now: datetime) -> None:
        """End the open dispatch in that state."""
        identity = held.candidate.identity
        keeps = keeps_stock(held.candidate.policy, state)
        if not keeps:
            self._count(held.candidate, -1)
        before = self.latest.get(identity)
        self.latest[identity] = PastDispatch(
            number=held.number,
            rounds=held.rounds,
            state=state,
            holds_stock=keeps,
            finished_at=now,
            earlier_counts=before is not None and before.earlier_counts,
        )

    def close_if_expired(self, held: Held | None, now: datetime) -> Held | None:
        """The open dispatch; None when it is past its deadline and closed, as a pull closes it
        first."""
        if held is None or held.deadline_at > now or not held.can_expire:
            return held
        self.close(held, EXPIRED, now)
        return None

    def hand_out(self, candidate: Candidate, given: Verdict, now: datetime) -> None:
        """Hand the occurrence to the executor, who finishes it at once."""
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
