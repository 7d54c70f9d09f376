"""The fixtures around real processes give each a fresh database and let none survive."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.processes import RunningProcess, eventually
from tests.workers import rows


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


@pytest.mark.both
def test_command_in_a_fork_works_on_the_platform_and_says_how_it_ended(
    manage: Callable[..., subprocess.CompletedProcess[str]], environment: Mapping[str, str]
) -> None:
    made = manage("apiclient", "create", "Shop", "--scope", "pull")
    assert (made.returncode, made.stderr) == (0, "")
    assert rows(environment["DATABASE_URL"], "SELECT COUNT(*) FROM access_apiclient") == [(1,)]

    refused = manage("apiclient", "create", "Shop", "--scope", "dance")
    assert refused.returncode != 0
    assert "dance" in refused.stderr
