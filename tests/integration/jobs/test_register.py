"""S4.10, I29: who is believed to live, who fell silent, and what that means for their jobs."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest

from apps.jobs.models import Worker
from apps.jobs.runner.process import Node, Process, dead_here, machine
from apps.jobs.services import register
from apps.jobs.sweeps import forget_workers, rescue
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.jobs import HERE, job_type, jobs, row, take

pytestmark = pytest.mark.django_db


def enter(name: str = HERE.name, **facts: Any) -> None:
    register.register(name=name, host=HERE.host, lanes=["fast"], types=["mail"], **facts)


def names(workers: list[Worker]) -> list[str]:
    return [worker.name for worker in workers]


def events() -> list[tuple[str, str]]:
    entries = JournalEntry.objects.filter(source="worker").order_by("id")
    return [(entry.worker, entry.event) for entry in entries]


def test_worker_lives_while_it_beats(frozen_clock: FrozenClock) -> None:
    enter("a")
    enter("b")
    frozen_clock.advance(seconds=20)
    assert register.beat(name="a", drains={"fast": 1}, running=3, types=["mail"])

    frozen_clock.advance(seconds=5)

    assert names(register.alive(frozen_clock.instant)) == ["a"]
    assert register.lose_silent(now=frozen_clock.instant) == 1
    assert register.silent_workers(frozen_clock.instant) == ["b"]
    assert events() == [("a", "registered"), ("b", "registered"), ("b", "lost")]


def test_worker_just_within_its_silence_is_not_lost(frozen_clock: FrozenClock) -> None:
    enter()
    frozen_clock.advance(seconds=24.999)
    assert register.lose_silent(now=frozen_clock.instant) == 0
    frozen_clock.advance(seconds=0.001)
    assert register.lose_silent(now=frozen_clock.instant) == 1
    assert register.lose_silent(now=frozen_clock.instant) == 0


def test_worker_that_was_taken_for_dead_registers_again(frozen_clock: FrozenClock) -> None:
    process = Process(Node("worker@test", ("fast",)))
    process.beat()
    register.lose(names=[process.name], reason="it fell silent")

    process.beat()

    assert names(register.alive(frozen_clock.instant)) == [process.name]
    assert [event for _, event in events()] == ["registered", "lost", "registered"]


def test_process_that_has_left_is_not_entered_again_by_a_late_beat() -> None:
    """Its heartbeat runs on until the very end, and may be due just then."""
    process = Process(Node("worker@test", ("fast",)))
    process.beat()
    process.leave()

    process.beat()

    assert Worker.objects.get().state == "gone"


def test_worker_that_left_is_gone_and_its_row_forgotten_a_day_later(
    frozen_clock: FrozenClock,
) -> None:
    enter()
    register.leave(name=HERE.name)
    assert register.alive(frozen_clock.instant) == []
    assert not register.beat(name=HERE.name, drains={}, running=0)

    frozen_clock.advance(days=1, seconds=-1)
    assert forget_workers() == 0
    frozen_clock.advance(seconds=1)
    assert forget_workers() == 1
    assert not Worker.objects.exists()


def test_jobs_of_a_silent_worker_are_rescued_before_their_lease_ends(
    frozen_clock: FrozenClock,
) -> None:
    """I29: at 25 s of silence, though the lease is for an hour."""
    job_type(lease_seconds=3600, max_processing_seconds=7200)
    [number] = jobs()
    enter()
    take()
    frozen_clock.advance(seconds=24)
    assert rescue() == 0
    frozen_clock.advance(seconds=1)

    assert rescue() == 1

    assert (row(number).status, row(number).last_end) == ("ready", "lost")


def test_jobs_of_a_process_that_is_no_more_are_rescued_at_once(
    frozen_clock: FrozenClock,
) -> None:
    job_type()
    [number] = jobs()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    name = f"worker@test:{child}:{machine()}"
    enter(name, pid=child)
    take(by=HERE._replace(name=name))

    assert rescue() == 1

    assert row(number).last_end == "lost"
    assert events()[-1] == (name, "lost")


def test_only_processes_of_this_machine_are_looked_for(frozen_clock: FrozenClock) -> None:
    enter("worker@test:1:elsewhere", pid=2**22 - 1)
    enter(f"worker@test:{os.getpid()}:{machine()}", pid=os.getpid())

    assert dead_here(register.alive(frozen_clock.instant)) == []


def test_running_worker_keeps_its_jobs(frozen_clock: FrozenClock) -> None:
    job_type()
    [number] = jobs()
    process = Process(Node("worker@test", ("fast",)))
    process.beat()
    take(by=process.holder)
    frozen_clock.advance(seconds=20)

    assert rescue() == 0
    assert row(number).status == "running"


def test_sweep_of_workers_lost_for_an_hour_looks_no_more_for_their_jobs(
    frozen_clock: FrozenClock,
) -> None:
    enter()
    register.lose(names=[HERE.name], reason="gone")
    assert register.silent_workers(frozen_clock.instant + timedelta(minutes=59)) == [HERE.name]
    assert register.silent_workers(frozen_clock.instant + timedelta(minutes=60)) == []
