"""I26, I27: which journal entries of a job contradict each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.jobs.rules.history import (
    GAP,
    ILLEGAL,
    OVERLAP,
    TWICE,
    UNSIGNED,
    Flaw,
    JobEntry,
    Now,
    flaws,
    follows,
)

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
APART = timedelta(seconds=5)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def entry(seconds: float, from_state: str, to_state: str, **more: Any) -> JobEntry:
    fields: dict[str, Any] = {"event": "any", "actor": "admin:olga", **more}
    return JobEntry(
        made_at=at(seconds), at=at(seconds), from_state=from_state, to_state=to_state, **fields
    )


def held(seconds: float, hold: int, since: datetime) -> JobEntry:
    """A hold that is over then."""
    return entry(seconds, "running", "ready", hold=hold, held_at=since)


def flaws_of(
    *history: JobEntry, status: str, hold: int = 0, held_at: datetime | None = None
) -> Any:
    return list(flaws(history, Now(status, hold, held_at), apart=APART))


def test_life_with_a_retry_is_whole() -> None:
    entries = [
        entry(0, "running", "scheduled", hold=1, held_at=at(-10)),
        entry(60, "running", "failed", hold=2, held_at=at(50)),
        entry(120, "failed", "ready"),
        entry(180, "running", "succeeded", hold=3, held_at=at(170)),
    ]
    assert flaws_of(*entries, status="succeeded", hold=3, held_at=at(170)) == []


def test_only_promotion_and_hold_are_not_journaled(subtests: pytest.Subtests) -> None:
    for before, after, can in (
        ("scheduled", "running", True),
        ("ready", "running", True),
        ("ready", "scheduled", False),
        ("failed", "ready", False),
        ("running", "ready", False),
        ("succeeded", "succeeded", True),
    ):
        with subtests.test(before=before, after=after):
            assert follows(before, after) is can


# What the entries say, the state of the row, and what contradicts.
HISTORIES: dict[str, tuple[list[JobEntry], str, list[Flaw]]] = {
    "an arrow that is not listed": (
        [entry(0, "succeeded", "failed")],
        "failed",
        [Flaw(ILLEGAL, "succeeded", "failed")],
    ),
    "only a person leaves a final state": (
        [entry(0, "failed", "ready", actor="")],
        "ready",
        [Flaw(UNSIGNED, "failed", "ready")],
    ),
    "a worker ends an attempt": ([entry(0, "running", "failed", actor="")], "failed", []),
    "a gap between two entries": (
        [entry(0, "running", "succeeded"), entry(60, "running", "failed")],
        "failed",
        [Flaw(GAP, "succeeded", "running")],
    ),
    "a gap between the last entry and the row": (
        [entry(0, "running", "succeeded")],
        "cancelled",
        [Flaw(GAP, "succeeded", "cancelled")],
    ),
    # Two processes' clocks differ: the retry is written with the earlier number.
    "too close to be ordered": (
        [entry(0, "failed", "ready"), entry(0.01, "running", "failed")],
        "ready",
        [],
    ),
    "far enough apart": (
        [entry(0, "failed", "ready"), entry(60, "running", "failed")],
        "ready",
        [Flaw(GAP, "failed", "ready")],
    ),
    "stale reports change nothing": (
        [entry(0, "running", "cancelled"), entry(60, "cancelled", "cancelled", event="stale")],
        "cancelled",
        [],
    ),
    "one hold ends once": (
        [held(0, 1, at(-10)), held(60, 1, at(-10))],
        "ready",
        [Flaw(TWICE, "1", "1")],
    ),
    "the next hold begins after the end": ([held(0, 1, at(-10)), held(60, 2, at(-4))], "ready", []),
    "the next hold begins before the end": (
        [held(0, 1, at(-10)), held(60, 2, at(-6))],
        "ready",
        [Flaw(OVERLAP, "1", "2")],
    ),
}


def test_what_contradicts_is_found(subtests: pytest.Subtests) -> None:
    for name, (entries, status, found) in HISTORIES.items():
        with subtests.test(name):
            assert flaws_of(*entries, status=status) == found


def test_hold_under_way_counts_too() -> None:
    entries = [held(0, 1, at(-10))]
    assert flaws_of(*entries, status="running", hold=2, held_at=at(1)) == []
    assert flaws_of(*entries, status="running", hold=2, held_at=at(-8)) == [Flaw(OVERLAP, "1", "2")]
