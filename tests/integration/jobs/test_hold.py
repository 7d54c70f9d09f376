"""S1.6, S1.8, S1.15, S1.19, S4.2-S4.7, I38: who holds what, in which order."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import OperationalError, connection

from apps.common import clock
from apps.jobs.errors import LeaseLost
from apps.jobs.models import Job, JobType
from apps.jobs.services import claim
from apps.jobs.services.discard import discard_exhausted
from apps.jobs.services.hold import due_types
from apps.jobs.services.leases import Heartbeat, renew
from apps.jobs.services.promote import promote_due
from apps.jobs.services.rescue import free_hosts
from tests.frozen import FrozenClock
from tests.jobs import HERE, THERE, end, events_of, held_jobs, job_type, jobs, rescue, row, take

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_held_jobs_are_running_under_one_new_token() -> None:
    """I40, S2.14: what comes back is the rows as they are now."""
    job_type(lease_seconds=30, max_processing_seconds=900)
    [number] = jobs(1, key="order-1", trace_id="t1")

    [held] = take()

    job = row(number)
    assert (held.id, held.key, held.attempt) == (number, "order-1", 1)
    assert held.context == {"position": 0}
    assert (job.status, job.attempts, job.holds, job.version) == ("running", 1, 1, 2)
    assert job.lease_token == held.token
    assert len(held.token) == 32
    assert (job.worker, job.host, job.client) == (HERE.name, HERE.host, "")
    assert job.lease_until - job.held_at == timedelta(seconds=30)
    assert job.hard_end_at - job.held_at == timedelta(seconds=900)
    assert job.started_at == job.held_at == held.held_at
    assert held.trace_id == "t1"


def test_lease_never_outlasts_the_deadline() -> None:
    [held] = held_jobs(lease_seconds=30, max_processing_seconds=10)

    assert held.lease_until == held.hard_end_at


def test_only_due_jobs_are_held_for_the_time_of_their_type(frozen_clock: FrozenClock) -> None:
    """S2.11: whatever the limit; a type that says nothing has the general time."""
    job_type("mail")
    job_type("film", max_processing_seconds=7200)
    numbers = [*jobs(2, "mail"), *jobs(2, "film")]
    jobs(3, "mail", run_at=frozen_clock.instant + timedelta(milliseconds=1))

    held = take(1000, types=("mail", "film"))

    assert sorted(each.id for each in held) == sorted(numbers)
    times = {each.type: each.hard_end_at - frozen_clock.instant for each in held}
    general = JobType._meta.get_field("max_processing_seconds").default
    assert times == {"mail": timedelta(seconds=general), "film": timedelta(hours=2)}


def test_jobs_of_one_order_key_are_held_by_id() -> None:
    """Jobs for any host and those for this one are read separately and merged."""
    job_type()
    numbers = jobs(9)
    Job.objects.filter(pk__in=numbers[1::3]).update(affinity_host=HERE.host)
    assert Job.objects.values("order_key").distinct().count() == 1

    held = [[job.id for job in take(limit)] for limit in (2, 3, 4)]

    assert held == [numbers[:2], numbers[2:5], numbers[5:]]


def test_hold_takes_no_more_than_asked_for_nor_than_the_type_allows() -> None:
    job_type(batch_limit=4)
    jobs(10)

    assert len(take(3)) == 3
    assert len(take(100)) == 4


def test_types_share_the_slots_by_weight() -> None:
    """S2.18"""
    job_type("mail", weight=3)
    job_type("bill", weight=1)
    jobs(100, "mail")
    jobs(100, "bill")

    held = take(40, types=("mail", "bill"))

    assert Counter(job.type for job in held) == {"mail": 30, "bill": 10}


def test_lock_lost_at_one_type_leaves_nothing_of_another_held_unseen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each type is held by a statement of its own, here the second one fails."""
    run, calls = claim.execute_and_fetch, count(1)
    lost = [1213, "Deadlock found"] if connection.vendor == "mysql" else ["database is locked"]

    def locked(*arguments: Any, **named: Any) -> Any:
        if next(calls) == 1:
            raise OperationalError(*lost)
        return run(*arguments, **named)

    monkeypatch.setattr(claim, "execute_and_fetch", locked)
    job_type("mail")
    job_type("web")
    mails, pages = jobs(2), jobs(2, "web")

    first = take(types=("mail", "web"))
    second = take(types=("mail", "web"))

    assert [held.id for held in first] == mails
    assert [held.id for held in second] == pages
    assert {row(number).lease_token for number in mails} == {first[0].token}


def test_type_that_has_the_turn_is_first_in_the_batch() -> None:
    """S4.2, S4.14, S4.15: so not always the same type is given back behind a long job."""
    job_type("mail")
    job_type("bill")
    jobs(10, "mail")
    jobs(10, "bill")

    batches = [[job.type for job in take(4, types=("mail", "bill"), rotation=n)] for n in range(2)]

    assert batches == [["bill", "bill", "mail", "mail"], ["mail", "mail", "bill", "bill"]]


