"""The personal queue of a user: from the cache while its plan stands, else built anew."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

from apps.common.db import fetch, force_index, instant, placeholders, table, transactional
from apps.dispatch import cache
from apps.dispatch.cache import Entry, Plan
from apps.dispatch.conf import conf
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.dispatch.rules.policy import ALREADY_TAKEN, OPEN, PastDispatch, verdict
from apps.dispatch.rules.queue import Candidate, Identity, Queue
from apps.dispatch.rules.window import Window
from apps.dispatch.services import memory
from apps.dispatch.services.memory import Looked, Quiet, note_past
from apps.dispatch.services.plan import plan_of
from apps.dispatch.services.standing import Standing, standing_of

# So much work put into a queue since it was saved is worth saving it again. A process that loads it
# may find that what the user has done fills the first chunk, but then not the second.
WORTH_SAVING = 32
_A_MINUTE = timedelta(minutes=1)
_CHUNKS = (16, 64, 512)
# What is remembered of one user, beside what decides about its next task.
_MAX_LOOKED = 100


class Opening(NamedTuple):
    """A candidate that seems to be free, with the user's latest dispatch of it; `has_stock`: its
    stock row exists already."""

    candidate: Candidate
    last: PastDispatch | None
    has_stock: bool


class Ahead:
    """What a user could have at one moment, as far as stock and earlier dispatches tell.

    It may be behind by the time it is used: a hand-out checks everything again. `next_at` is when
    more could be had, known once all openings have been looked at; None = nothing is ahead.
    `has_looked`: something was due, whether or not it could be had. `ending` is the user's open
    dispatch as it will be when it has ended, for those who end it in the same transaction.
    """

    def __init__(
        self,
        standing: Standing,
        *,
        now: datetime,
        ending: tuple[Identity, PastDispatch] | None = None,
    ) -> None:
        self.next_at: datetime | None = None
        self.has_looked = False
        self._ending = ending
        self._standing = standing
        self._now = now
        self._closed: set[Identity] = set()
        self._looked = dict(standing.memory.looked)
        if ending is not None:
            note_past(self._looked, *ending)
        self._entry = entry_of(standing, now=now) if standing.enabled else None

    def openings(self) -> Iterator[Opening]:
        """In hand-out order, most often the first can be had; who asks for another has lost it.

        Those remembered come first, as long as they will do, then others, looked up in growing
        chunks.
        """
        if self._entry is None:
            return
        queue = self._entry.queue
        due = queue.due(self._now, self._standing.window(self._now))
        for candidate in due:
            if self._will_do(candidate):
                opening = self._judged(candidate)
                if opening is None:
                    continue
                yield opening
            due = chain([candidate], due)
            break
        sizes = chain(_CHUNKS, repeat(_CHUNKS[-1]))
        while chunk := list(islice(due, next(sizes))):
            self._look_up(chunk)
            for candidate in chunk:
                if opening := self._judged(candidate):
                    yield opening
                    del self._looked[candidate.identity]
        self._note(queue.next_at(self._now))
        # What starts after the frame is not known yet.
        self._note(queue.frame.upper)

    def _will_do(self, candidate: Candidate) -> bool:
        """Whether what is remembered of it is worth a try.

        What the user has had is known for certain. Of the stock others take and give back: what was
        used up may be so no more, and where there was none, each of them may have begun it.
        """
        looked = self._looked.get(candidate.identity)
        if looked is None:
            return False
        if looked.handed is None:
            return candidate.owner == self._standing.pk
        return not _is_used_up(candidate, looked)

    def _look_up(self, chunk: list[Candidate]) -> None:
        handed, latest = facts_of(self._standing.pk, chunk)
        for candidate in chunk:
            identity = candidate.identity
            self._looked[identity] = Looked(handed.get(identity), latest.get(identity))

    def _judged(self, candidate: Candidate) -> Opening | None:
        """The candidate as an opening, if it seems to be free."""
        self.has_looked = True
        identity = candidate.identity
        looked = self._looked[identity]
        last = looked.last
        if self._ending is not None and self._ending[0] == identity and last is not None:
            last = replace(self._ending[1], earlier_counts=last.earlier_counts)
        answer = verdict(candidate.policy, last, self._now)
        self._note(answer.until)
        if answer.code == ALREADY_TAKEN:
            self._closed.add(identity)
        if not answer.allows or (answer.carried is None and _is_used_up(candidate, looked)):
            return None
        return Opening(candidate, last, looked.handed is not None)

    def _note(self, at: datetime | None) -> None:
        if at is not None and (self.next_at is None or at < self.next_at):
            self.next_at = at

    def save_lessons(self, taken: Dispatch | None = None) -> None:
        """Keep what was learned about the cached queue, once it is worth a write, and in this
        process what was looked at and what was taken."""
        if self._entry is None:
            return
        standing = self._standing
        self._entry.queue.drop(self._closed)
        if self._entry.queue.unsaved >= WORTH_SAVING:
            cache.save(standing.pk, self._entry, now=self._now)
        # How one ends that is open now may never be told: its id may be older than `since`.
        looked = {
            identity: each
            for identity, each in self._looked.items()
            if identity not in self._closed and (each.last is None or each.last.state != OPEN)
        }
        if len(looked) > _MAX_LOOKED:
            looked = dict(list(looked.items())[-_MAX_LOOKED:])
        quiet = None
        if self.next_at is not None and not self.has_looked:
            quiet = Quiet(standing.versions, self.next_at)
        held = None if taken is None else standing.holding(taken)
        seen = standing.memory.seen(standing.latest_done, looked, quiet, held)
        memory.keep(standing.name, seen)


def _is_used_up(candidate: Candidate, looked: Looked) -> bool:
    limit = candidate.policy.dispatch_times
    return limit is not None and (looked.handed or 0) >= limit


def entry_of(standing: Standing, *, now: datetime) -> Entry:
    """The cached queue if it was built for this plan and this window, else a new one."""
    entry = cache.load(standing.pk, standing.versions)
    if entry is not None and entry.queue.covers(standing.window(now), now):
        return entry
    entry = build(standing, now=now)
    # Begun before an edit, it is of no use to anybody after it.
    if standing_of(standing.pk).versions == entry.versions:
        cache.save(standing.pk, entry, now=now)
    return entry


def rebuilt(executor: int, *, now: datetime) -> Entry:
    """The queue of the user made anew from the tables, here and, at its next pull, in every other
    process, which holds one of its own; so are those of the other members of its groups."""
    transactional(Executor.objects.filter(pk__in=standing_of(executor).owners).raise_plan_version)()
    return entry_of(standing_of(executor), now=now)


def build(standing: Standing, *, now: datetime) -> Entry:
    """The queue made of the plans of the user and its groups."""
    frame = standing.window(now)
    known = cache.load_plans(standing.versions)
    plans = []
    for owner, version in standing.versions:
        plan = known.get(owner)
        if plan is None or not _fits(plan, frame, now):
            plan = _shared_plan(owner, version, frame, now)
        plans.append(plan)
    # It ends with the first of its plans.
    frame = Window(frame.lower, min(plan.frame.upper for plan in plans))
    queue = Queue(chain.from_iterable(plan.tasks for plan in plans), frame=frame, now=now)
    return Entry(standing.versions, now, queue)


def _fits(plan: Plan, frame: Window, now: datetime) -> bool:
    return plan.frame.lower <= frame.lower and now < plan.frame.upper


def _shared_plan(owner: int, version: int, frame: Window, now: datetime) -> Plan:
    """The plan at that version; of many that miss it one builds, the others wait a little."""
    with cache.building(owner) as mine:
        # Another may have finished it since it was looked for.
        if mine:
            plan = cache.load_plans(((owner, version),)).get(owner)
        else:
            plan = cache.await_plan(owner, version)
        if plan is not None and _fits(plan, frame, now):
            return plan
        frame = Window(_depth(frame, now), frame.upper)
        plan = Plan(version, frame, plan_of([owner], frame, now=now))
        if Executor.objects.filter(pk=owner, plan_version=version).exists():
            cache.save_plan(owner, plan, now=now)
        return plan


def _depth(frame: Window, now: datetime) -> datetime:
    """How far back a plan is read: the members at work share one, all others a deeper one.

    A little deeper than its reader needs, for those who looked at the clock a moment before.
    """
    recent = now - timedelta(hours=conf.DISPATCH_WINDOW_HOURS)
    return (recent if frame.lower >= recent else now - conf.DISPATCH_LOOKBACK) - _A_MINUTE


class Facts(NamedTuple):
    """What the tables say of occurrences: how often each is handed out, where it has a stock row,
    and a user's latest dispatch of each that it has had."""

    handed: dict[Identity, int]
    latest: dict[Identity, PastDispatch]


