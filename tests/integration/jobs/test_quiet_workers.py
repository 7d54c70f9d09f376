"""Workers that take nothing for a while, and who serves a type."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from apps.common import clock
from apps.jobs.models import Worker
from apps.jobs.runner import scan as scan_module
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.process import Node, Process
from apps.jobs.services import living, outside, register
from tests import factories
from tests.frozen import FrozenClock
from tests.jobs import drained, job_type, jobs, row

pytestmark = [pytest.mark.django_db, pytest.mark.both]


Make = Callable[..., Any]
OLGA = {"actor": "admin:olga", "reason": "New disk"}


def own_row(process: Process) -> Worker:
    return Worker.objects.get(name=process.name)


def quiet(process: Process) -> None:
    """As an operator does it; the process hears of it with its next heartbeat."""
    register.quiet(worker=own_row(process), **OLGA)
    process.beat()


def resume(process: Process) -> None:
    register.resume(worker=own_row(process), **OLGA)
    process.beat()


def test_quiet_worker_stays_quiet_when_it_registers_again() -> None:
    worker = factories.worker_over_http(types=["mail"])
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
            factories.worker_over_http(types=["mail"], promises_beats=promises_beats, **columns)
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
