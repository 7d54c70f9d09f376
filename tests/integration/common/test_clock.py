"""The one clock: database time carried forward, never back (design: ground rule of time)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError

from apps.common import clock
from apps.common.clock import DatabaseClock

pytestmark = pytest.mark.both

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Scene:
    """A clock whose database and elapsed time the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.database: datetime | None = START
        self.elapsed = 1000.0
        self.asked = 0
        self.clock = DatabaseClock()
        monkeypatch.setattr(clock, "RESYNC_SECONDS", 10.0)
        monkeypatch.setattr(clock, "_elapsed", lambda: self.elapsed)
        monkeypatch.setattr(self.clock, "_read", self._read)

    def _read(self) -> datetime:
        self.asked += 1
        if self.database is None:
            raise DatabaseError("gone")
        return self.database

    def pass_by(self, seconds: float) -> None:
        self.elapsed += seconds


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_database_time_is_carried_by_elapsed_time(scene: Scene) -> None:
    assert scene.clock.now() == START
    scene.pass_by(9.5)
    assert scene.clock.now() == START + timedelta(seconds=9.5)
    assert scene.asked == 1


def test_resync_after_ten_seconds_moves_forward_at_once(scene: Scene) -> None:
    """I33: the database's jump counts, not this machine's."""
    scene.clock.now()
    scene.pass_by(10)
    scene.database = START + timedelta(hours=1)
    assert scene.clock.now() == START + timedelta(hours=1)


def test_backward_jump_stands_still_until_passed(scene: Scene) -> None:
    first = scene.clock.now()
    scene.pass_by(10)
    scene.database = START - timedelta(seconds=30)
    assert scene.clock.now() == first
    scene.pass_by(9)
    assert scene.clock.now() == first
    scene.pass_by(9)
    scene.database = START + timedelta(seconds=1)
    assert scene.clock.now() == START + timedelta(seconds=1)


def test_silent_database_does_not_stop_the_clock(scene: Scene) -> None:
    """F6: goes on with elapsed time, and asks again after a second."""
    scene.clock.now()
    scene.database = None
    scene.pass_by(11)
    assert scene.clock.now() == START + timedelta(seconds=11)
    asked = scene.asked
    scene.clock.now()
    assert scene.asked == asked
    scene.pass_by(1)
    scene.clock.now()
    assert scene.asked == asked + 1


def test_database_that_never_answered_is_an_error(scene: Scene) -> None:
    scene.database = None
    with pytest.raises(DatabaseError):
        scene.clock.now()


@pytest.mark.django_db
def test_reads_the_time_of_the_real_database() -> None:
    """The session's zone or a driver's conversion would be off by hours."""
    read = DatabaseClock().now()
    # No two zones are closer to each other than a quarter of an hour.
    assert abs(read - datetime.now(UTC)) < timedelta(minutes=10)


@pytest.mark.django_db(transaction=True)
def test_reconnect_resyncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failover the server may be another one."""
    from django.db import connection

    asked: list[Any] = []
    real = clock._clock._read
    monkeypatch.setattr(clock._clock, "_read", lambda: asked.append(1) or real())
    clock.now()
    asked.clear()
    clock.now()
    assert asked == []
    connection.close()
    connection.ensure_connection()
    clock.now()
    assert asked == [1]
