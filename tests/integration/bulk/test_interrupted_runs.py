"""I65: a bulk run that is stopped, cancelled, killed or carried out twice at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apps.bulk.models import BulkRun
from apps.bulk.services import carry, runs, steps
from apps.jobs.handlers import Cancelled, Later
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.journal.models import JournalEntry
from tests.integration.bulk.conftest import Attempt, again, carry_out, counts
from tests.jobs import end, events_of, jobs, row, take
from tests.kills import killed_at
from tests.races import race

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]
Start = Callable[..., BulkRun]
ENDS_ONCE = ["cancelled"]


# --- stopping and dying ---------------------------------------------------------------------------
@pytest.mark.both
def test_run_stopped_at_thirty_per_cent_goes_on_to_the_end(start: Start) -> None:
    numbers = jobs(1000)
    run = start("cancel", {"type": "mail"})

    def stop(_percent: float) -> None:
        if again(run).is_under_way and again(run).done == 300:
            runs.stop(run=run, actor="admin:olga", reason="too many")

    with pytest.raises(Cancelled):
        carry_out(run, Attempt(run, stop))
    assert counts(run) == ("stopped", 1000, 300, 0, 0)
    assert row(run.job or 0).status == t.CANCELLED

    runs.resume(run=run, actor="admin:olga", reason="go on")
    assert row(run.job or 0).status == t.READY
    carry_out(run)

    assert counts(run) == ("done", 1000, 1000, 0, 0)
    entries = JournalEntry.objects.filter(subject_id__in=numbers, event="cancelled")
    assert entries.count() == entries.values("subject_id").distinct().count() == 1000


def test_job_cancelled_by_hand_stops_its_run(start: Start) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    attempt = Attempt(run)
    attempt.cancelled = True
    with pytest.raises(Cancelled):
        carry_out(run, attempt)
    assert again(run).state == BulkRun.State.STOPPED


def test_run_whose_worker_stops_goes_on_elsewhere_and_uses_up_no_attempt(start: Start) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    attempt = Attempt(run)
    attempt.stopping = True
    with pytest.raises(Later) as put_off:
        carry_out(run, attempt)
    assert put_off.value.is_at_once
    assert again(run).is_under_way
    carry_out(run)
    assert counts(run) == ("done", 3, 3, 0, 0)


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", [30, 60, 90, 110, 140])
def test_run_killed_in_the_middle_changes_each_row_once_and_leaves_none_out(
    start: Start, statement: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "TAKEN", 70)
    monkeypatch.setattr(carry, "ROUND", 20)
    numbers = jobs(150)
    run = start("cancel", {"type": "mail"})

    assert killed_at(statement, lambda: carry_out(run))
    carry_out(run)

    assert counts(run) == ("done", 150, 150, 0, 0)
    assert sorted(run.rows.values_list("target", flat=True)) == sorted(numbers)
    assert [n for n in numbers if events_of(n) != ENDS_ONCE] == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.mariadb
def test_two_processes_with_the_same_run_change_each_row_once(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "TAKEN", 5)
    monkeypatch.setattr(carry, "ROUND", 10)
    numbers = jobs(200)
    run = start("cancel", {"type": "mail"})
    ended = race([lambda: carry_out(run)] * 3)
    assert ended.errors == []
    assert counts(run) == ("done", 200, 200, 0, 0)
    assert [n for n in numbers if events_of(n) != ENDS_ONCE] == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.mariadb
def test_jobs_held_by_workers_meanwhile_are_changed_by_one_side_only(start: Start) -> None:
    numbers = jobs(120)
    run = start("priority", {"type": "mail"}, params={"priority": 7})

    def work() -> int:
        held = [each for _round in range(6) for each in take(20)]
        return len([end(each) for each in held])

    ended = race([lambda: carry_out(run), work])
    assert ended.errors == []
    state, collected, done, skipped, failed = counts(run)
    assert (state, collected, done + skipped, failed) == ("done", 120, 120, 0)
    changed = Job.objects.filter(pk__in=numbers, priority=7).count()
    assert changed == done
    assert ended.results[1] == 120
