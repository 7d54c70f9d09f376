"""What goes on around drains: scan, wake-ups, lost jobs, and the end of stuck processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, connections
from kombu.exceptions import OperationalError

from apps.common import clock
from apps.jobs import wakeup
from apps.jobs.models import Job, Worker
from apps.jobs.runner import listener as listener_module
from apps.jobs.runner import scan as scan_module
from apps.jobs.runner.listener import Listener
from apps.jobs.runner.process import Node, Process
from apps.jobs.runner.scan import scan
from apps.jobs.runner.watchdog import STUCK, Watchdog
from apps.jobs.wakeup import over_redis
from tests.frozen import FrozenClock
from tests.jobs import drained, events_of, job_type, jobs, row

Make = Callable[..., Any]
pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def process() -> Process:
    return Process(Node("worker@test", ("fast", "slow"), 4))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lanes that drains were started for."""
    lanes: list[str] = []

    def send(name: str, args: list[str], queue: str, **_: Any) -> None:
        assert (name, args) == ("jobs.drain", [queue])
        lanes.append(queue)

    monkeypatch.setattr(scan_module.current_app, "send_task", send)
    return lanes


# --- Scan ---------------------------------------------------------------------------------------


def test_scan_keeps_a_drain_of_each_lane_and_fills_the_slots_where_jobs_are_due(
    handle: Make, process: Process, sent: list[str], frozen_clock: FrozenClock
) -> None:
    """S4.17: a message names a lane and no job; what has fallen due is made ready."""
    process.beat()
    scan()
    assert sorted(sent) == ["fast", "slow"]

    Worker.objects.update(drains={"fast": 1, "slow": 1})
    for name, lane in (("film", "slow"), ("mail", "fast")):
        handle(name, lambda context: None, lane=lane)
        later = frozen_clock.instant + timedelta(minutes=5)
        [number] = jobs(1, name, run_at=later)
        sent.clear()
        scan()
        assert sent == []

        frozen_clock.move_to(later)
        Worker.objects.update(last_heartbeat_at=later)
        scan()

        assert row(number).status == "ready"
        assert sent == [lane, lane]
        Job.objects.all().delete()


