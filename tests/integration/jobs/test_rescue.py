"""S1.7, S1.8, S1.10, I29, I38: attempts that nobody reports on, and where they go on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.jobs.errors import LeaseLost
from apps.jobs.models import Job, JobType
from apps.jobs.services.discard import discard_exhausted
from apps.jobs.services.leases import Sign, renew
from apps.jobs.services.promote import promote_due
from apps.jobs.services.register import WorkerKey
from apps.jobs.services.rescue import free_hosts
from tests.frozen import FrozenClock
from tests.jobs import THERE, end, events_of, job_type, jobs, last_entry, rescue, row, take

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_attempt_is_rescued_when_its_lease_is_over(frozen_clock: FrozenClock) -> None:
    """S1.7, S1.10: and it has used up an attempt."""
    job_type(lease_seconds=30)
    [number] = jobs(1)
    take()
    frozen_clock.advance(seconds=29.9)
    assert rescue(frozen_clock) == 0
    frozen_clock.advance(seconds=0.1)

    assert rescue(frozen_clock) == 1

    job = row(number)
    assert (job.status, job.attempts, job.last_end) == ("ready", 1, "lost")
    assert last_entry(number).reason == "its worker was lost"


def test_attempt_past_its_deadline_is_a_timeout(frozen_clock: FrozenClock) -> None:
    job_type(lease_seconds=30, max_processing_seconds=40)
    [number] = jobs(1)
    [held] = take()
    frozen_clock.advance(seconds=20)
    assert renew(signs=[Sign(id=held.id, token=held.token)]) == [(held.hard_end_at, False, None)]
    assert row(held.id).lease_until == held.hard_end_at
    frozen_clock.advance(seconds=20)

    [answer] = renew(signs=[Sign(id=held.id, token=held.token)])
    assert isinstance(answer, LeaseLost)
    assert rescue(frozen_clock) == 1
    assert row(number).last_end == "timed_out"


def test_job_that_always_times_out_ends_as_failed(frozen_clock: FrozenClock) -> None:
    """S1.10: the endless rerun of the original."""
    job_type(max_processing_seconds=10, retry_delay_seconds=0)
    [number] = jobs(1)
    for _ in range(3):
        assert len(take()) == 1
        frozen_clock.advance(seconds=11)
        rescue(frozen_clock)

    assert row(number).status == "failed"
    assert take() == []
    assert events_of(number) == ["timed_out"] * 3


def test_jobs_of_a_lost_worker_are_rescued_before_their_leases_end(
    frozen_clock: FrozenClock,
) -> None:
    job_type()
    jobs(2)
    [mine] = take(1)
    [other] = take(1, by=THERE)

    assert rescue(frozen_clock, lost=[WorkerKey("", "host-a:1")]) == 1
    assert row(mine.id).status == "ready"
    assert row(other.id).status == "running"


def test_rescued_job_asked_to_stop_is_cancelled(frozen_clock: FrozenClock) -> None:
    job_type()
    [number] = jobs(1)
    take()
    Job.objects.filter(pk=number).update(cancel_requested=True)
    frozen_clock.advance(seconds=31)
    rescue(frozen_clock)

    assert row(number).status == "cancelled"


def test_retry_waits_for_its_host_while_that_lives_and_the_grace_lasts(
    frozen_clock: FrozenClock,
) -> None:
    """S1.8, I38."""
    job_type(origin="prefer", origin_grace_seconds=60, retry_delay_seconds=0, max_attempts=9)
    [number] = jobs(1)
    end(take()[0], "failed")

    assert take(by=THERE) == []
    assert free_hosts(alive=["host-a"], now=frozen_clock.advance(seconds=59)) == 0
    assert free_hosts(alive=["host-a"], now=frozen_clock.advance(seconds=1)) == 1
    [held] = take(by=THERE)
    assert held.id == number
    end(held, "failed")
    assert free_hosts(alive=["host-a"], now=frozen_clock.instant) == 1
    assert len(take()) == 1


def test_job_lost_twice_in_a_row_waits_for_the_delay_of_its_type(frozen_clock: FrozenClock) -> None:
    """One that kills its workers leaves time to those beside it."""
    job_type(retry_delay_seconds=10, retry_multiplier=1, max_attempts=9)
    [number] = jobs()
    waits = []
    for how in ("lost", "lost", "lost", "released", "lost", "failed", "lost"):
        promote_due()
        [held] = take()
        if how == "lost":
            frozen_clock.advance(seconds=31)
            rescue(frozen_clock)
        else:
            end(held, how)
        waits.append((row(number).run_at - frozen_clock.instant).total_seconds())
        frozen_clock.advance(seconds=waits[-1])

    assert waits == [0, 10, 10, 0, 0, 10, 0]


def test_running_job_of_a_type_that_is_gone_ends_when_its_lease_does(
    frozen_clock: FrozenClock, settings: Any
) -> None:
    """I29. Its type was deleted in the moment in which it was held; it keeps no other back."""
    settings.JOB_RESCUE_BATCH = 1
    job_type("mail")
    job_type("web")
    [orphan] = jobs(1)
    take()
    JobType.objects.filter(name="mail").delete()
    frozen_clock.advance(seconds=1)
    [other] = jobs(1, "web")
    take(types=("web",))
    frozen_clock.advance(seconds=31)

    assert rescue(frozen_clock) == 2
    assert {row(orphan).status, row(other).status} <= {"ready", "scheduled"}
    assert row(orphan).last_end == "lost"
    frozen_clock.advance(seconds=60)
    promote_due()
    discard_exhausted(until=frozen_clock.instant + timedelta(seconds=1))
    assert (row(orphan).status, row(orphan).memo) == (
        "failed",
        "there is no job type mail any more",
    )
