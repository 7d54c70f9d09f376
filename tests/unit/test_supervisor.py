"""What the supervisor keeps of its parts' words, and how long it waits for a dead one."""

from __future__ import annotations

import errno
import json
import os
import uuid
from pathlib import Path

import pytest

from taskplatform import supervisor
from taskplatform.supervisor import Child, Part, RotatingLog, problem_of

# --- Delays -------------------------------------------------------------------------------------


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(supervisor.time, "monotonic", lambda: self.now)


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(Part("web", ["web"]), RotatingLog(tmp_path / "web.log"), lambda line: None)


def test_part_that_dies_at_each_start_waits_longer_and_is_given_up_at_the_fifth_death(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    delays = []
    for _ in range(5):
        delay = child.note_death()
        delays.append(delay)
        clock.now += delay or 0

    assert delays == [1, 2, 4, 8, None]


def test_part_that_dies_now_and_then_is_never_given_up(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    delays = []
    for _ in range(12):
        delays.append(child.note_death())
        clock.now += 61

    assert delays == [1] * 12


def test_delay_grows_no_further_than_half_a_minute(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(supervisor, "FIRST_DELAY", 16.0)
    delays = []
    for _ in range(4):
        delays.append(child.note_death())
        clock.now += 16

    assert delays == [16, 30, 30, 30]


def test_part_that_runs_the_code_of_others_is_never_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    part = Part("drains", ["drains"], may_die=True)
    child = Child(part, RotatingLog(tmp_path / "drains.log"), lambda line: None)
    delays = []
    for _ in range(7):
        delay = child.note_death()
        delays.append(delay)
        clock.now += delay or 0

    assert delays == [1, 2, 4, 8, 16, 16, 16]


# --- Lines for the terminal ---------------------------------------------------------------------


def line(**entry: str) -> bytes:
    return json.dumps(entry).encode()


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (line(level="ERROR", message="it broke"), "it broke"),
        (line(level="CRITICAL", message="it broke"), "it broke"),
        (
            line(level="ERROR", message="it broke", exception="Traceback\n  File\nValueError: 7"),
            "it broke: ValueError: 7",
        ),
        (
            b"2026-11-21T23:00:44.123Z ERROR apps.x: it broke: ValueError: 7",
            "it broke: ValueError: 7",
        ),
        (b"2026-11-21T23:00:44.123Z CRITICAL apps.x: \x1b[2Jit broke", " [2Jit broke"),
        (b"2026-11-21T23:00:44.123Z WARNING apps.x: it broke", ""),
        (b"    2026-11-21T23:00:44.123Z ERROR forged: in a traceback", ""),
        (line(level="WARNING", message="Not Found: /x"), ""),
        (line(level="INFO", message="fine"), ""),
        (b"Traceback (most recent call last):", ""),
        (b'{"level": "ERROR", half a line', ""),
        (b'["ERROR"]', ""),
    ],
)
def test_terminal_shows_errors_only(printed: bytes, shown: str) -> None:
    assert problem_of(printed) == shown


def test_terminal_obeys_nothing_that_a_log_line_holds() -> None:
    shown = problem_of(line(level="ERROR", message="\x1b]0;owned\x07\x1b[2Jgone\nnext\u202e"))

    assert shown == " ]0;owned  [2Jgone next "


def test_long_problem_is_cut() -> None:
    assert len(problem_of(line(level="ERROR", message="x" * 10_000))) == 301


def test_problem_that_comes_again_with_another_id_or_count_is_told_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    told: list[str] = []
    child = Child(Part("sweeps", ["x"]), RotatingLog(tmp_path / "sweeps.log"), told.append)

    for count in range(3):
        for sweep in ("jobs.scan", "jobs.rescue"):
            message = f"Task {sweep}[{uuid.uuid4()}] raised unexpected after {count} s"
            child._take(line(level="ERROR", message=message) + b"\n")
    clock.now += 61
    child._take(line(level="ERROR", message=message) + b"\n")

    assert [words.split("[")[0] for words in told] == [
        "sweeps: Task jobs.scan",
        "sweeps: Task jobs.rescue",
        "sweeps: Task jobs.rescue",
    ]


# --- Files --------------------------------------------------------------------------------------


@pytest.fixture
def small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LOG_BYTES", 100)
    monkeypatch.setattr(supervisor, "LOG_FILES", 3)


@pytest.mark.usefixtures("small_logs")
def test_log_is_turned_over_when_full_and_the_oldest_goes(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "web.log")
    for number in range(9):
        log.write(f"{number}".encode() * 50)
    log.close()

    kept = {path.name: path.read_text()[::50] for path in tmp_path.iterdir()}
    assert kept == {"web.log": "8", "web.log.1": "67", "web.log.2": "45"}


@pytest.mark.usefixtures("small_logs")
def test_log_of_an_earlier_run_counts(tmp_path: Path) -> None:
    (tmp_path / "web.log").write_text("a" * 60)
    log = RotatingLog(tmp_path / "web.log")
    log.write(b"b" * 40)
    log.write(b"c")
    log.close()

    assert (tmp_path / "web.log.1").read_text() == "a" * 60 + "b" * 40
    assert (tmp_path / "web.log").read_text() == "c"


def test_full_disk_ends_no_part_and_is_told_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = RotatingLog(tmp_path / "web.log")
    monkeypatch.setattr(os, "write", full)
    log.write(b"lost")
    assert log.failure == "No space left on device"

    monkeypatch.setattr(os, "write", write)
    log.write(b"kept")
    log.close()

    assert log.failure == ""
    assert (tmp_path / "web.log").read_text() == "kept"
