"""The demo beside a platform that runs as `make run` starts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.processes import RunningProcess, free_port

Manage = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., RunningProcess]

PROMISES = (
    "every quota is met exactly",
    "nobody was handed a task again that was over for them",
    "nobody ever had two tasks at once",
    "nothing is left open",
    "every repeated callback gets its first answer",
)


@pytest.fixture
def port(environment: dict[str, str]) -> str:
    """A free port that every process of the test takes for the platform's."""
    environment["PORT"] = str(free_port())
    return environment["PORT"]


@pytest.fixture
def platform(start: Start, port: str) -> RunningProcess:
    running = start(sys.executable, "manage.py", "serve")
    running.await_output("Ctrl-C stops everything")
    return running


@pytest.mark.usefixtures("platform")
def test_twenty_clients_meet_every_quota_exactly(manage: Manage) -> None:
    """S0.1, S0.5, S0.12–S0.14, S0.16, S0.25, S0.28, S0.29, I1, I4, I5, I13: over HTTP, with
    failures, releases, and callbacks whose first answer is lost."""
    played = manage("demo", "--clients", "20", "--seconds", "12")
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stderr == ""
    for promise in PROMISES:
        assert f"✓ {promise}" in played.stdout
    rows = [line for line in played.stdout.splitlines() if "Nanjing Road  " in line]
    assert len(rows) == 10
    assert all(row.endswith("yes") for row in rows)
    assert max(map(len, played.stdout.splitlines())) <= 100

    again = manage("demo")
    assert "nothing of it is left to hand out" in again.stdout

    next_round = manage("demo", "--clients", "20", "--seconds", "12")
    assert next_round.returncode == 0, next_round.stdout + next_round.stderr
    assert "Fridge photos, Harbour Street" in next_round.stdout


@pytest.mark.usefixtures("platform")
def test_run_that_cannot_succeed_exits_1_and_says_why(manage: Manage) -> None:
    refused = manage("demo", "--clients", "20", "--key", "nobody.knows-it")
    assert refused.returncode == 1
    assert "not_authenticated" in refused.stderr
    assert "knows-it" not in refused.stderr + refused.stdout
    assert len(refused.stderr.splitlines()) == 1

    short = manage("demo", "--clients", "20", "--seconds", "1")
    assert short.returncode == 1
    assert "✗ every quota is met exactly" in short.stdout
    assert "✓ nothing is left open" in short.stdout
    assert "--seconds" in short.stderr


def test_two_runs_without_a_server_plan_once(
    manage: Manage, environment: Mapping[str, str]
) -> None:
    Path(environment["VAR_DIR"]).mkdir(exist_ok=True)
    manage("migrate", "--verbosity", "0")
    first, second = manage("demo"), manage("demo")
    assert first.stdout == "Planned a round of 11 tasks for the shop Nanjing Road.\n"
    assert second.stdout.startswith("The demo data is there; 83 hand-outs of 10 tasks are left.")
