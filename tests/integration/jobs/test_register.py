"""S4.10, I29: which workers are alive or lost, which take nothing new until somebody resumes them,
and who serves which type."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest

from apps.jobs.models import Job, Worker
from apps.jobs.rules import reasons
from apps.jobs.runner.process import Node, Process, dead_here, machine
from apps.jobs.services import living, register
from apps.jobs.services.leases import Heartbeat, renew
from apps.jobs.services.register import WorkerKey
from apps.jobs.sweeps import rescue
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.jobs import HERE, job_type, jobs, row, take

pytestmark = [pytest.mark.django_db, pytest.mark.both]


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

    assert names(living.alive(frozen_clock.instant)) == ["a"]
    assert register.lose_overdue(now=frozen_clock.instant) == 1
    assert living.gone_workers(frozen_clock.instant) == [WorkerKey("", "b")]
    assert events() == [("a", "registered"), ("b", "registered"), ("b", "lost")]


def test_worker_that_is_lost_is_missed_for_an_hour_unless_its_host_has_another(
    frozen_clock: FrozenClock,
) -> None:
    """S4.10: a sweep takes it off the living within a second; that it is missing is wrong still."""

    def missed() -> list[str]:
        found = living.registered(frozen_clock.instant)
        return names(living.missed(found, frozen_clock.instant))

    for name, host in (("a:1", "a"), ("b:1", "b"), ("c:1", "c")):
        register.register(name=name, host=host)
    for name in ("http:1", "http:2"):
        register.register(name=name, host="", client="key-1")
    register.leave(name="c:1")
    frozen_clock.advance(minutes=3)
    silent = ["a:1", "b:1", "http:1", "http:2"]
    assert missed() == silent
    assert register.lose_overdue(now=frozen_clock.instant) == 4
    assert missed() == silent

    # Such as after a restart.
    register.register(name="a:2", host="a")
    register.register(name="http:3", host="", client="key-1")
    assert missed() == ["b:1"]
    register.register(name="b:1", host="b")
    assert missed() == []
    register.lose(workers=[WorkerKey("", "b:1")], reason=reasons.NO_HEARTBEAT)
    assert missed() == ["b:1"]
    frozen_clock.advance(minutes=59)
    register.beat(name="a:2", drains={}, running=0)
    assert "b:1" in missed()
    frozen_clock.advance(minutes=1)
    assert "b:1" not in missed()


def test_worker_that_was_counted_as_lost_registers_again(frozen_clock: FrozenClock) -> None:
    process = Process(Node("worker@test", ("fast",)))
    process.beat()
    register.lose(workers=[WorkerKey("", process.name)], reason=reasons.NO_HEARTBEAT)

    process.beat()

    assert names(living.alive(frozen_clock.instant)) == [process.name]
    assert [event for _, event in events()] == ["registered", "lost", "registered"]


def test_process_that_has_left_is_not_entered_again_by_a_late_beat() -> None:
    """Its heartbeat runs on until the very end, and may be due just then."""
    process = Process(Node("worker@test", ("fast",)))
    process.beat()
    process.leave()

    process.beat()

    assert Worker.objects.get().state == "gone"


def test_worker_that_left_is_gone_and_its_row_forgotten_a_week_later(
    frozen_clock: FrozenClock,
) -> None:
    enter()
    register.leave(name=HERE.name)
    assert living.alive(frozen_clock.instant) == []
    assert not register.beat(name=HERE.name, drains={}, running=0)

    frozen_clock.advance(days=7, seconds=-1)
    assert register.forget_gone(frozen_clock.instant) == 0
    frozen_clock.advance(seconds=1)
    assert register.forget_gone(frozen_clock.instant) == 1
    assert not Worker.objects.exists()


def test_caller_without_heartbeats_has_left_an_hour_after_its_last_call(
    frozen_clock: FrozenClock,
) -> None:
    factories.worker_over_http(types=["mail"], promises_beats=False)
    factories.worker_over_http(name="pi-2", types=["mail"], promises_beats=True)

    for seconds, left in [(3599, set()), (1, {"pi-1"})]:
        frozen_clock.advance(seconds=seconds)
        register.forget_gone(frozen_clock.instant)
        gone = Worker.objects.filter(state=Worker.State.GONE)
        assert set(gone.values_list("name", flat=True)) == left


def test_jobs_of_a_lost_worker_are_rescued_before_their_lease_ends(
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


def test_jobs_of_a_process_that_is_no_more_are_rescued_at_once(frozen_clock: FrozenClock) -> None:
    job_type()
    [number] = jobs()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    name = f"worker@test:{child}:{machine()}"
    enter(name, pid=child, machine=machine())
    take(by=HERE._replace(name=name))

    assert rescue() == 1

    assert row(number).last_end == "lost"
    assert events()[-1] == (name, "lost")


def test_only_processes_of_this_machine_are_checked(frozen_clock: FrozenClock) -> None:
    enter("worker@test:1:elsewhere", pid=2**22 - 1, machine="elsewher")
    enter("worker@test:2:here", pid=os.getpid(), machine=machine())

    assert dead_here(living.alive(frozen_clock.instant)) == []


@pytest.fixture
def cut_off(frozen_clock: FrozenClock) -> list[int]:
    """Jobs of a worker that has not been heard for a minute, in which no sweep took place."""
    job_type(lease_seconds=30, max_processing_seconds=900)
    numbers = jobs(2)
    process = Process(Node("worker@test", ("fast",)))
    process.beat()
    take(by=process.holder)
    assert rescue() == 0
    frozen_clock.advance(seconds=60)
    return numbers


def test_worker_that_could_not_be_heard_keeps_its_jobs(
    frozen_clock: FrozenClock, cut_off: list[int]
) -> None:
    """F6: the database was away for longer than its lease, and so was the sweep."""
    [worker] = Worker.objects.all()
    heartbeats = [Heartbeat(id=number, token=row(number).lease_token) for number in cut_off]
    assert rescue() == 0

    frozen_clock.advance(seconds=5)
    renew(heartbeats=heartbeats)
    register.beat(name=worker.name, drains={}, running=2)
    for _ in range(29):
        frozen_clock.advance(seconds=1)
        register.beat(name=worker.name, drains={}, running=2)
        assert rescue() == 0

    assert [row(number).holds for number in cut_off] == [1, 1]
    assert {row(number).status for number in cut_off} == {"running"}


@pytest.mark.parametrize(
    ("waits", "ended"),
    [([1] * 20, [0] * 20 + [2]), ([60], [0, 2]), ([600, -600], [None, 0, 2])],
    ids=["soon after", "by sweeps that are always late", "by a clock that was ahead for a while"],
)
def test_worker_that_is_not_heard_after_that_is_lost(
    frozen_clock: FrozenClock, cut_off: list[int], waits: list[int], ended: list[int | None]
) -> None:
    """With the jobs that it held, when a sweep has run in between."""
    found = [None if ended[0] is None else rescue()]
    for seconds in waits:
        frozen_clock.move_to(frozen_clock.instant + timedelta(seconds=seconds))
        found.append(rescue())

    assert found == ended
    assert {row(number).last_end for number in cut_off} == {"lost"}


def test_late_sweep_ends_at_once_what_needs_no_word_of_a_worker(
    frozen_clock: FrozenClock, cut_off: list[int]
) -> None:
    Job.objects.filter(pk=cut_off[0]).update(hard_end_at=frozen_clock.instant)
    assert rescue() == 1
    assert row(cut_off[0]).last_end == "timed_out"

    register.lose(workers=[WorkerKey("", Worker.objects.get().name)], reason="its process is gone")
    assert rescue() == 1
    assert row(cut_off[1]).last_end == "lost"
