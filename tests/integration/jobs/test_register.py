"""S4.10, I29: which workers are alive or lost, which take nothing new until somebody resumes them,
and who serves which type."""

from __future__ import annotations

import heapq
import os
import random
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from apps.common import clock
from apps.jobs.models import Job, Worker
from apps.jobs.rules import reasons
from apps.jobs.runner import scan as scan_module
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.process import Node, Process, dead_here, machine
from apps.jobs.services import living, outside, register
from apps.jobs.services.leases import Heartbeat, renew
from apps.jobs.services.register import WorkerKey
from apps.jobs.sweeps import rescue
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.jobs import HERE, drained, job_type, jobs, row, take

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
    over_http(types=["mail"], promises_beats=False)
    over_http(name="pi-2", types=["mail"], promises_beats=True)

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


Make = Callable[..., Any]
OLGA = {"actor": "admin:olga", "reason": "New disk"}


def over_http(name: str = "pi-1", *, types: list[str], **columns: Any) -> Worker:
    columns = {"kind": "http", "client": "key-1", "lanes": [], **columns}
    return factories.worker(name, types=types, **columns)


def own_row(process: Process) -> Worker:
    return Worker.objects.get(name=process.name)


def quiet(process: Process) -> None:
    """As an operator does it; the process hears of it with its next heartbeat."""
    register.quiet(worker=own_row(process), **OLGA)
    process.beat()


def resume(process: Process) -> None:
    register.resume(worker=own_row(process), **OLGA)
    process.beat()


# --- what operators do ----------------------------------------------------------------------------
def test_quiet_worker_stays_quiet_when_it_registers_again() -> None:
    worker = over_http(types=["mail"])
    register.quiet(worker=worker, **OLGA)

    register.leave(name="pi-1", client="key-1")
    register.register(name="pi-1", client="key-1", host="pi", kind="http", types=["mail"])

    assert Worker.objects.get().is_quiet


# --- a process in-house ---------------------------------------------------------------------------
def test_quiet_process_holds_nothing_until_it_is_resumed(handle: Make, process: Process) -> None:
    handle("mail", lambda context: None)
    [number] = jobs()
    process.beat()
    quiet(process)

    assert drained(process) == 0
    assert row(number).status == "ready"

    resume(process)

    assert drained(process) == 1
    assert row(number).status == "succeeded"


def test_process_made_quiet_by_its_row_ends_what_it_has(handle: Make, process: Process) -> None:
    """It hears of it with a heartbeat while a handler runs, and what it holds runs to its end."""
    process.beat()
    handle("mail", lambda context: quiet(process))
    numbers = jobs(3)

    assert drained(process) == 3
    assert process.is_quiet
    assert {row(number).status for number in numbers} == {"succeeded"}


# --- starting drains ------------------------------------------------------------------------------
@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lanes that drains were started for."""
    lanes: list[str] = []
    monkeypatch.setattr(
        scan_module, "_send", lambda _task, **sent: lanes.append(sent.get("queue")) or True
    )
    return lanes


def test_scan_starts_no_drain_for_a_quiet_worker(process: Process, sent: list[str]) -> None:
    process.beat()
    quiet(process)
    scan_module.scan()
    assert sent == []

    resume(process)
    scan_module.scan()
    assert sorted(sent) == ["fast", "slow"]


def test_drains_that_rest_in_a_quiet_worker_do_not_replace_others(
    handle: Make, sent: list[str]
) -> None:
    """Its slots are not free, and another worker has a drain of each lane of its own."""
    handle("mail", lambda context: None)
    jobs()
    here, there = (Process(Node(name, ("fast",), 2)) for name in ("a@test", "b@test"))
    here.beat()
    there.beat()
    quiet(here)
    Worker.objects.filter(name=here.name).update(drains={"fast": 1})

    scan_module.scan()

    assert sent == ["fast", "fast"]
    drain = Drain(there, "fast")
    there.join(drain)
    assert drain._is_needed()


def test_last_slot_of_a_node_serves_both_lanes_while_the_others_are_quiet() -> None:
    """Else nobody would run slow jobs: its drain of the fast lane leaves them to others."""
    node = Node("forks@test", ("fast", "slow"), 2, forks=True)
    here = Process(node)
    here.beat()
    other = factories.worker("other:1", node=node.key, capacity=1, drains={"slow": 1})
    drain = Drain(here, "fast")
    here.note_siblings()
    assert drain._lanes == ("fast",)

    register.quiet(worker=other, **OLGA)
    here.note_siblings()

    assert drain._lanes == ("fast", "slow")
    assert not drain_is_surplus(here, drain)


def drain_is_surplus(process: Process, drain: Drain) -> bool:
    process.join(drain)
    return drain._is_surplus()


# --- who serves a type ----------------------------------------------------------------------------
def test_types_are_served_by_both_kinds(
    frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    """In-house by handler and lane, over HTTP by whoever lists the type."""
    for case in product(("celery", "http"), ("send", ""), ("fast", "slow")):
        kind, handler, lane = case
        is_served = kind == "http" or case == ("celery", "send", "fast")
        with subtests.test(case=case):
            Worker.objects.all().delete()
            snapshot = job_type(handler=handler, lane=lane).snapshot
            lanes = ["fast"] if kind == "celery" else []
            worker = factories.worker(types=["mail"], kind=kind, lanes=lanes)

            left = living.unserved([snapshot], living.active_workers(frozen_clock.instant))

            assert living.serves(worker, snapshot) == is_served
            assert [each.name for each in left] == ([] if is_served else ["mail"])


def test_who_takes_nothing_serves_nothing(
    frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    snapshot, now = job_type(handler="").snapshot, frozen_clock.instant
    for promises_beats, columns in product(
        (True, False),
        (
            {"is_quiet": True},
            {"state": "draining"},
            {"last_heartbeat_at": now - timedelta(seconds=25)},
        ),
    ):
        with subtests.test(promises_beats=promises_beats, columns=columns):
            Worker.objects.all().delete()
            over_http(types=["mail"], promises_beats=promises_beats, **columns)
            assert living.unserved([snapshot], living.active_workers(now))


SECONDS = 20


def asks_of(number: int, frozen_clock: FrozenClock) -> int:
    """How often so many idle workers ask in that time."""
    begun = clock.now()
    now, asks = 0.0, 0
    times = [outside.retry_after() * random.random() for _ in range(number)]
    heapq.heapify(times)
    while (at := heapq.heappop(times)) < SECONDS:
        frozen_clock.advance(seconds=at - now)
        now, asks = at, asks + 1
        heapq.heappush(times, at + outside.retry_after())
    frozen_clock.instant = begun
    return asks


def test_idle_workers_ask_seldom_whatever_is_due(
    frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Also while jobs that are for none of them are about to be due, one after the other."""
    outside.forget()
    monkeypatch.setattr(outside._poll, "seconds", 0.0)
    for workers in (1, 20, 400):
        monkeypatch.setattr(living, "outsiders", lambda now, number=workers: number)
        for due in (None, 0.0, 0.05, 2.0):
            with subtests.test(workers=workers, due=due):
                left = None if due is None else timedelta(seconds=due)
                monkeypatch.setattr(
                    outside,
                    "_next_due",
                    lambda left=left: None if left is None else clock.now() + left,
                )
                assert asks_of(workers, frozen_clock) <= 60 * SECONDS
