"""I26, I27, I30, I58: a change between reading and writing is not overwritten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.common import clock
from apps.common.errors import Conflict
from apps.jobs.errors import LeaseLost
from apps.jobs.models import Job
from apps.jobs.services import settle as settling
from apps.jobs.services.discard import discard
from apps.jobs.services.leases import checkpoint, progress
from apps.jobs.services.type_snapshots import type_snapshots
from tests.frozen import FrozenClock
from tests.jobs import end, held_jobs, job_type, jobs, row, take

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@contextmanager
def before_update(change: Callable[[], Any]) -> Iterator[None]:
    """Let something happen just before the first UPDATE of jobs in the block."""
    pending = [change]

    def intercept(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if pending and sql.startswith("UPDATE") and "jobs_job" in sql:
            pending.pop()()
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(intercept):
        yield
    assert not pending


CHANGES: list[dict[str, Any]] = [
    {"status": "cancelled"},
    {"status": "scheduled"},
    {"max_attempts": 0},
    {"affinity_host": "host-b"},
]


def test_job_changed_after_the_peek_is_not_held_or_as_it_is_now(subtests: pytest.Subtests) -> None:
    """I40: with the new context, not the one that was there a moment ago."""
    job_type()
    for change in CHANGES:
        with subtests.test(change=change):
            changed, other = jobs(2)

            with before_update(lambda n=changed, to=change: Job.objects.filter(pk=n).update(**to)):
                held = take()

            assert [job.id for job in held] == [other]
            assert row(changed).holds == 0
    [number] = jobs(1)
    with before_update(lambda: Job.objects.filter(pk=number).update(context={"new": 1})):
        [edited] = take()
    assert edited.context == {"new": 1}


def test_hold_that_waited_for_a_lock_begins_after_the_end_of_the_one_before(
    frozen_clock: FrozenClock,
) -> None:
    """I27: a database that stood still for ten seconds lets many holds of a job go on at once."""
    job_type(retry_delay_seconds=0)
    jobs(1)

    def hold_and_fail() -> None:
        frozen_clock.advance(seconds=10)
        end(take()[0], "failed")

    with before_update(hold_and_fail):
        [held] = take()

    assert held.held_at == frozen_clock.instant


def test_job_put_off_after_the_scan_saw_it_is_not_promoted(frozen_clock: FrozenClock) -> None:
    job_type()
    [number] = jobs(1, run_at=frozen_clock.instant + timedelta(seconds=1))
    frozen_clock.advance(seconds=2)
    later = frozen_clock.instant + timedelta(hours=1)

    with before_update(lambda: Job.objects.filter(pk=number).update(run_at=later)):
        assert take() == []

    assert row(number).status == "scheduled"


def test_what_a_checkpoint_or_a_new_lease_overtakes_is_judged_anew() -> None:
    """I37: an earlier checkpoint is refused, progress beside one is kept, a lost lease is lost."""
    [held] = held_jobs()
    job = Job.objects.filter(pk=held.id)
    lease = {"job": held.id, "token": held.token}

    with (
        before_update(lambda: job.update(sequence=5, checkpoint="later")),
        pytest.raises(Conflict, match="Checkpoint 5 is kept already"),
    ):
        checkpoint(**lease, data="earlier", sequence=2)
    with before_update(lambda: job.update(sequence=6)):
        progress(**lease, percent=40)

    kept = row(held.id)
    assert (kept.progress, kept.checkpoint, kept.sequence) == (40, "later", 6)
    with before_update(lambda: job.update(lease_token="other")), pytest.raises(LeaseLost):
        progress(**lease, percent=50)


def test_running_or_ended_job_is_not_discarded() -> None:
    job_type()
    [running, done] = jobs(2)
    take(1)
    Job.objects.filter(pk=running).update(max_attempts=1)
    Job.objects.filter(pk=done).update(status="succeeded", attempts=3)

    discarded = discard([running, done], types=type_snapshots(), now=clock.now())

    assert not discarded
    assert [row(running).status, row(done).status] == ["running", "succeeded"]


def test_key_of_a_unique_job_is_free_when_it_is_final_and_not_before() -> None:
    """I35."""
    job_type(retry_delay_seconds=0)
    [number] = jobs(1, key="a", is_unique=True, unique_key="mail:a")
    end(take()[0], "failed")
    assert row(number).unique_key == "mail:a"

    end(take()[0])

    assert row(number).unique_key is None


def test_first_start_is_kept_and_the_wish_to_cancel_ends_with_the_job(
    frozen_clock: FrozenClock,
) -> None:
    job_type(retry_delay_seconds=0)
    [number] = jobs(1)
    began = frozen_clock.instant
    end(take()[0], "failed")
    frozen_clock.advance(seconds=60)
    [held] = take()
    Job.objects.filter(pk=number).update(cancel_requested=True)
    end(held)

    job = row(number)
    assert (job.started_at, job.held_at) == (began, frozen_clock.instant)
    assert (job.status, job.cancel_requested) == ("succeeded", False)


def test_drains_are_woken_for_what_waits_again(monkeypatch: pytest.MonkeyPatch) -> None:
    held, woken = held_jobs(3, retry_delay_seconds=0), list[str]()
    for job, how in zip(held, ("released", "failed", "succeeded"), strict=True):
        monkeypatch.setattr(settling.wakeup, "announce", lambda how=how: woken.append(how))
        end(job, how)
    assert woken == ["released", "failed"]
