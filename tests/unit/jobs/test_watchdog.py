"""A process with a stuck handler: its neighbours keep what was promised to them. F23."""

from __future__ import annotations

import faulthandler
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from apps.jobs.runner.process import Node, Process
from apps.jobs.runner.watchdog import MARGIN_SECONDS, STUCK, Watchdog
from tests.processes import eventually


class Drain:
    """Runs a handler that has so many seconds left."""

    lane = "fast"

    def __init__(self, left: float) -> None:
        self.held: dict[int, Any] = {}
        self.current: Any = SimpleNamespace(id=1, type="mail", deadline=time.monotonic() + left)
        self.interrupted: bool | None = None

    def maintain(self) -> None: ...

    def release_all(self) -> None:
        current = self.current
        self.interrupted = current is not None and current.deadline > time.monotonic()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    process = Process(Node("node", ["fast"], slots=2))
    monkeypatch.setattr(process, "leave", lambda: None)
    yield process
    # What a watchdog arms would end the process of the tests 90 seconds later.
    faulthandler.cancel_dump_traceback_later()


def watched(process: Process, *drains: Drain) -> list[int]:
    """The codes with which the process ends, as soon as it does."""
    process.drains[:] = drains
    codes: list[int] = []
    threading.Thread(target=Watchdog(process, leave=codes.append).check, daemon=True).start()
    return codes


def test_neighbour_of_a_stuck_handler_goes_on_to_its_end(process: Process) -> None:
    stuck, neighbour = Drain(-2 * MARGIN_SECONDS), Drain(600)
    codes = watched(process, stuck, neighbour)
    eventually(lambda: process.stopping)
    assert codes == [] and neighbour.interrupted is None

    neighbour.current = None

    eventually(lambda: codes == [STUCK])
    assert neighbour.interrupted is False


def test_neighbour_that_is_stuck_as_well_is_not_waited_for(process: Process) -> None:
    codes = watched(process, Drain(-2 * MARGIN_SECONDS), Drain(0.1))

    eventually(lambda: codes == [STUCK], seconds=10)


def test_stop_ends_the_wait_for_a_neighbour(process: Process, settings: Any) -> None:
    settings.JOB_STOP_SECONDS = 0
    neighbour = Drain(600)
    codes = watched(process, Drain(-2 * MARGIN_SECONDS), neighbour)
    eventually(lambda: process.stopping)

    process.stop()

    eventually(lambda: codes == [STUCK])
    assert neighbour.interrupted is True
