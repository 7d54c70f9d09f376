"""The beat's own sense of time, which no wall clock leads astray."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from datetime import timedelta
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from django.conf import settings
from kombu.utils.imports import symbol_by_name

from apps.common import on_demand
from taskplatform import beat, clockwork
from tests.processes import eventually


class Passing:
    """Seconds that pass when a test says so, and a wall clock that somebody sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, app: Celery) -> None:
        self.elapsed = 1000.0
        self.wall = app.now()
        # Not that of all: what is imported meanwhile would keep it for ever.
        passing = SimpleNamespace(monotonic=lambda: self.elapsed)
        monkeypatch.setattr(clockwork, "time", passing)
        monkeypatch.setattr(app, "now", lambda: self.wall)

    def sleep(self, seconds: float) -> None:
        self.elapsed += seconds
        self.wall += timedelta(seconds=seconds)


def turns_of(scheduler: Any, passing: Passing, *, seconds: float) -> list[str]:
    """The sweeps that are started within the seconds, in their order."""
    sent: list[str] = []
    scheduler.apply_entry = lambda entry, producer: sent.append(entry.name)
    end = passing.elapsed + seconds
    while (wait := scheduler.tick()) + passing.elapsed < end:
        passing.sleep(wait)
    passing.sleep(end - passing.elapsed)
    return sent


@pytest.fixture
def app() -> Celery:
    app = Celery("test", broker="memory://", set_as_current=False)
    app.conf.timezone = "UTC"
    app.conf.beat_schedule = {
        "often": {"task": "often", "schedule": 1},
        "rarely": {"task": "rarely", "schedule": 10},
    }
    return app


@pytest.mark.parametrize("step", [timedelta(hours=-1), timedelta(0), timedelta(hours=1)])
def test_sweeps_come_in_their_periods_however_the_wall_clock_is_set(
    app: Celery, monkeypatch: pytest.MonkeyPatch, step: timedelta
) -> None:
    passing = Passing(monkeypatch, app)
    scheduler = symbol_by_name(settings.CELERY_BEAT_SCHEDULER)(app=app)
    turns_of(scheduler, passing, seconds=25)
    passing.wall += step

    sent = turns_of(scheduler, passing, seconds=60)

    assert 59 <= sent.count("often") <= 61
    assert 5 <= sent.count("rarely") <= 7


def test_sweeps_that_are_due_together_stay_together(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each moment with a sweep wakes beat, worker and drains, however long it takes to send one."""
    passing = Passing(monkeypatch, app)
    scheduler: Any = symbol_by_name(settings.CELERY_BEAT_SCHEDULER)(app=app)
    scheduler.apply_entry = lambda entry, producer: passing.sleep(0.01)

    waits = []
    end = passing.elapsed + 60
    while passing.elapsed < end:
        waits.append(scheduler.tick())
        passing.sleep(waits[-1])

    assert len(waits) == 60
    assert min(waits) > 0.97


class Broker:
    """Counts the sweeps that it gets, and takes them unless it is away."""

    def __init__(self, app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_away = True
        self.asked = 0
        monkeypatch.setattr(app, "send_task", self._send)

    def _send(self, *_args: Any, **_kwargs: Any) -> None:
        self.asked += 1
        if self.is_away:
            raise OSError("Connection refused")


def test_sweeps_go_on_while_the_broker_is_away(
    app: Celery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F12, F13: it is asked again and logged every five seconds only; those on demand run, too."""
    passing, broker = Passing(monkeypatch, app), Broker(app, monkeypatch)
    ran, may_end = Counter[str](), Event()

    @app.task(name="often", shared=False)
    def often() -> None:
        ran["often"] += 1

    @app.task(name="rarely", shared=False)
    def rarely() -> None:
        ran["rarely"] += 1
        may_end.wait(60)

    @app.task(name="scan", shared=False)
    def scan() -> None:
        ran["scan"] += 1

    @app.task(name="look", shared=False)
    def look() -> None:
        ran["look"] += 1

    def running() -> set[str]:
        return {thread.name for thread in threading.enumerate()} & {"often", "scan", "look"}

    app.conf.beat_schedule["scan"] = {"task": "scan", "schedule": 1}
    monkeypatch.setattr(clockwork, "SCAN", "scan")
    monkeypatch.setattr(on_demand, "_looks", {"look": lambda: True, "rest": lambda: False})
    scheduler: Any = symbol_by_name(settings.CELERY_BEAT_SCHEDULER)(app=app)

    for second in range(1, 12):
        scheduler.tick()
        eventually(lambda second=second: ran["look"] == second and not running())  # type: ignore[misc]
        passing.sleep(1)

    assert ran == {"often": 11, "scan": 11, "look": 11, "rarely": 1}
    may_end.set()
    assert broker.asked == 3
    assert [record.exc_info for record in caplog.records] == [None] * 3
    assert "Connection refused. For 5 s sweeps run beside beat." in caplog.text

    broker.is_away = False
    passing.sleep(5)
    scheduler.tick()
    assert broker.asked == 3 + 2
    assert ran["often"] == 11


def test_first_turn_of_a_sweep_comes_at_once(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    passing = Passing(monkeypatch, app)
    scheduler = symbol_by_name(settings.CELERY_BEAT_SCHEDULER)(app=app)

    assert sorted(turns_of(scheduler, passing, seconds=0.5)) == ["often", "rarely"]


def test_message_of_a_machine_whose_clock_is_some_seconds_behind_still_counts() -> None:
    """Celery compares the wall clocks of two machines: that of beat and that of the worker."""
    assert all(each["options"]["expires"] > 60 for each in beat.schedule().values())


def test_what_a_worker_has_loaded_is_not_searched_for_garbage_once_beat_is_forked() -> None:
    """A search writes to each object, so that beat would have a copy of all that is loaded."""
    loaded = {"of": ["the", {"worker": 1}]}
    clockwork.EndWithBeat(None).create(None)
    assert not any(each is loaded for each in gc.get_objects())
