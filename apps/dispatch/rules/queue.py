"""The order in which due occurrences are handed out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from apps.dispatch.rules.window import Window

ONCE = "once"
ROTATE = "rotate"


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One occurrence that its executor could get, if stock and policy allow it then.

    `has_stock`: it has been handed out before, so its stock row exists.
    """

    source: str
    task: int
    occurrence: int
    occurrence_at: datetime
    end_at: datetime | None
    priority: int
    has_stock: bool = False

    @property
    def order(self) -> tuple[int, datetime, str, int]:
        """Total and stable: the higher priority, then the earlier, then once before rotate."""
        return (-self.priority, self.occurrence_at, self.source, self.task)


@dataclass(frozen=True, slots=True)
class Split:
    """What is due now, in hand-out order, and the first instant at which more will be."""

    due: list[Candidate]
    next_at: datetime | None


def split(candidates: Iterable[Candidate], *, now: datetime, window: Window) -> Split:
    """Split the candidates inside the window at `now`; an ended one (end_at ≤ now) drops out."""
    due: list[Candidate] = []
    next_at: datetime | None = None
    for candidate in candidates:
        if candidate.end_at is not None and candidate.end_at <= now:
            continue
        if candidate.occurrence_at not in window:
            continue
        if candidate.occurrence_at <= now:
            due.append(candidate)
        elif next_at is None or candidate.occurrence_at < next_at:
            next_at = candidate.occurrence_at
    due.sort(key=lambda candidate: candidate.order)
    return Split(due, next_at)
