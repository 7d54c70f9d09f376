"""What the demo of years proves, on rows that are where they should be and on others."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest

from apps.common import clock
from apps.jobs.models import ArchivedJob, Job
from taskplatform.demo.years_proofs import Ledger, kept_jobs
from tests.frozen import FrozenClock
from tests.history import archived, ended
from tests.jobs import job_type

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.common.archive.LONGEST_REST", 0.0)
    job_type("mail")


def breaches(jobs: Mapping[int, datetime]) -> list[str]:
    return list(kept_jobs().breaches(jobs, clock.now()))


def aged(days: int, numbers: list[int]) -> dict[int, datetime]:
    return dict.fromkeys(numbers, clock.now() - days * DAY)


def test_jobs_where_their_age_puts_them_break_nothing() -> None:
    """S4.16"""
    there = aged(20, archived(2, ago=20 * DAY)) | aged(1, ended(2, ago=DAY))
    assert breaches(there | aged(900, [17])) == []


@pytest.mark.parametrize(
    ("days", "numbers", "words"),
    [
        (1, lambda: [17], "is kept nowhere"),
        (399, lambda: [17], "is kept nowhere"),
        (20, lambda: ended(ago=20 * DAY), "is not in the archive"),
        (900, lambda: archived(ago=900 * DAY), "is not forgotten"),
        (2, lambda: archived(ago=20 * DAY), "is in the archive too early"),
    ],
)
def test_jobs_that_are_elsewhere_are_told(days: int, numbers: object, words: str) -> None:
    """S4.16"""
    [number] = numbers()  # type: ignore[operator]
    [breach] = breaches(aged(days, [number]))
    assert breach.startswith(f"job {number} ended at ")
    assert breach.endswith(f"and {words}")


def test_job_in_both_tables_is_told() -> None:
    """I61"""
    [number] = archived(ago=20 * DAY)
    [other] = ended(ago=20 * DAY)
    Job.objects.filter(pk=other).update(id=number)
    assert ArchivedJob.objects.filter(pk=number).exists()
    [breach] = breaches(aged(20, [number]))
    assert breach.endswith("is live and in the archive")


def test_job_that_never_ended_and_lost_entries_are_told() -> None:
    """S2.8: the journal is complete within its retention."""
    now = clock.now()
    ledger = Ledger(submitted={17}, entries=[(now - 30 * DAY, now - 20 * DAY, 5)])
    broken = {proof.promise: proof.breaches for proof in ledger.proofs(now) if proof.breaches}
    assert broken["every job has ended"] == ["job 17 has not"]
    assert broken["the journal has all entries of its retention, and no others"] == [
        "0 of 5 entries from 2026-01-31 are left"
    ]
