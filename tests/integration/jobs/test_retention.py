"""Archived jobs are forgotten when the time of the platform, or of their type, is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import Invalid
from apps.jobs.models import ArchivedJob, Job, JobLog, JobType
from apps.jobs.services import control, find, retention, types
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.history import archived, ended, forget, logged, move, where
from tests.jobs import job_type
from tests.kills import kills

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail"), pytest.mark.both]

DAY = timedelta(days=1)


def test_kept_as_long_as_the_platform_says(mail: FrozenClock) -> None:
    """S1.19: a second longer, and it is gone for ever with its log; its journal is not touched."""
    [number] = archived(ago=400 * DAY)
    [young] = archived(ago=300 * DAY)
    logged(number, young)
    assert forget() == 0
    assert JobLog.objects.count() == 2
    mail.advance(seconds=1)
    assert forget() == 1
    assert find.find(number) is None
    assert [each.job for each in JobLog.objects.all()] == [young]


def test_zero_keeps_for_ever(settings: Any) -> None:
    """S1.19."""
    settings.JOB_RETENTION = timedelta(0)
    archived(ago=5000 * DAY)
    assert forget() == 0


def test_time_of_the_type_is_shorter_only(settings: Any) -> None:
    """S1.19: days that were set before the platform kept less count as those of the platform."""
    job_type("short", retention_days=30)
    job_type("long", retention_days=90)
    settings.JOB_RETENTION = 60 * DAY
    kinds = ("short", "mail", "long")
    for ago in (29, 31, 59, 61):
        for kind in kinds:
            archived(type=kind, ago=ago * DAY)
    assert forget() == 3 + 2
    left = {kind: ArchivedJob.objects.filter(type=kind).count() for kind in kinds}
    assert left == {"short": 1, "mail": 3, "long": 3}


def test_jobs_of_a_deleted_type_are_kept_as_others() -> None:
    """S1.19."""
    job_type("gone", retention_days=30)
    [number] = archived(type="gone", ago=31 * DAY)
    types.delete_type(job_type=JobType.objects.get(name="gone"), actor="admin:olga")
    assert forget() == 0
    assert where(number) == ["jobs_archived"]


def test_what_ended_late_is_looked_at_again_a_day_later(mail: FrozenClock) -> None:
    """S1.19: the end counts, not the making."""
    [late] = ended(ago=500 * DAY, finished_at=clock.now() - 400 * DAY)
    [old] = ended(ago=450 * DAY)
    move()
    assert forget() == 1
    mail.advance(hours=23)
    assert forget() == 0
    mail.advance(hours=1)
    assert forget() == 1
    assert (where(late), where(old)) == ([], [])


@pytest.mark.django_db(transaction=True)
def test_killed_at_any_statement_leaves_whole_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """S4.16, I61."""
    monkeypatch.setattr(retention, "CHUNK", 2)
    archived(3, ago=401 * DAY)
    seen = set[int]()
    for _ in kills(forget, more_than=8):
        gone = 3 - ArchivedJob.objects.count()
        entries = JournalEntry.objects.filter(event="purged")
        assert gone == sum(entry.data["archived_jobs"] for entry in entries)
        seen.add(gone)
    assert seen >= {0, 2}
    assert not ArchivedJob.objects.exists()


def test_retry_while_it_is_forgotten_wins_or_loses_whole(racers: Any) -> None:
    """I61: no number is brought back and removed."""
    numbers = archived(8, ago=401 * DAY)
    jobs = list(ArchivedJob.objects.all())

    def retry(job: ArchivedJob) -> str:
        try:
            return control.retry(job=job, actor="admin:olga", reason="x").status
        except Exception as refused:  # noqa: BLE001 - its kind is compared
            return type(refused).__name__

    race = racers([forget, *(lambda job=job: retry(job) for job in jobs)])
    forgotten, *answers = race.results
    assert set(answers) <= {"ready", "NotFound"}
    assert answers.count("NotFound") == forgotten
    assert Job.objects.count() == answers.count("ready") == len(numbers) - forgotten
    assert not ArchivedJob.objects.exists()


@pytest.mark.parametrize(
    ("days", "told"),
    [
        (6, "jobs are among the older ones after 7 days"),
        (401, "no job is kept for more than 400 days"),
    ],
)
def test_days_of_a_type_lie_between_those_of_the_platform(days: int, told: str) -> None:
    """S1.19."""
    mail = JobType.objects.get(name="mail")
    with pytest.raises(Invalid, match=told) as refused:
        types.update_type(job_type=mail, changes={"retention_days": days}, actor="admin:olga")
    assert [error.field for error in refused.value.errors] == ["retention_days"]
    for good in (7, 400, None):
        types.update_type(job_type=mail, changes={"retention_days": good}, actor="admin:olga")
