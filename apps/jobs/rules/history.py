"""Finds contradictions between the journal entries of a job: in its states and its attempts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, permutations
from typing import NamedTuple

from apps.jobs.rules import transitions as t

# More entries than this within a moment are not ordered.
MAX_TOGETHER = 6
STALE = "stale"

ILLEGAL, UNSIGNED, GAP, TWICE, OVERLAP = "illegal", "unsigned", "gap", "twice", "overlap"

_BY: dict[tuple[str, str], set[str]] = {}
# An undo may lead from any of these states to another, and its entries say that they are one.
_UNDO, UNDONE = t.ARROWS["undo"], "undone"
for _arrow in (each for each in t.ARROWS.values() if each is not _UNDO):
    for _source in _arrow.sources:
        for _target in _arrow.targets:
            _BY.setdefault((_source, _target), set()).add(_arrow.by)

# Promotion and hold write no entry: the states that a job may reach without one.
_NEXT_WITHOUT_ENTRY = {
    t.SCHEDULED: {t.SCHEDULED, t.BLOCKED, t.READY, t.RUNNING},
    t.BLOCKED: {t.BLOCKED, t.READY, t.RUNNING},
    t.READY: {t.READY, t.RUNNING},
}


class JobEntry(NamedTuple):
    """One entry about a job; `hold` and `held_at` belong to the end of an attempt.

    `made_at` orders entries as exactly as the clocks of processes agree.
    """

    made_at: datetime
    at: datetime
    event: str
    from_state: str
    to_state: str
    actor: str = ""
    hold: int | None = None
    held_at: datetime | None = None


class Flaw(NamedTuple):
    """A contradiction; `first` and `second` are states, or numbers of holds."""

    kind: str
    first: str
    second: str


class Now(NamedTuple):
    """The job at present; `hold` and `held_at` are those of its latest hold."""

    status: str
    hold: int
    held_at: datetime | None


def flaws(history: Sequence[JobEntry], now: Now, *, apart: timedelta) -> Iterator[Flaw]:
    """The contradictions between the latest entries of a job and its present row.

    Times closer than `apart` prove nothing.
    """
    moves = [each for each in history if each.from_state and each.event != STALE]
    moves.sort(key=lambda move: move.made_at)
    wrong = [flaw for move in moves if move.from_state != move.to_state for flaw in _wrong(move)]
    yield from wrong
    if not wrong:
        yield from _gaps(moves, now.status, apart)
    yield from _attempt_flaws(moves, now, apart)


def follows(before: str, after: str) -> bool:
    """Whether the next entry, or the row, may be in `after` once an entry ended in `before`."""
    return after in _NEXT_WITHOUT_ENTRY.get(before, {before})


def _wrong(move: JobEntry) -> Iterator[Flaw]:
    """The table must have the arrow; arrows of operators need an actor."""
    by = _BY.get((move.from_state, move.to_state))
    if move.event == UNDONE and _UNDO.allows(move.from_state, move.to_state):
        by = {t.OPERATOR}
    if by is None:
        yield Flaw(ILLEGAL, move.from_state, move.to_state)
    elif by == {t.OPERATOR} and not move.actor:
        yield Flaw(UNSIGNED, move.from_state, move.to_state)


def _gaps(moves: Sequence[JobEntry], status: str, apart: timedelta) -> Iterator[Flaw]:
    """Entries that start from another state than the previous one ended in."""
    possible = set(t.STATUSES)
    for together in _clusters(moves, apart):
        after = _ends(together, possible)
        if not after:
            yield Flaw(GAP, " or ".join(sorted(possible)), together[0].from_state)
            return
        possible = after
    if moves and not any(follows(state, status) for state in possible):
        yield Flaw(GAP, " or ".join(sorted(possible)), status)


def _clusters(moves: Sequence[JobEntry], apart: timedelta) -> Iterator[list[JobEntry]]:
    """The entries in order; those whose order is uncertain are grouped."""
    cluster: list[JobEntry] = []
    for move in moves:
        if cluster and move.made_at - cluster[-1].made_at > apart:
            yield cluster
            cluster = []
        cluster.append(move)
    if cluster:
        yield cluster


def _ends(together: list[JobEntry], possible: set[str]) -> set[str]:
    """The states in which the entries can end, over all their orders."""
    if len(together) > MAX_TOGETHER:
        return set(t.STATUSES)
    ends = set()
    for order in set(permutations((move.from_state, move.to_state) for move in together)):
        starts = any(follows(state, order[0][0]) for state in possible)
        if starts and all(follows(one[1], next_[0]) for one, next_ in pairwise(order)):
            ends.add(order[-1][1])
    return ends


def _attempt_flaws(moves: Sequence[JobEntry], now: Now, apart: timedelta) -> Iterator[Flaw]:
    """Each hold ends once, and the next one begins after that."""
    ended = [
        (move.hold, move.held_at, move.at)
        for move in moves
        if move.hold is not None and move.held_at is not None
    ]
    if now.status == t.RUNNING and now.held_at is not None:
        ended.append((now.hold, now.held_at, now.held_at))
    ended.sort()
    for (hold, _, at), (next_hold, held_at, _) in pairwise(ended):
        if hold == next_hold:
            yield Flaw(TWICE, str(hold), str(hold))
        elif held_at < at - apart:
            yield Flaw(OVERLAP, str(hold), str(next_hold))
