"""The fixtures around real processes give each a fresh database and let none survive."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import RunningProcess, eventually


def test_each_test_has_a_migrated_database_of_its_own(
    manage: Callable[..., subprocess.CompletedProcess[str]],
    environment: dict[str, str],
    migrated_database: str,
) -> None:
    assert manage("migrate", "--check").returncode == 0
    assert environment["DATABASE_URL"] != migrated_database


def test_environment_of_a_process_has_nothing_of_the_tests_own(
    environment: dict[str, str],
) -> None:
    assert "DJANGO_SETTINGS_MODULE" not in environment
    assert "PYTEST_CURRENT_TEST" not in environment


def test_process_left_running_is_stopped_with_its_children(tmp_path: Path) -> None:
    # KILL, since a child still on its way to `sleep` holds the shell's trap and would lose a TERM.
    process = RunningProcess(
        ["sh", "-c", "trap 'kill -KILL $child; exit' TERM; sleep 60 & child=$!; echo ready; wait"],
        dict(os.environ),
        tmp_path / "log",
    )
    process.await_output("ready")

    process.end()

    assert not process.lives()


def test_process_that_leaves_a_child_behind_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.processes.STOP_SECONDS", 0.5)
    process = RunningProcess(
        ["sh", "-c", "sleep 60 & echo ready"], dict(os.environ), tmp_path / "log"
    )
    process.await_output("ready")

    with pytest.raises(AssertionError, match="not within 0 s"):
        process.end()

    eventually(lambda: not process.lives())


def test_process_that_ends_before_its_output_comes_shows_what_came(tmp_path: Path) -> None:
    process = RunningProcess(["sh", "-c", "echo oh; exit 3"], dict(os.environ), tmp_path / "log")

    with pytest.raises(AssertionError, match="ended with 3:\noh"):
        process.await_output("ready")


def test_signal_to_all_reaches_children(tmp_path: Path) -> None:
    process = RunningProcess(
        ["sh", "-c", "sleep 60 & echo ready; wait"], dict(os.environ), tmp_path / "log"
    )
    process.await_output("ready")

    process.signal_all(signal.SIGINT)
    process.signal_all(signal.SIGTERM)

    eventually(lambda: not process.lives())
