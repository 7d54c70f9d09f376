"""S1.19, I54: the figures are what real dispatches and jobs wrote to the journal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.common import clock
from apps.dispatch.services import ending, expiry
from apps.jobs.models import Job
from apps.jobs.services import control
from apps.jobs.services.discard import discard_exhausted
from apps.jobs.services.rescue import rescue_due
from apps.journal.models import JournalEntry
from apps.reports.services.rollup import roll_up
from apps.reports.services.summary import Figures, Percentiles, Period, summarise
from tests import callback, factories
from tests.callback import take_next
from tests.frozen import FrozenClock
from tests.jobs import end, job_type, jobs, take

pytestmark = [pytest.mark.django_db, pytest.mark.both]
COUNTS = (
    "succeeded", "failed", "retried", "timed_out", "expired", "released", "cancelled", "stage_done",
)  # fmt: skip
BY = {"actor": "admin:olga", "reason": "asked for"}


def figures(source: str, by: str, frozen_clock: FrozenClock) -> dict[str, Figures]:
    """By group, and of all of them as ""."""
    begun = frozen_clock.instant - timedelta(days=1)
    frozen_clock.advance(minutes=2)
    roll_up(until=clock.now() + timedelta(minutes=1))
    found = summarise(source, by, Period(begun, clock.now(), ZoneInfo("UTC")))
    return {"": found.total, **{row.group: row for row in found.rows}}


def counts(figures: Figures) -> dict[str, int]:
    return {name: count for name in COUNTS if (count := getattr(figures, name))}


def rescue() -> None:
    assert rescue_due(until=clock.now() + timedelta(seconds=1))


def row(number: int) -> Job:
    return Job.objects.get(pk=number)


def test_jobs(frozen_clock: FrozenClock) -> None:
    job_type(retry_delay_seconds=0, max_attempts=2, expires_after_seconds=7200, stages=["a", "b"])
    failing = jobs(1, stage="a")
    for _ in range(2):
        end(take()[0], "failed")
    assert row(failing[0]).status == "failed"

    [staged] = jobs(1, stage="a")
    end(take()[0], "stage_done", stage="b")
    frozen_clock.advance(seconds=5)
    [held] = take()
    frozen_clock.advance(seconds=3)
    end(held)
    assert row(staged).status == "succeeded"

    [lost] = jobs(1, stage="a")
    for _ in range(2):
        take()
        frozen_clock.advance(seconds=31)
        rescue()
    assert row(lost).last_end == "lost"

    [slow] = jobs(1, stage="a", attempts=1)
    take()
    frozen_clock.advance(seconds=901)
    rescue()
    assert (row(slow).status, row(slow).last_end) == ("failed", "timed_out")

    [spare] = jobs(1, stage="a")
    end(take()[0], "released")
    control.cancel(job=row(spare), **BY)
    [wanted] = jobs(1, stage="a")
    take()
    control.cancel(job=row(wanted), force=True, **BY)
    [unwanted] = jobs(1, stage="a")
    [held] = take()
    control.cancel(job=row(unwanted), **BY)
    end(held, "failed")

    [done] = jobs(1, stage="a")
    control.mark_done(job=row(done), **BY)
    [exhausted] = jobs(1, stage="a")
    control.edit(
        job=row(exhausted), version=row(exhausted).version, changes={"max_attempts": 5}, **BY
    )
    Job.objects.filter(pk=exhausted).update(attempts=3)
    control.edit(
        job=row(exhausted), version=row(exhausted).version, changes={"max_attempts": 2}, **BY
    )
    jobs(1, stage="a", attempts=2)
    jobs(1, stage="a", run_at=frozen_clock.instant - timedelta(hours=3))
    assert discard_exhausted(until=clock.now() + timedelta(seconds=1)) == 2
    control.retry(job=row(failing[0]), **BY)

    found = figures("job", "type", frozen_clock)

    assert counts(found["mail"]) == {
        "succeeded": 2,  # one by hand
        "failed": 4,  # failing, lost, exhausted by an edit, discarded
        "retried": 2,
        "timed_out": 1,
        "expired": 1,
        "released": 1,
        "cancelled": 3,
        "stage_done": 1,
    }
    assert found[""].total == found["mail"].total == 15
    assert found["mail"].success_rate == 2 / 8
    ended = JournalEntry.objects.filter(
        source="job", to_state__in=["succeeded", "failed", "cancelled"]
    )
    assert ended.count() == 2 + 4 + 1 + 1 + 3
    assert figures("job", "host", frozen_clock)["host-a"].total == 10


def test_times_of_jobs(frozen_clock: FrozenClock) -> None:
    job_type()
    for seconds in (1, 2, 3):
        jobs(1, run_at=frozen_clock.instant - timedelta(seconds=10 * seconds))
        [held] = take()
        frozen_clock.advance(seconds=seconds)
        end(held)
    answered = figures("job", "type", frozen_clock)["mail"]
    for percentiles, exact in (
        (answered.run, (2000, 3000, 3000)),
        (answered.wait, (20_000, 30_000, 30_000)),
    ):
        for found, wanted in zip(
            (percentiles.p50, percentiles.p95, percentiles.p99), exact, strict=True
        ):
            assert found is not None and abs(found - wanted) <= 0.02 * wanted


def test_dispatches(frozen_clock: FrozenClock) -> None:
    people = {
        name: factories.user(f"uid_{name}") for name in ("fails", "late", "back", "off", "well")
    }

    def take(name: str) -> Any:
        return take_next(people[name])

    def report(name: str, outcome: str) -> None:
        callback.call_back(executor=people[name], number=take(name).pk, outcome=outcome)

    retried = factories.once_task(people["fails"], on_failure="retry_same", max_rounds=3)
    report("fails", "failed")
    report("fails", "failed")
    report("fails", "succeeded")

    factories.once_task(people["late"], lease_seconds=60, on_expiry="give_back")
    take("late")
    frozen_clock.advance(seconds=61)
    assert expiry.expire_due(until=clock.now() + timedelta(seconds=1)) == 1
    frozen_clock.advance(seconds=61)
    report("late", "succeeded")

    factories.once_task(people["back"], lease_seconds=60)
    callback.release(executor=people["back"], number=take("back").pk)
    frozen_clock.advance(seconds=61)
    report("back", "succeeded")

    factories.once_task(people["off"])
    ending.cancel(dispatch=take("off"), **BY)

    blocking = factories.once_task(people["well"], mode="blocking", dispatch_times=3)
    for _ in range(3):
        report("well", "succeeded")

    found = figures("dispatch", "executor", frozen_clock)

    answered = {name: counts(found[f"uid_{name}"]) for name in people}
    assert answered == {
        "fails": {"succeeded": 1, "failed": 2, "retried": 2},
        "late": {"succeeded": 1, "expired": 1, "retried": 1},
        "back": {"succeeded": 1, "released": 1},
        "off": {"cancelled": 1},
        "well": {"succeeded": 3},
    }
    assert (found[""].total, found[""].success_rate) == (11, 6 / 9)
    by_task = figures("dispatch", "task", frozen_clock)
    assert by_task[f"once:{retried.pk}"].total == by_task[f"once:{blocking.pk}"].total == 3


def test_times_of_dispatches_are_from_due_to_handed_out_to_ended(frozen_clock: FrozenClock) -> None:
    alice = factories.user()
    factories.once_task(alice, start_at=frozen_clock.instant)
    frozen_clock.advance(seconds=40)
    taken: Any = take_next(alice)
    frozen_clock.advance(seconds=20)
    callback.call_back(executor=alice, number=taken.pk, outcome="succeeded")
    answered = figures("dispatch", "executor", frozen_clock)["uid_alice"]
    assert answered.wait.p50 is not None and abs(answered.wait.p50 - 40_000) <= 800
    assert answered.run.p50 is not None and abs(answered.run.p50 - 20_000) <= 400


def test_open_dispatch_is_not_counted_yet(frozen_clock: FrozenClock) -> None:
    alice = factories.user()
    factories.once_task(alice)
    take_next(alice)
    answered = figures("dispatch", "executor", frozen_clock)
    assert list(answered) == [""]
    assert (answered[""].total, answered[""].wait) == (0, Percentiles(None, None, None))
