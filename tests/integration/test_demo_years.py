"""What the demo of years proves, on rows that are where they should be and on others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from apps.common import clock
from apps.jobs.models import Job
from tests.frozen import FrozenClock
from tests.history import archived, ended
from tests.jobs import job_type, jobs
from tests.years_proofs import Ledger, kept_jobs

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def mail(frozen_clock: FrozenClock) -> None:
    job_type("mail")


def aged(days: int, numbers: list[int]) -> dict[int, datetime]:
    return dict.fromkeys(numbers, clock.now() - days * DAY)


def in_both() -> list[int]:
    [number] = archived(ago=20 * DAY)
    Job.objects.filter(pk__in=ended(ago=20 * DAY)).update(id=number)
    return [number]


def test_jobs_that_are_elsewhere_than_their_age_puts_them_are_told(
    subtests: pytest.Subtests,
) -> None:
    """S4.16, I61"""
    cases: list[tuple[int, Callable[[], list[int]], str]] = [
        (20, lambda: archived(2, ago=20 * DAY), ""),
        (1, lambda: ended(2, ago=DAY), ""),
        (900, lambda: [17], ""),
        (1, lambda: [17], "is kept nowhere"),
        (399, lambda: [17], "is kept nowhere"),
        (20, lambda: ended(ago=20 * DAY), "is not in the archive"),
        (900, lambda: archived(ago=900 * DAY), "is not forgotten"),
        (2, lambda: archived(ago=20 * DAY), "is in the archive too early"),
        (20, in_both, "is live and in the archive"),
    ]
    for days, make, words in cases:
        with subtests.test(days=days, words=words):
            ends = aged(days, make())
            told = list(kept_jobs().breaches(ends, clock.now()))
            assert len(told) == (1 if words else 0)
            assert all(each.endswith(f"and {words}") for each in told)


def test_job_that_never_ended_and_lost_entries_are_told() -> None:
    """S2.8: the journal is complete within its retention."""
    now = clock.now()
    ledger = Ledger(submitted={17}, entries=[(now - 30 * DAY, now - 20 * DAY, 5)])
    broken = {proof.promise: proof.breaches for proof in ledger.proofs(now) if proof.breaches}
    assert broken["every job has ended"] == ["job 17 has not"]
    assert broken["the journal has all entries of its retention, and no others"] == [
        "0 of 5 entries from 2026-01-31 are left"
    ]


def test_past_is_played_on_a_new_platform_alone() -> None:
    [number] = jobs(1)
    with pytest.raises(CommandError, match="Set DATABASE_URL to a new database"):
        call_command("demo", years=2)
    assert [*Job.objects.values_list("pk", flat=True)] == [number]
