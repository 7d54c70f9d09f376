"""What each entry of the journal counts as, as a table."""

from __future__ import annotations

from itertools import product

import pytest

from apps.jobs.rules import outcome
from apps.jobs.rules import transitions as t
from apps.reports.rules.outcomes import DISPATCH_ENDS, ENDS, JOB_ENDS, RETRIES, success_rate

ENDINGS = [
    # (event, state before, state after, counts as)
    ("succeeded", "running", "succeeded", "succeeded"),
    ("failed", "running", "failed", "failed"),
    ("failed", "running", "ready", "retried"),
    ("failed", "running", "scheduled", "retried"),
    ("failed", "running", "cancelled", "cancelled"),
    ("timed_out", "running", "failed", "timed_out"),
    ("timed_out", "running", "ready", "retried"),
    ("timed_out", "running", "scheduled", "retried"),
    ("timed_out", "running", "cancelled", "cancelled"),
    ("lost", "running", "failed", "failed"),
    ("lost", "running", "ready", "retried"),
    ("lost", "running", "scheduled", "retried"),
    ("lost", "running", "cancelled", "cancelled"),
    ("stage_done", "running", "ready", "stage_done"),
    ("stage_done", "running", "scheduled", "stage_done"),
    ("stage_done", "running", "blocked", "stage_done"),
    ("stage_done", "running", "cancelled", "cancelled"),
    ("released", "running", "ready", "released"),
    ("released", "running", "scheduled", "released"),
    ("released", "running", "cancelled", "cancelled"),
    ("yielded", "running", "ready", "released"),
    ("yielded", "running", "scheduled", "released"),
    ("yielded", "running", "blocked", "released"),
    ("yielded", "running", "cancelled", "cancelled"),
    ("interrupted", "running", "ready", "released"),
    ("interrupted", "running", "scheduled", "released"),
    ("interrupted", "running", "blocked", "released"),
    ("interrupted", "running", "cancelled", "cancelled"),
    ("cancelled", "running", "cancelled", "cancelled"),
    ("gave_up", "ready", "failed", "failed"),
    ("gave_up", "scheduled", "failed", "failed"),
    ("gave_up", "blocked", "failed", "failed"),
    ("edited", "ready", "failed", "failed"),
    ("edited", "scheduled", "failed", "failed"),
    ("edited", "blocked", "failed", "failed"),
    ("expired", "ready", "failed", "expired"),
    ("expired", "scheduled", "failed", "expired"),
    ("expired", "blocked", "failed", "expired"),
    ("cancelled", "ready", "cancelled", "cancelled"),
    ("cancelled", "scheduled", "cancelled", "cancelled"),
    ("cancelled", "blocked", "cancelled", "cancelled"),
    ("marked_done", "ready", "succeeded", "succeeded"),
    ("marked_done", "scheduled", "succeeded", "succeeded"),
    ("marked_done", "blocked", "succeeded", "succeeded"),
    ("marked_done", "failed", "succeeded", "succeeded"),
]


def test_ends_of_jobs() -> None:
    assert sorted((*entry, counts_as) for entry, counts_as in JOB_ENDS.items()) == sorted(ENDINGS)


def test_every_end_of_an_attempt_that_can_be_is_counted() -> None:
    events = {t.END_CANCELLED, *outcome.OUTCOMES, *outcome.LOSSES}
    arrows = [arrow for arrow in t.ARROWS.values() if t.RUNNING in arrow.sources]
    states = {state for arrow in arrows for state in arrow.targets} - {t.RUNNING}
    counted = {(event, after) for event, before, after in JOB_ENDS if before == t.RUNNING}
    again = {t.END_FAILED, t.END_STAGE_DONE, t.END_RELEASED, *outcome.PUT_OFF, *outcome.LOSSES}
    possible = {
        *product(again, {t.SCHEDULED, t.READY}),
        *product({t.END_STAGE_DONE, *outcome.PUT_OFF}, {t.BLOCKED}),
        *product(events - {t.END_SUCCEEDED}, {t.CANCELLED}),
        *product({t.END_FAILED, *outcome.LOSSES}, {t.FAILED}),
        (t.END_SUCCEEDED, t.SUCCEEDED),
    }
    assert counted == possible
    assert {after for _, after in counted} == states


def test_every_way_into_a_final_state_is_counted() -> None:
    ways = {
        (source, target)
        for arrow in t.ARROWS.values()
        # That was counted when it ended first.
        if arrow.name != "undo"
        for source in arrow.sources
        for target in arrow.targets
        if target in t.FINAL
    }
    assert ways == {(before, after) for _, before, after in JOB_ENDS if after in t.FINAL}


def test_dispatch_counts_as_it_ended(subtests: pytest.Subtests) -> None:
    for state in ("succeeded", "failed", "expired", "released", "cancelled"):
        with subtests.test(state=state):
            assert DISPATCH_ENDS[state, "open", state] == state
            # And handed over, which counts as released.
            assert len(DISPATCH_ENDS) == 6


def test_what_ends_nothing_counts_as_nothing(subtests: pytest.Subtests) -> None:
    for entry in (
        ("dispatch", "handed_out", "", "open"),
        ("dispatch", "handed_out", "succeeded", "open"),
        ("dispatch", "handed_out", "released", "open"),
        ("dispatch", "late_result", "expired", "expired"),
        ("job", "stale", "running", "running"),
        ("job", "retried", "failed", "ready"),
        ("job", "run_now", "scheduled", "ready"),
        ("job", "edited", "ready", "scheduled"),
        ("job", "cancel_requested", "running", "running"),
        ("plan", "task_deleted", "", ""),
    ):
        with subtests.test(entry=entry):
            assert entry not in ENDS
            assert entry not in RETRIES


@pytest.mark.parametrize("before", ["failed", "expired"])
def test_hand_out_after_no_success_is_a_retry(before: str) -> None:
    assert ("dispatch", "handed_out", before, "open") in RETRIES
    assert len(RETRIES) == 2


def test_success_rate_is_of_what_ended_by_itself() -> None:
    assert success_rate(succeeded=6, failed=1, timed_out=2, expired=3) == 0.5
    assert success_rate(succeeded=0, failed=0, timed_out=0, expired=0) is None
