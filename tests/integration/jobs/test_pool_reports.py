"""Reports of the workers of pools, and what becomes of the keys of lost ones. S3.6, S3.8, S3.9."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.jobs.models import Bucket, Job
from apps.jobs.services import control
from apps.jobs.services.pool_bucket import forget_buckets
from apps.jobs.services.promote import promote_due
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.jobs import events_of, rescue
from tests.pools import OPERATOR, THEIRS, assign, check, fill, held, job_of, pool, report, waiting

pytestmark = [pytest.mark.django_db, pytest.mark.both]

FIVE = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}


# --- reports ------------------------------------------------------------------------------------
def test_check_compares_keys_with_the_bucket(frozen_clock: FrozenClock) -> None:
    """S3.6."""
    pool(FIVE)
    assign(limit=3)

    assert check("a", "b", "c") == ([], [])
    assert check("c", "zz", "a") == (["b"], ["zz"])
    assert check() == (["a", "b", "c"], [])
    assert check("a", worker="stranger") == ([], ["a"])


def test_done_ends_the_named_keys_and_no_other(frozen_clock: FrozenClock) -> None:
    """S3.6, S3.8."""
    pool(FIVE)
    assign(limit=3)
    assign("pi-2", limit=1)

    assert report("succeeded", "b", "d", "e", "zz") == (
        ["b"],
        {"d": "not_found", "e": "not_found", "zz": "not_found"},
    )
    assert held() == {"a": "pi-1", "c": "pi-1", "d": "pi-2"}
    assert (job_of("b").status, job_of("b").unique_key) == ("succeeded", None)


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


def test_failed_key_may_ask_for_no_retry(frozen_clock: FrozenClock) -> None:
    pool(FIVE)
    assign(limit=1)

    report("failed", "a", retry="never")

    assert job_of("a").status == "failed"


def test_released_key_goes_back_uncounted(frozen_clock: FrozenClock) -> None:
    """S3.9."""
    pool(FIVE)
    assign(limit=2)

    assert report("released", "b") == (["b"], {})

    assert (job_of("b").attempts, job_of("b").order_key) == (0, 2000)
    assert assign("pi-2", limit=1) == ["b"]


@pytest.mark.parametrize("end", ["succeeded", "failed", "released"])
def test_repeated_report_gets_the_first_answer(frozen_clock: FrozenClock, end: str) -> None:
    """S3.6: once it has been carried out, nothing changes."""
    pool(FIVE)
    assign(limit=1)
    first = report(end, "a")
    before = list(Job.objects.order_by("pk").values())

    assert report(end, "a") == first == (["a"], {})
    assert list(Job.objects.order_by("pk").values()) == before
    assert events_of(job_of("a").pk) == [end]


@pytest.mark.parametrize("end", ["failed", "released"])
def test_repeated_report_gets_the_first_answer_though_another_holds_the_key(
    frozen_clock: FrozenClock, end: str
) -> None:
    pool(FIVE, retry_delay_seconds=0)
    assign(limit=1)
    report(end, "a")
    assert assign("pi-2", limit=1) == ["a"]

    assert report(end, "a") == (["a"], {})
    assert report("succeeded", "a") == ([], {"a": "conflict"})
    # The worker of another API key with the same name has never had it.
    assert report(end, "a", caller=THEIRS) == ([], {"a": "not_found"})
    assert held() == {"a": "pi-2"}


def test_done_again_is_done_though_the_key_is_back_in_the_pool(frozen_clock: FrozenClock) -> None:
    pool(FIVE)
    assign(limit=1)
    report("succeeded", "a")
    fill(FIVE)
    assign("pi-2", limit=1)

    assert report("succeeded", "a") == (["a"], {})
    assert held() == {"a": "pi-2"}


def test_report_that_contradicts_the_first_is_a_conflict(frozen_clock: FrozenClock) -> None:
    pool(FIVE)
    assign(limit=1)
    report("succeeded", "a")

    assert report("released", "a") == ([], {"a": "conflict"})
    assert job_of("a").status == "succeeded"


def test_report_without_a_journal_is_still_recognised(frozen_clock: FrozenClock) -> None:
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


# --- lost workers -------------------------------------------------------------------------------
def test_keys_of_a_lost_worker_come_back_with_their_scores(frozen_clock: FrozenClock) -> None:
    """S3.1, S3.9: by themselves, counted; another worker gets all of them at once."""
    pool(FIVE)
    assign(limit=3)
    frozen_clock.advance(seconds=29)
    assert rescue(frozen_clock) == 0
    frozen_clock.advance(seconds=1)

    assert rescue(frozen_clock) == 3
    assert waiting() == FIVE
    assert assign("pi-2", limit=4) == ["a", "b", "c", "d"]
    assert job_of("a").attempts == 2


def test_key_that_loses_every_worker_fails(frozen_clock: FrozenClock) -> None:
    pool({"a": 1}, max_attempts=2)
    for worker in ("pi-1", "pi-2"):
        assert assign(worker) == ["a"]
        frozen_clock.advance(seconds=31)
        rescue(frozen_clock)

    assert job_of("a").status == "failed"


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