def test_scan_makes_ready_all_that_is_due(
    process: Process, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4.2: many jobs of one type that fall due together do not keep another type waiting."""
    monkeypatch.setattr(settings, "JOB_PROMOTION_BATCH", 2, raising=False)
    monkeypatch.setattr(scan_module, "PROMOTION_SECONDS", 60.0)
    job_type("mail")
    job_type("bill")
    due = frozen_clock.instant
    jobs(5, "mail", status="scheduled", run_at=due - timedelta(seconds=1))
    [last] = jobs(1, "bill", status="scheduled", run_at=due)

    scan()

    assert row(last).status == "ready"


def test_broker_that_is_away_stops_no_scan(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4.17: what is not sent now is sent by the next scan."""

    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(scan_module.current_app, "send_task", away)
    process.beat()
    assert scan() == {}


# --- Wake-ups -----------------------------------------------------------------------------------


def committed() -> None:
    """A change by somebody else."""

    def change() -> None:
        job_type("elsewhere")
        connections.close_all()

    thread = threading.Thread(target=change)
    thread.start()
    thread.join()


@pytest.mark.django_db(transaction=True)
def test_waiting_drain_is_woken_by_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """S4.13: by Redis, or by the version of the SQLite file when something is due."""
    # After a short pause, neither Redis nor the process counts as gone.
    monkeypatch.setattr(over_redis, "_TIMEOUT_SECONDS", 20.0)
    monkeypatch.setattr(over_redis, "_UNREAD_SECONDS", 3600.0)
    due = threading.Event()
    listener = Listener(lambda: due.is_set() and connection.vendor == "sqlite", lambda: False)
    while listener.wait(0.3):
        pass

    if connection.vendor == "sqlite":
        # Another connection commits, as sweeps do each second, and nothing is due.
        other = threading.Thread(target=lambda: (committed(), connections.close_all()))
        other.start()
        other.join()
        assert not listener.wait(0.3)

    def announce_later() -> None:
        time.sleep(0.2)
        due.set()
        committed()
        wakeup.announce()
        connections.close_all()

    thread = threading.Thread(target=announce_later)
    thread.start()
    wakes = settings.REDIS_URL or connection.vendor == "sqlite"
    woken = listener.wait(30 if wakes else 5)
    thread.join()
    listener.close()

    assert woken == bool(wakes)


@pytest.mark.sqlite
def test_drain_without_work_looks_seldom_at_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle machine is left alone; who has just worked looks often."""
    pauses: list[float] = []
    monkeypatch.setattr(listener_module.time, "sleep", pauses.append)
    listener = Listener(lambda: False, lambda: False)

    for busy in (3600.0, 0.0):
        monkeypatch.setattr(listener_module, "BUSY_SECONDS", busy)
        listener.wait(0.01)
        listener.wait(0.01)

    assert set(pauses) == {listener_module.VERSION_SECONDS, listener_module.IDLE_VERSION_SECONDS}
    assert pauses == sorted(pauses)


@pytest.mark.mariadb
@pytest.mark.parametrize("redis", ["", "redis://127.0.0.1:1/0"], ids=["none", "away"])
def test_without_redis_the_table_is_probed(redis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4.13: the table is the queue, whatever wakes."""
    monkeypatch.setattr(settings, "REDIS_URL", redis)
    monkeypatch.setattr(listener_module, "RECONNECT_SECONDS", 3600.0)
    asked: list[float] = []
    listener = Listener(lambda: len(asked) > 2 or bool(asked.append(0.0)), lambda: False)
    if redis:
        # A message may have arrived before Redis was away.
        assert listener.wait(30)
        assert asked == []

    assert listener.wait(30)

    assert len(asked) == 3


def test_process_that_stops_waits_no_longer(process: Process) -> None:
    process.stop()
    assert not Listener(lambda: False, lambda: process.stopping).wait(3600)


# --- Lost jobs ----------------------------------------------------------------------------------


def test_job_whose_worker_was_lost_runs_beside_others_and_stops_none(
    handle: Make, process: Process
) -> None:
    """The only slot that is free takes it while a long handler runs, and the next job after it."""
    ran: list[int] = []

    def mail(context: Any) -> None:
        position = context["position"]
        if position == 0:
            lost, after = jobs(2, last_end="lost", context={"position": 1}), jobs(1)
            Job.objects.filter(pk__in=after).update(context={"position": 2})
            assert drained(process) == 3
            assert {row(number).status for number in (*lost, *after)} == {"succeeded"}
        ran.append(position)

    handle("mail", mail)
    jobs(1)

    assert drained(process) == 1
    assert ran == [1, 1, 2, 0]


# --- The end of a process -----------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop waits for nobody, and in no thread: the connection of a test belongs to its own."""
    monkeypatch.setattr(settings, "JOB_STOP_SECONDS", 0, raising=False)
    monkeypatch.setattr(threading.Thread, "start", lambda self: self.run())
    monkeypatch.setattr(threading.Thread, "join", lambda self, timeout=None: None)


def test_handler_past_its_deadline_ends_the_process_and_frees_its_neighbours(
    handle: Make, process: Process, monkeypatch: pytest.MonkeyPatch, at_once: None
) -> None:
    """F23: what is done is settled, what has not started is released; the stuck one is rescued."""
    codes: list[int] = []
    watchdog = Watchdog(process, leave=codes.append)

    def mail(context: Any) -> None:
        if context["position"] == 1:
            [drain] = process.drains
            assert drain.current is not None
            watchdog.check()
            assert codes == []
            drain.current.deadline = time.monotonic() - 1
            watchdog.check()

    handle("mail", mail)
    numbers = jobs(3)
    seen: list[list[str]] = []
    monkeypatch.setattr(
        watchdog, "_exit", lambda code: (codes.append(code), seen.append(statuses()))
    )

    def statuses() -> list[str]:
        return [row(number).status for number in numbers]

    drained(process)

    assert codes == [STUCK]
    assert seen == [["succeeded", "running", "ready"]]
    assert Worker.objects.get().state == "gone"


def test_job_whose_handler_outlasts_a_stop_is_put_back_and_uses_up_no_attempt(
    handle: Make, process: Process, at_once: None
) -> None:
    """Also the only one; nobody starts it before the process has ended."""
    seen: list[Any] = []
    began = clock.now()

    def mail(context: Any) -> None:
        process.stop()
        assert process.stopping
        time.sleep(0.01)
        watchdog.check()

    def leave(code: int) -> None:
        job = Job.objects.get()
        is_later = job.run_at > began + timedelta(seconds=3)
        seen.append((code, job.status, job.attempts, is_later, events_of(job.pk)))

    watchdog = Watchdog(process, leave=leave)
    handle("mail", mail, max_attempts=1)
    jobs(1)

    drained(process)

    assert seen == [(0, "scheduled", 0, True, ["interrupted"])]
