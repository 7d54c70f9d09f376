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


def test_arrow_that_is_not_listed_is_illegal() -> None:
    assert flaws_of(entry(0, "succeeded", "failed"), status="failed") == [
        Flaw(ILLEGAL, "succeeded", "failed")
    ]


def test_final_state_is_left_by_a_person_only() -> None:
    assert flaws_of(entry(0, "failed", "ready", actor=""), status="ready") == [
        Flaw(UNSIGNED, "failed", "ready")
    ]


def test_worker_ends_an_attempt_without_a_person() -> None:
    assert flaws_of(entry(0, "running", "failed", actor=""), status="failed") == []


def test_gap_between_two_entries_is_found() -> None:
    entries = [entry(0, "running", "succeeded"), entry(60, "running", "failed")]
    assert flaws_of(*entries, status="failed") == [Flaw(GAP, "succeeded", "running")]


def test_gap_between_the_last_entry_and_the_row_is_found() -> None:
    assert flaws_of(entry(0, "running", "succeeded"), status="cancelled") == [
        Flaw(GAP, "succeeded", "cancelled")
    ]


def test_entries_too_close_to_be_ordered_may_have_happened_either_way() -> None:
    """Two processes' clocks differ: the retry is written with the earlier number."""
    entries = [entry(0, "failed", "ready"), entry(0.01, "running", "failed")]
    assert flaws_of(*entries, status="ready") == []
    apart = [entry(0, "failed", "ready"), entry(60, "running", "failed")]
    assert flaws_of(*apart, status="ready") == [Flaw(GAP, "failed", "ready")]


def test_stale_reports_change_nothing() -> None:
    entries = [entry(0, "running", "cancelled"), entry(60, "cancelled", "cancelled", event="stale")]
    assert flaws_of(*entries, status="cancelled") == []


def test_entries_of_unknown_kinds_without_a_change_are_let_pass() -> None:
    entries = [entry(0, "running", "succeeded"), entry(60, "succeeded", "succeeded", event="noted")]
    assert flaws_of(*entries, status="succeeded") == []


def test_one_hold_ends_once() -> None:
    entries = [
        entry(0, "running", "ready", hold=1, held_at=at(-10)),
        entry(60, "running", "ready", hold=1, held_at=at(-10)),
    ]
    assert flaws_of(*entries, status="ready") == [Flaw(TWICE, "1", "1")]


@pytest.mark.parametrize(("early", "found"), [(4, []), (6, [Flaw(OVERLAP, "1", "2")])])
def test_next_hold_begins_after_the_end_of_the_one_before(early: float, found: Any) -> None:
    entries = [
        entry(0, "running", "ready", hold=1, held_at=at(-10)),
        entry(60, "running", "ready", hold=2, held_at=at(-early)),
    ]
    assert flaws_of(*entries, status="ready") == found


def test_hold_under_way_counts_too() -> None:
    entries = [entry(0, "running", "ready", hold=1, held_at=at(-10))]
    assert flaws_of(*entries, status="running", hold=2, held_at=at(1)) == []
    assert flaws_of(*entries, status="running", hold=2, held_at=at(-8)) == [Flaw(OVERLAP, "1", "2")]