def facts_of(executor: int, candidates: Iterable[Candidate]) -> Facts:
    """Both in one read of as many rows as there are candidates, however often each was handed out.

    Whatever has been handed out has a stock row, so that those lead to the dispatches.
    """
    where, parameters = _among(candidates)
    facts = Facts({}, {})
    for source, task, occurrence, handed, number, *past in fetch(
        _facts_statement() + where, [executor, executor, executor, *parameters]
    ):
        identity = (source, task, occurrence)
        facts.handed[identity] = handed
        if number is not None:
            earlier, state, holds, finished, earlier_counts = past
            facts.latest[identity] = PastDispatch(
                number=number,
                rounds=earlier + 1,
                state=state,
                holds_stock=bool(holds),
                finished_at=instant(finished),
                earlier_counts=bool(earlier_counts),
            )
    return facts


@functools.cache
def _facts_statement() -> str:
    dispatches, rounds = table(Dispatch), force_index("dispatch_once_per_round")
    return (
        "SELECT s.source, s.task, s.occurrence, s.handed, "
        "d.id, d.round, d.state, d.holds_stock, d.finished_at, "
        f"d.round > 0 AND EXISTS (SELECT 1 FROM {dispatches} w{rounds} WHERE w.executor_id = %s "
        "AND w.source = d.source AND w.task = d.task AND w.occurrence = d.occurrence "
        "AND w.round < d.round AND w.holds_stock) "
        f"FROM {table(Stock)} s LEFT JOIN {dispatches} d{rounds} ON d.executor_id = %s "
        "AND d.source = s.source AND d.task = s.task AND d.occurrence = s.occurrence "
        f"AND d.round = (SELECT MAX(x.round) FROM {dispatches} x{rounds} WHERE x.executor_id = %s "
        "AND x.source = s.source AND x.task = s.task AND x.occurrence = s.occurrence) "
        "WHERE "
    )


def handed_of(candidates: Iterable[Candidate]) -> dict[Identity, int]:
    """How often those occurrences are handed out; one without a stock row is left out."""
    where, parameters = _among(candidates)
    rows = fetch(
        f"SELECT source, task, occurrence, handed FROM {table(Stock)} s WHERE {where}",
        parameters,
    )
    return {(source, task, occurrence): handed for source, task, occurrence, handed in rows}


def _among(candidates: Iterable[Candidate]) -> tuple[str, list[Any]]:
    """The condition on the stock `s`, in a shape that its unique key serves."""
    tasks: dict[tuple[str, int], list[int]] = {}
    for candidate in candidates:
        tasks.setdefault((candidate.source, candidate.occurrence), []).append(candidate.task)
    parts, parameters = [], []
    for (source, occurrence), numbers in tasks.items():
        parts.append(
            f"(s.source = %s AND s.task IN ({placeholders(len(numbers))}) AND s.occurrence = %s)"
        )
        parameters += [source, *numbers, occurrence]
    return " OR ".join(parts), parameters
