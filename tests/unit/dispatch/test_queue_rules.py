"""S0.21, I8: the order of the due is total and stable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

from apps.dispatch.rules.queue import Candidate, split
from apps.dispatch.rules.window import Window

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
FRAME = Window(NOW - timedelta(hours=6), NOW + timedelta(hours=6))


def candidate(task: int, *, minutes: float = -1, **fields: Any) -> Candidate:
    return Candidate(
        **{
            "source": "once",
            "task": task,
            "occurrence": 0,
            "occurrence_at": NOW + timedelta(minutes=minutes),
            "end_at": None,
            "priority": 0,
            **fields,
        }
    )


def test_due_are_ordered_by_priority_then_due_instant_then_source_then_id() -> None:
    ordered = [
        candidate(9, priority=5),
        candidate(8, minutes=-3),
        candidate(2, minutes=-2),
        candidate(3, minutes=-2),
        candidate(1, minutes=-2, source="rotate"),
        candidate(4, priority=-1, minutes=-200),
    ]
    for shuffled in permutations(ordered):
        assert split(shuffled, now=NOW, window=FRAME).due == ordered


def test_due_is_from_the_instant_itself() -> None:
    parted = split([candidate(1, minutes=0)], now=NOW, window=FRAME)
    assert [c.task for c in parted.due] == [1]


def test_future_is_told_but_not_handed_out() -> None:
    parted = split([candidate(1, minutes=90), candidate(2, minutes=30)], now=NOW, window=FRAME)
    assert parted.due == []
    assert parted.next_at == NOW + timedelta(minutes=30)


def test_ended_and_outside_the_window_drop_out() -> None:
    parted = split(
        [
            candidate(1, end_at=NOW),
            candidate(2, minutes=-361),
            candidate(3, minutes=361),
            candidate(4, end_at=NOW + timedelta(microseconds=1)),
        ],
        now=NOW,
        window=FRAME,
    )
    assert [c.task for c in parted.due] == [4]
    assert parted.next_at is None
