"""The fixtures around real processes give each a fresh database and let none survive."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes import RunningProcess, eventually


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
