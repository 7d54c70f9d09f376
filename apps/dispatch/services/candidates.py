"""The candidates of a user, with their stock and earlier dispatches."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, islice, repeat, starmap
from typing import Any, NamedTuple

from apps.common.db import fetch, fetch_each, force_index, instant, placeholders, table
from apps.dispatch.models import Dispatch, Stock
from apps.dispatch.rules.policy import ALREADY_TAKEN, RETRY_SAME, PastDispatch, Policy, verdict
from apps.dispatch.rules.queue import Candidate, Identity
from apps.dispatch.services import queue
from apps.dispatch.services.state import ExecutorState

# Candidates whose facts are read at once; usually one of the first is free.
_FIRST_CHUNK = 16
_CHUNKS = (64, 512)


class Eligible(NamedTuple):
    """A candidate that seems eligible: the user's latest dispatch of it, that dispatch's number
    if its stock is carried over, and whether the occurrence has a stock row."""

    candidate: Candidate
    last: PastDispatch | None
    carried: int | None
    has_stock: bool


class Candidates:
    """What a user could have at one moment, as far as stock and earlier dispatches show.

    It may be outdated when it is used: a claim checks everything again. `next_at` is when the
    next one is due, known when `eligible` is exhausted; None = never. `any_due`: something was due,
    eligible or not.
    """

    def __init__(self, state: ExecutorState, now: datetime) -> None:
        self.next_at: datetime | None = None
        self.any_due = False
        self._state = state
        self._now = now
        self._closed: set[Identity] = set()
        self._entry = queue.entry_of(state, now=now) if state.enabled else None

    def eligible(self) -> Iterator[Eligible]:
        """Yields candidates in hand-out order. The caller asks for the next one only after losing
        the previous one."""
        self._closed.clear()
        if self._entry is None:
            return
        due = self._entry.queue.due(self._now, queue.window_at(self._now))
        chunk = list(islice(due, _FIRST_CHUNK))
        sizes = chain(_CHUNKS, repeat(_CHUNKS[-1]))
        while chunk:
            self.any_due = True
            facts = facts_of(self._state.pk, chunk)
            for candidate in chunk:
                if eligible := self._checked(candidate, facts):
                    yield eligible
            chunk = []
            while not chunk and (some := list(islice(due, next(sizes)))):
                chunk = self._without_used_up(some)
        self._note(self._entry.queue.next_at(self._now))
        # What starts after the frame is not known yet.
        self._note(self._entry.queue.frame.upper)

    def _without_used_up(self, candidates: list[Candidate]) -> list[Candidate]:
        """Passes over tasks of groups without stock: of those, stock alone is read, at a quarter of
        the cost of all facts. A retry needs none."""
        handed = handed_of(candidates)
        return [
            each
            for each in candidates
            if each.owner == self._state.pk
            or each.policy.on_failure == RETRY_SAME
            or not _is_used_up(each.policy, handed.get(each.identity))
        ]

    def _checked(self, candidate: Candidate, facts: Facts) -> Eligible | None:
        identity, policy = candidate.identity, candidate.policy
        handed, last = facts.handed.get(identity), facts.latest.get(identity)
        answer = verdict(policy, last, self._now)
        self._note(answer.until)
        if answer.code == ALREADY_TAKEN:
            self._closed.add(identity)
        if not answer.allows:
            return None
        if answer.carried is None and _is_used_up(policy, handed):
            return None
        return Eligible(candidate, last, answer.carried, handed is not None)

    def _note(self, at: datetime | None) -> None:
        if at is not None and (self.next_at is None or at < self.next_at):
            self.next_at = at

    def close(self) -> None:
        """Drop from the cached queue what the user can never receive again."""
        if self._entry is not None and self._closed:
            queue.close(self._state.pk, self._entry, self._closed, now=self._now)


def _is_used_up(policy: Policy, handed: int | None) -> bool:
    return policy.dispatch_times is not None and (handed or 0) >= policy.dispatch_times


class Facts(NamedTuple):
    """Occurrences in the tables: how often each is handed out, if it has a stock row, and the
    user's latest dispatch of each."""

    handed: dict[Identity, int]
    latest: dict[Identity, PastDispatch]

    def add(
        self, source: str, task: int, occurrence: int, handed: int, number: int | None, *past: Any
    ) -> None:
        """One occurrence, as the statement has it."""
        identity = (source, task, occurrence)
        self.handed[identity] = handed
        if number is not None:
            earlier, state, holds, finished, earlier_counts = past
            self.latest[identity] = PastDispatch(
                number=number,
                rounds=earlier + 1,
                state=state,
                holds_stock=bool(holds),
                finished_at=instant(finished),
                earlier_counts=bool(earlier_counts),
            )


def facts_of(executor: int, candidates: Iterable[Candidate]) -> Facts:
    """Both in one read of one row per candidate, however often it was handed out.

    Whatever has been handed out has a stock row, so that those lead to the dispatches.
    """
    facts = Facts({}, {})
    for _executor, *fact in fetch(*_facts_asked(executor, candidates)):
        facts.add(*fact)
    return facts


def facts_of_each(asked: Iterable[tuple[int, Iterable[Candidate]]]) -> dict[int, Facts]:
    """The same of many executors, by executor; one without any fact is left out."""
    found: dict[int, Facts] = {}
    for executor, *fact in fetch_each(starmap(_facts_asked, asked)):
        found.setdefault(executor, Facts({}, {})).add(*fact)
    return found


def _facts_asked(executor: int, candidates: Iterable[Candidate]) -> tuple[str, list[Any]]:
    where, parameters = _among(candidates)
    return _facts_statement() + where, [*[executor] * 4, *parameters]


@functools.cache
def _facts_statement() -> str:
    dispatches, rounds = table(Dispatch), force_index("dispatch_once_per_round")
    return (
        "SELECT %s, s.source, s.task, s.occurrence, s.handed, "
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
