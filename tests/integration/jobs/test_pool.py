"""Buckets of pools, their order, reports and slices. S3.1-S3.3, S3.5, S3.6, S3.8-S3.10."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.jobs.models import Bucket, Job
from apps.jobs.services import control, register, reorder, slices, types
from apps.jobs.services.hold import Holder
from apps.jobs.services.pool_bucket import forget_buckets
from apps.jobs.services.promote import promote_due
from apps.jobs.services.submit import Submission, submit, submit_many
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.jobs import job_type, last_entry, rescue, share, take
from tests.pools import (
    FIVE,
    NAME,
    OPERATOR,
    THEIRS,
    assign,
    check,
    fill,
    held,
    items_of,
    job_of,
    pool,
    report,
    waiting,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock"), pytest.mark.both]


# --- assign -------------------------------------------------------------------------------------


def test_item_says_what_is_held_and_until_when(frozen_clock: FrozenClock) -> None:
    """S3.9: a lease of its own."""
    pool(lease_seconds=40)
    fill({"a": 1.25}, contexts={"a": {"shop": 7}})

    [item] = items_of()

    job = job_of("a")
    assert (item.key, item.id, item.token, item.score) == ("a", job.pk, job.lease_token, 1.25)
    assert item.context == {"shop": 7}
    assert item.lease_until == frozen_clock.instant + timedelta(seconds=40) == job.lease_until
    assert (job.client, job.worker, job.attempts) == ("ci_ours", "pi-1", 1)


def test_surplus_goes_back_at_once_with_its_score_and_uncounted(frozen_clock: FrozenClock) -> None:
    """S3.5, S3.9: the highest scores."""
    pool(FIVE)
    assign(limit=5)
    frozen_clock.advance(seconds=5)

    assert assign(limit=2) == ["a", "b"]
    assert waiting() == {"c": 3, "d": 4, "e": 5}
    assert {job.attempts for job in Job.objects.filter(status="ready")} == {0}
    assert assign("pi-2", limit=1) == ["c"]
    assert last_entry(job_of("d").pk).event == "released"


def test_limits_of_the_type_hold_for_its_pool() -> None:
    """S3.10."""
    pool(FIVE, max_running=3)

    assert assign(limit=2) == ["a", "b"]
    assert assign("pi-2", limit=5) == ["c"]
    report("succeeded", "a")
    assert assign("pi-2", limit=5) == ["c", "d"]


def test_paused_pool_assigns_nothing_new() -> None:
    pool(FIVE)
    assign(limit=1)
    job_type(NAME, paused=True)

    assert assign(limit=3) == ["a"]
    assert assign("pi-2") == []


def test_bucket_that_knows_nothing_is_put_right_by_the_rows() -> None:
    """S3.8: the rows of the jobs say who holds what."""
    pool(FIVE)
    assign(limit=2)
    Bucket.objects.update(job_ids=[])

    assert report("succeeded", "a") == (["a"], {})
    Bucket.objects.update(job_ids=[job_of("b").pk, job_of("c").pk, 12345])
    assert check("b") == ([], [])
    assert assign(limit=2) == ["b", "c"]


# --- reports ------------------------------------------------------------------------------------


def test_failed_key_waits_as_the_type_says_and_keeps_its_score(frozen_clock: FrozenClock) -> None:
    """S3.9: no head start is lost, and the attempt counts."""
    pool(FIVE, retry_delay_seconds=10, max_attempts=2)
    assign(limit=2)

    assert report("failed", "a", "b", "c", error="No route") == (["a", "b"], {"c": "not_found"})

    job = job_of("a")
    assert (job.status, job.attempts, job.memo) == ("scheduled", 1, "No route")
    assert job.run_at == frozen_clock.instant + timedelta(seconds=10)
    assert waiting() == FIVE
    frozen_clock.advance(seconds=11)
    promote_due()
    assert assign(limit=3) == ["a", "b", "c"]
    report("failed", "a")
    assert job_of("a").status == "failed"


@pytest.mark.parametrize("end", ["failed", "released"])
def test_repeated_report_gets_the_first_answer_though_another_holds_the_key(end: str) -> None:
    pool(FIVE, retry_delay_seconds=0)
    assign(limit=1)
    report(end, "a")
    assert assign("pi-2", limit=1) == ["a"]

    assert report(end, "a") == (["a"], {})
    assert report("succeeded", "a") == ([], {"a": "conflict"})
    # The worker of another API key with the same name has never had it.
    assert report(end, "a", caller=THEIRS) == ([], {"a": "not_found"})
    assert held() == {"a": "pi-2"}


def test_report_without_a_journal_is_still_recognised() -> None:
    """The journal of a job may be purged before the job."""
    pool(FIVE)
    assign(limit=1)
    report("succeeded", "a")
    JournalEntry.objects.all().delete()

    assert report("succeeded", "a") == (["a"], {})
    assert report("failed", "a") == ([], {"a": "lease_lost"})


def test_key_that_was_taken_away_is_refused(frozen_clock: FrozenClock) -> None:
    """S3.9."""
    pool(FIVE)
    assign(limit=2)
    control.cancel(job=job_of("b"), actor=OPERATOR, reason="Wrong", force=True)
    frozen_clock.advance(seconds=31)
    rescue(frozen_clock)

    assert report("succeeded", "a", "b") == ([], {"a": "lease_lost", "b": "lease_lost"})


def test_deadline_of_an_attempt_is_not_renewed(frozen_clock: FrozenClock) -> None:
    pool(FIVE, lease_seconds=60, max_processing_seconds=100)
    assign(limit=2)
    frozen_clock.advance(seconds=50)
    assert assign(limit=2) == ["a", "b"]
    frozen_clock.advance(seconds=50)

    assert assign(limit=2) == []
    assert rescue(frozen_clock) == 2
    assert job_of("a").last_end == "timed_out"
    assert assign(limit=2) == ["c", "d"]


def test_bucket_nobody_used_for_a_day_is_removed(frozen_clock: FrozenClock) -> None:
    """S3.8, S3.9."""
    pool(FIVE, lease_seconds=86_400, max_processing_seconds=200_000)
    assign("old", limit=1)
    assign("busy", limit=1)
    frozen_clock.advance(hours=23)
    assign("new", limit=1)
    report("succeeded", "a", worker="old")
    frozen_clock.advance(hours=23)
    assert forget_buckets(frozen_clock.instant) == 0
    frozen_clock.advance(hours=2)

    # The other one has keys that nobody has rescued yet.
    assert forget_buckets(frozen_clock.instant) == 1
    assert set(Bucket.objects.values_list("worker", flat=True)) == {"busy", "new"}


# --- the score ----------------------------------------------------------------------------------
def test_score_stays_whatever_operators_do(frozen_clock: FrozenClock, settings: Any) -> None:
    """S3.2, S3.8: run now, edit, retry, a changed weight of priorities."""
    pool({"a": 2.5, "b": 3})
    row = job_of("a")
    later = frozen_clock.instant + timedelta(hours=1)
    who = {"actor": OPERATOR, "reason": "Asked"}
    for changes in ({"run_at": later}, {"priority": 9}):
        row = control.edit(job=row, version=row.version, changes=changes, **who)
    row = control.run_now(job=row, **who)
    assert job_of("a").order_key == 2500
    control.retry(job=control.cancel(job=row, **who), **who)
    assert job_of("a").order_key == 2500
    until = frozen_clock.instant + timedelta(seconds=10)
    reorder.reorder(until=until)
    settings.JOB_PRIORITY_WEIGHT_MS = 1
    reorder.reorder(until=until)
    assert waiting() == {"a": 2.5, "b": 3}


def test_submitted_job_of_a_pool_has_its_time_as_score(frozen_clock: FrozenClock) -> None:
    """S3.10: the score may be a time; a pool is unique whoever submits."""
    pool()
    first = submit(NAME, key="a")
    submit_many([Submission(type=NAME, key="b", score=1.5)])

    assert waiting() == {"b": 1.5, "a": frozen_clock.instant.timestamp()}
    assert submit(NAME, key="a") == (first.id, False, "ready", "returned", "")


def test_in_house_hold_goes_by_scores_too(frozen_clock: FrozenClock) -> None:
    pool(FIVE, handler="echo")
    assign(limit=1)
    frozen_clock.advance(seconds=31)
    rescue(frozen_clock)

    jobs = take(2, types=(NAME,), by=Holder("host-a:1", "host-a"))

    assert [job.key for job in jobs] == ["a", "b"]
    assert assign(limit=2) == ["c", "d"]


# --- which pools there are ----------------------------------------------------------------------


def test_pool_is_kept_while_jobs_are_open() -> None:
    """S3.8: their order would mean something else."""
    made = types.create_type(name=NAME, pool=True, actor=OPERATOR)
    fill({"a": 1})

    with pytest.raises(Exception, match="has open jobs"):
        types.update_type(job_type=made, changes={"pool": False}, actor=OPERATOR)
    assign()
    report("succeeded", "a")
    changed = types.update_type(job_type=made, changes={"pool": False}, actor=OPERATOR)
    assert changed.pool is False


def test_pool_is_not_made_of_a_type_that_is_never_unique() -> None:
    with pytest.raises(Exception, match="one open job for each key"):
        types.create_type(name=NAME, pool=True, unique="never", actor=OPERATOR)


# --- slices ---------------------------------------------------------------------------------------


def test_pool_goes_by_scores_though_workers_share_it() -> None:
    """S3.2: no worker prefers some of its keys, and its next key has no worker of its own."""
    pool({f"k{n}": n for n in range(60)})
    workers = [Holder(f"pi-{n}", "", "ci_ours") for n in range(3)]
    shared = share(*workers, types=[NAME])

    assert len(shared.slices_of(NAME).owners) == 3
    assert [assign(worker.name, limit=10) for worker in workers] == [
        [f"k{n}" for n in range(start, start + 10)] for start in (0, 10, 20)
    ]


def test_map_of_slices_leaves_pools_out(frozen_clock: FrozenClock) -> None:
    pool(FIVE)
    job_type("mail")
    factories.worker("pi-1", types=["mail", NAME])
    frozen_clock.advance(seconds=10)
    register.beat(name="pi-1", drains={}, running=0)

    slices.follow(now=frozen_clock.instant)

    known = slices.slice_map()
    assert (len(known.slices_of("mail").owners), len(known.slices_of(NAME).owners)) == (1, 0)


def test_each_call_renews_the_whole_bucket(frozen_clock: FrozenClock) -> None:
    """S3.9."""
    pool(FIVE, retry_delay_seconds=0)
    assign(limit=4)
    calls = [
        lambda: check(),
        lambda: report("succeeded", "a"),
        lambda: report("failed", "b"),
        lambda: report("released", "b", "zz"),
        lambda: assign(limit=3),
    ]

    for call in calls:
        frozen_clock.advance(seconds=20)
        call()
        assert rescue(frozen_clock) == 0
        leases = Job.objects.filter(status="running").values_list("lease_until", flat=True)
        assert set(leases) == {frozen_clock.instant + timedelta(seconds=30)}


def test_assign_again_changes_nothing_but_the_leases(frozen_clock: FrozenClock) -> None:
    """S3.5: a repeat whose first answer was lost."""
    pool(FIVE)
    first = items_of(limit=3)
    frozen_clock.advance(seconds=20)

    again = items_of(limit=3)

    assert [(i.key, i.id, i.token) for i in again] == [(i.key, i.id, i.token) for i in first]
    assert {i.lease_until for i in again} == {frozen_clock.instant + timedelta(seconds=30)}
    assert {job.attempts for job in Job.objects.filter(status="running")} == {1}