def test_job_is_found_among_more_types_than_a_statement_has_parts() -> None:
    """SQLite takes 500, and each type is asked for two hosts."""
    now = clock.now()
    names = [f"type-{number:03}" for number in range(600)]
    JobType.objects.bulk_create(
        [JobType(name=name, created_at=now, updated_at=now) for name in names]
    )
    numbers = [jobs(1, name)[0] for name in names[-300:]]

    assert due_types(names) == set(names[-300:])
    assert sorted(held.id for held in take(500, types=tuple(names))) == numbers


def test_paused_type_is_left_alone_until_its_pause_is_over(frozen_clock: FrozenClock) -> None:
    job_type(paused=True, paused_until=frozen_clock.instant + timedelta(minutes=5))
    jobs(1)

    assert take() == []
    assert due_types(["mail"]) == set()
    frozen_clock.advance(minutes=5)
    assert due_types(["mail"]) == {"mail"}
    assert len(take()) == 1


def test_type_or_job_meant_for_a_host_is_held_there_alone() -> None:
    """S1.8, S1.19."""
    job_type(allowed_hosts=["host-b"])
    job_type("bill")
    numbers = [*jobs(1), *jobs(1, "bill", affinity_host="host-b")]

    assert take(types=("mail", "bill"), by=HERE) == []
    assert {held.id for held in take(types=("mail", "bill"), by=THERE)} == {*numbers}
    assert {row(number).affinity_host for number in numbers} == {""}


def test_used_up_or_expired_job_is_failed_when_its_turn_comes(frozen_clock: FrozenClock) -> None:
    """S1.11, S1.14: instead of run."""
    job_type(expires_after_seconds=60)
    [spent] = jobs(1, attempts=3, max_attempts=3)
    [old] = jobs(1, run_at=frozen_clock.instant - timedelta(seconds=60))
    [fresh] = jobs(1, run_at=frozen_clock.instant - timedelta(seconds=59))

    assert [held.id for held in take()] == [fresh]
    assert (row(spent).status, row(spent).memo) == ("failed", "3 of 3 tries are used")
    assert events_of(spent) == ["gave_up"]
    assert row(old).status == "failed"
    assert "expired" in row(old).memo


def test_exhausted_jobs_of_a_paused_type_are_discarded_by_the_sweep(
    frozen_clock: FrozenClock,
) -> None:
    job_type(expires_after_seconds=60, paused=True)
    old = jobs(3, run_at=frozen_clock.instant - timedelta(seconds=61))
    [spent] = jobs(1, attempts=3, max_attempts=3)
    [fresh] = jobs(1)
    job_type("bill", paused=True)
    [other] = jobs(1, "bill", attempts=3, max_attempts=3)

    assert discard_exhausted(until=frozen_clock.instant + timedelta(seconds=1)) == 5

    assert {row(number).status for number in [*old, spent, other]} == {"failed"}
    assert row(fresh).status == "ready"
    assert discard_exhausted(until=frozen_clock.instant + timedelta(seconds=1)) == 0


def test_job_of_a_type_that_is_gone_ends_as_failed_and_says_why() -> None:
    """Its type was deleted within the second in which another process still took jobs of it."""
    job_type("mail")
    job_type("web")
    [orphan], [other] = jobs(1), jobs(1, "web")
    JobType.objects.filter(name="mail").delete()

    assert discard_exhausted(until=clock.now() + timedelta(minutes=5)) == 1
    assert events_of(orphan) == ["gave_up"]
    assert (row(orphan).status, row(other).status) == ("failed", "ready")
    assert row(orphan).memo == "there is no job type mail any more"
    assert row(orphan).error_key
    assert discard_exhausted(until=clock.now() + timedelta(minutes=5)) == 0


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
    # What waits for no host is left alone.
    assert free_hosts(alive=["host-a"], now=frozen_clock.instant) == 0
    [held] = take(by=THERE)
    assert held.id == number
    end(held, "failed")
    assert free_hosts(alive=["host-a"], now=frozen_clock.instant) == 1
    assert len(take()) == 1


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
    assert row(orphan).memo == "there is no job type mail any more"


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


def test_attempt_past_its_deadline_is_a_timeout(frozen_clock: FrozenClock) -> None:
    [held] = held_jobs(lease_seconds=30, max_processing_seconds=40)
    frozen_clock.advance(seconds=20)
    assert renew(heartbeats=[Heartbeat(id=held.id, token=held.token)]) == [
        (held.hard_end_at, False, None)
    ]
    assert row(held.id).lease_until == held.hard_end_at
    frozen_clock.advance(seconds=20)

    [answer] = renew(heartbeats=[Heartbeat(id=held.id, token=held.token)])
    assert isinstance(answer, LeaseLost)
    assert rescue(frozen_clock) == 1
    assert row(held.id).last_end == "timed_out"
