"""I27, I30, I31, I40, I58: of those who come at the same instant one wins, and all learn of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import Conflict
from apps.jobs.models import Job
from apps.jobs.services import control
from apps.jobs.services.hold import HeldJob, Holder
from apps.jobs.services.rescue import rescue_due
from tests.jobs import end, events_of, job_type, jobs, row, share, take
from tests.races import Race

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]
Racers = Callable[[Sequence[Callable[[], Any]]], Race]


def drained(by: Holder) -> list[HeldJob]:
    """Everything that one worker gets, until a hold finds nothing."""
    mine: list[HeldJob] = []
    while held := take(7, by=by):
        mine += held
    return mine


def test_many_workers_never_hold_a_job_twice(racers: Racers) -> None:
    """S4.9, S4.18: the claim stays right when many do."""
    job_type()
    numbers = jobs(300)

    shares = racers([lambda n=n: drained(Holder(f"host:{n}", "host")) for n in range(8)]).results

    held = [job.id for share in shares for job in share]
    assert sorted(held) == numbers
    assert {job.attempts for job in Job.objects.all()} == {1}


def test_workers_whose_slices_change_meanwhile_hold_each_job_once(racers: Racers) -> None:
    """S4.11: the map is a preference, so no two views of it hold a job twice or leave one."""
    job_type()
    workers = [Holder(f"host:{n}", "host") for n in range(6)]
    share(*workers[:3])
    numbers = [number for shard in range(300) for number in jobs(1, shard=shard * 3)]

    def change() -> list[HeldJob]:
        for n in range(40):
            share(*workers[n % 5 :])
        return []

    shares = racers([change, *(lambda by=by: drained(by) for by in workers)]).results

    assert sorted(job.id for mine in shares for job in mine) == numbers
    assert {job.attempts for job in Job.objects.all()} == {1}


def test_report_rescue_and_forced_cancel_have_one_winner(racers: Racers) -> None:
    """I31: losers change nothing, and a yes is never undone."""
    job_type(lease_seconds=1, max_processing_seconds=60)
    [number] = jobs(1)
    [held] = take()
    Job.objects.filter(pk=number).update(lease_until=clock.now() - timedelta(seconds=1))

    def cancel() -> bool:
        try:
            control.cancel(job=row(number), actor="admin:olga", reason="stop", force=True)
        except Conflict:
            return False
        return True

    reported, rescued, cancelled = racers(
        [
            lambda: end(held) == "succeeded",
            lambda: rescue_due(until=clock.now() + timedelta(minutes=5)),
            cancel,
        ]
    ).results

    job = row(number)
    # A rescued job waits again and may then be cancelled.
    assert (reported, bool(rescued), cancelled).count(True) == (2 if rescued and cancelled else 1)
    assert job.status == ("succeeded" if reported else "cancelled" if cancelled else "ready")
    assert [event for event in events_of(number) if event != "stale"] == [
        event
        for event, won in (("succeeded", reported), ("lost", rescued), ("cancelled", cancelled))
        if won
    ]


def test_stale_report_from_many_connections_is_kept_once(racers: Racers) -> None:
    """I30."""
    job_type(max_attempts=9)
    [number] = jobs(1)
    [held] = take()
    Job.objects.filter(pk=number).update(lease_until=clock.now() - timedelta(seconds=1))
    rescue_due(until=clock.now() + timedelta(minutes=5))
    take()
    Job.objects.filter(pk=number).update(holds=9)

    answers = racers([lambda: end(held)] * 6).results

    assert set(answers) == {"lease_lost"}
    assert events_of(number) == ["lost", "stale"]


def test_settling_and_holding_a_type_with_a_breaker_never_deadlocks(racers: Racers) -> None:
    job_type(breaker_enabled=True, breaker_min_calls=10_000)
    jobs(400)

    def work(name: str) -> int:
        done = 0
        while held := take(5, by=Holder(name, "host")):
            for job in held:
                how = "succeeded" if job.id % 3 else "failed"
                done += end(job, how, retry="never") == how
        return done

    done = racers([lambda n=n: work(f"host:{n}") for n in range(6)]).results

    assert sum(done) == 400
    assert not Job.objects.filter(status__in=["ready", "running"]).exists()
