"""When the supervisor restarts a part, what it logs, and what it shows on the terminal."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from taskplatform import supervisor
from taskplatform.supervisor import Child, Part, problem_of
from tests.processes import eventually

# --- Delays -------------------------------------------------------------------------------------


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        passing = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(supervisor, "time", passing)


@pytest.fixture
def shown() -> list[str]:
    """The lines on the terminal."""
    return []


@pytest.fixture
def child(tmp_path: Path, shown: list[str]) -> Iterator[Child]:
    """A part that ends at once."""
    child = Child(Part("web", ["true"]), tmp_path, shown.append)
    yield child
    child.log.close()


def delays(child: Child, clock: Clock, *lived: float) -> list[float]:
    """How long the part waits after each of its deaths."""
    found = []
    for seconds in lived:
        child.start_when_due()
        clock.now += seconds
        eventually(lambda: not child.is_running)
        assert child.take_death() == "ended with code 0"
        found.append(child.delay)
        child.start_when_due()
        assert child.take_death() == ""
        clock.now += child.delay
    return found


def test_part_that_dies_soon_waits_longer_each_time_up_to_half_a_minute(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived = [*[0] * 6, 59, 60, 0]
    assert delays(child, Clock(monkeypatch), *lived) == [1, 2, 4, 8, 16, 30, 30, 1, 2]


# --- Lines for the terminal ---------------------------------------------------------------------


TRACEBACK = "Traceback (most recent call last):\n  File 'x.py', line 3, in x\n"


def line(**entry: str) -> str:
    return json.dumps(entry)


def test_terminal_shows_errors_only(subtests: pytest.Subtests) -> None:
    for printed, expected in (
        (line(level="ERROR", message="it broke"), "it broke"),
        (line(level="CRITICAL", message="it broke"), "it broke"),
        (
            line(
                level="ERROR", message="it broke", exception=f"{TRACEBACK}ValueError: 7\nand more"
            ),
            "it broke: ValueError: 7",
        ),
        (
            "2026-11-21T23:00:44.123Z ERROR apps.x: it broke: ValueError: 7",
            "it broke: ValueError: 7",
        ),
        ("2026-11-21T23:00:44.123Z CRITICAL apps.x: \x1b[2Jit broke", " [2Jit broke"),
        ("2026-11-21T23:00:44.123Z WARNING apps.x: it broke", ""),
        ("    2026-11-21T23:00:44.123Z ERROR forged: in a traceback", ""),
        (line(level="WARNING", message="Not Found: /x"), ""),
        (line(level="INFO", message="fine"), ""),
        ("Traceback (most recent call last):", ""),
        ('{"level": "ERROR", half a line', ""),
        ('["ERROR"]', ""),
    ):
        with subtests.test(printed=printed):
            assert problem_of(printed) == expected


def test_terminal_obeys_nothing_that_a_log_line_holds() -> None:
    shown = problem_of(line(level="ERROR", message="\x1b]0;owned\x07\x1b[2Jgone\nnext\u202e"))

    assert shown == " ]0;owned  [2Jgone next "


def test_problem_that_comes_again_with_another_id_or_count_is_shown_once_a_minute(
    child: Child, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)

    for count in range(3):
        for sweep in ("jobs.scan", "jobs.rescue"):
            message = f"Task {sweep}[{uuid.uuid4()}] raised unexpected after {count} s"
            child.take(line(level="ERROR", message=message))
    clock.now += 61
    child.take(line(level="ERROR", message=message))

    assert [words.split("[")[0] for words in shown] == [
        "web: Task jobs.scan",
        "web: Task jobs.rescue",
        "web: Task jobs.rescue",
    ]


# --- Files --------------------------------------------------------------------------------------


def test_logs_of_a_part_are_bounded_and_the_oldest_lines_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LOG_BYTES", 121)
    monkeypatch.setattr(supervisor, "LOG_FILES", 3)
    (tmp_path / "web.log").write_text("from an earlier run\n")
    child = Child(Part("web", ["true"]), tmp_path, lambda line: None)
    for number in range(9):
        child.take(f"{number}" * 49)
    child.log.close()

    kept = {path.name: path.read_text()[::50] for path in tmp_path.iterdir()}
    assert kept == {"web.log": "8", "web.log.1": "67", "web.log.2": "45"}


def test_full_disk_stops_nothing_and_is_shown_until_it_is_over(
    child: Child, shown: list[str], tmp_path: Path
) -> None:
    (tmp_path / "web.log").symlink_to("/dev/full")
    child.take("lost")
    (tmp_path / "web.log").unlink()
    child.take("kept")

    assert shown == [f"web: cannot write {tmp_path / 'web.log'}: No space left on device"]
    assert child.log.failure == ""
    assert (tmp_path / "web.log").read_text() == "kept\n"
