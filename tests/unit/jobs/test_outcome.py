"""S1.9-S1.14, I28: what becomes of a job when its attempt ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from apps.jobs.models import JobType
from apps.jobs.rules.outcome import Next, Outcome, next_of
from apps.jobs.rules.transitions import LockedJob
from apps.jobs.rules.type_snapshot import PREFER_ORIGIN, TypeSnapshot

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
POLICY = JobType(name="mail", handler="mail").snapshot
JOB = LockedJob(
    id=1,
    type="mail",
    status="running",
    stage="",
    priority=0,
    attempts=1,
    max_attempts=3,
    holds=1,
    last_end="",
    lease_token="x",
    worker="host-a:1",
    client="",
    host="host-a",
    cancel_requested=False,
    trace_id="",
    run_at=NOON - timedelta(minutes=1),
    expected_at=NOON - timedelta(minutes=1),
    held_at=NOON,
)


def after(end: str, job: LockedJob = JOB, policy: TypeSnapshot = POLICY, **wishes: object) -> Next:
    outcome = Outcome(id=1, token="x", end=end, **wishes)  # type: ignore[arg-type]
    return next_of(job, outcome, policy, NOON, chance=0.5)


def test_each_ending_takes_its_arrow(subtests: pytest.Subtests) -> None:
    for end, status, attempts, seconds in (
        ("succeeded", "succeeded", 1, -60),
        ("failed", "scheduled", 1, 10),
        ("timed_out", "scheduled", 1, 10),
        ("lost", "ready", 1, 0),
        ("stage_done", "ready", 0, 0),
        ("released", "ready", 0, 0),
        ("cancelled", "cancelled", 1, -60),
    ):
        with subtests.test(end=end):
            job = after(end)
            assert (job.status, job.attempts) == (status, attempts)
            assert job.run_at == NOON + timedelta(seconds=seconds)
    assert after("released", JOB._replace(attempts=0)).attempts == 0


def test_last_attempt_ends_as_failed_and_says_why() -> None:
    """Also when the maximum was lowered meanwhile."""
    for end in ("failed", "timed_out", "lost"):
        job = after(end, JOB._replace(attempts=3))
        assert (job.status, job.why) == ("failed", "try 3 of 3 was the last"), end
    assert after("failed", JOB._replace(attempts=2, max_attempts=1)).status == "failed"


def test_handler_may_ask_for_no_retry_or_a_later_one() -> None:
    assert after("failed", retry="never").status == "failed"
    assert after("failed", retry_after=timedelta(hours=2)).run_at == NOON + timedelta(hours=2)


def test_wait_that_another_server_asks_for_is_the_usual_to_the_longest_of_the_type() -> None:
    """Thirty nines would put the job off for a year, and a 0 would use up its tries."""
    usual, longest = timedelta(seconds=POLICY.backoff.delay), timedelta(seconds=POLICY.backoff.cap)
    for asked in (timedelta(), usual + timedelta(seconds=1), longest, timedelta(days=366)):
        job = after("failed", retry_after=asked, retry="asked")
        assert job.run_at == NOON + max(usual, min(asked, longest))


def test_past_its_expiry_it_is_not_tried_again() -> None:
    policy = replace(POLICY, expires_after=timedelta(seconds=60))

    assert after("failed", policy=policy).why == "it has expired"
    assert after("failed", JOB._replace(expected_at=NOON), policy).status == "scheduled"


def test_wish_to_cancel_wins_unless_the_attempt_succeeds(subtests: pytest.Subtests) -> None:
    for end in ("failed", "lost", "timed_out", "released", "stage_done"):
        with subtests.test(end=end):
            asked = JOB._replace(cancel_requested=True)
            assert after(end, asked).status == "cancelled"
            assert after("succeeded", asked).status == "succeeded"


def test_retry_goes_to_the_host_that_ran_it_for_a_grace_time() -> None:
    """S1.8: origin prefer."""
    job = after("failed", policy=replace(POLICY, origin=PREFER_ORIGIN))

    assert job.affinity_host == "host-a"
    assert job.affinity_until == NOON + timedelta(seconds=10 + 60)
    assert after("failed").affinity_host == ""
