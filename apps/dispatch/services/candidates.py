"""The candidates of a user, with their stock and earlier dispatches."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice, repeat
from typing import NamedTuple

from apps.dispatch.rules.past import Past
from apps.dispatch.rules.policy import ALREADY_TAKEN, RETRY_SAME, PastDispatch
from apps.dispatch.rules.queue import Candidate, Identity
from apps.dispatch.services import queue
from apps.dispatch.services.executor_state import ExecutorState
from apps.dispatch.services.past import handed_of, past_of

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
    """The occurrences that a user could get at one moment, as far as stock and earlier dispatches
    show.

    They may be outdated when they are used: a claim checks everything again. `next_at` is when the
    next one is due, known when `eligible` is exhausted; None = never. `any_due`: an occurrence was
    due, eligible or not.
    """

    def __init__(self, state: ExecutorState, now: datetime) -> None:
        self.next_at: datetime | None = None
        self.any_due = False
        self._state = state
        self._now = now
        self._closed: set[Identity] = set()
        self._entry = queue.entry_of(state, now=now) if state.enabled else None

    def eligible(self) -> Iterator[Eligible]:
        """Yields candidates in hand-out order. The caller goes on only after losing the candidate
        before."""
        self._closed.clear()
        if self._entry is None:
            return
        due = self._entry.queue.due(self._now, queue.window_at(self._now))
        chunk = list(islice(due, _FIRST_CHUNK))
        sizes = chain(_CHUNKS, repeat(_CHUNKS[-1]))
        while chunk:
            self.any_due = True
            past = past_of(self._state.pk, chunk)
            for candidate in chunk:
                if eligible := self._check(candidate, past):
                    yield eligible
            chunk = []
            while not chunk and (some := list(islice(due, next(sizes)))):
                chunk = self._without_used_up(some)
        self._note(self._entry.queue.next_at(self._now))
        # Tasks that start after the frame are not known yet.
        self._note(self._entry.queue.frame.upper)

    def _without_used_up(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates without tasks of groups that have no stock left: for these stock alone is
        read, at a quarter of the cost of all facts. A retry needs no stock."""
        stock = Past(handed=handed_of(candidates))
        return [
            each
            for each in candidates
            if each.owner == self._state.pk
            or each.policy.on_failure == RETRY_SAME
            or not stock.is_used_up(each)
        ]

    def _check(self, candidate: Candidate, past: Past) -> Eligible | None:
        answer = past.verdict_on(candidate, self._now)
        self._note(answer.until)
        if not answer.allows:
            if answer.code == ALREADY_TAKEN:
                self._closed.add(candidate.identity)
            return None
        if answer.carried is None and past.is_used_up(candidate):
            return None
        last = past.latest.get(candidate.identity)
        return Eligible(candidate, last, answer.carried, candidate.identity in past.handed)

    def _note(self, at: datetime | None) -> None:
        if at is not None and (self.next_at is None or at < self.next_at):
            self.next_at = at

    def close(self) -> None:
        """Drop the occurrences that the user can never receive again from the cached queue."""
        if self._entry is not None and self._closed:
            self._entry.queue.drop(self._closed)
