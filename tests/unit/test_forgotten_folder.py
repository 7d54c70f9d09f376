"""A command for the data of a platform, started without the VAR_DIR of that platform."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import manage
from tests.environment import neutral

ROOT = Path(manage.__file__).parent
# They make a platform, serve one, or bring databases of their own.
BEFORE_A_PLATFORM = {"serve", "web", "benchmark"}


def run(var: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**neutral(var), "DATABASE_URL": ""}
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        env=environment,
        cwd=var.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "command", ["apiclient list", "audit", "demo", "rebuild_reports --from 2026-11-20"]
)
def test_it_says_where_it_looked_and_leaves_nothing(tmp_path: Path, command: str) -> None:
    var = tmp_path / "none"

    done = run(var, *command.split())

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith(f"There is no platform in VAR_DIR={var}: it has no database.")
    assert f"VAR_DIR=/srv/tasks … manage.py {command.split()[0]}" in line
    assert not var.exists()


def test_its_help_needs_no_platform(tmp_path: Path) -> None:
    assert "usage: manage.py apiclient" in run(tmp_path / "none", "apiclient", "--help").stdout


def test_a_platform_from_before_its_first_start_can_be_made(tmp_path: Path) -> None:
    """`migrate` is one of those that come first."""
    assert run(tmp_path / "new", "migrate", "--plan").returncode == 0


def test_each_own_command_says_whether_it_needs_a_platform() -> None:
    own = {
        path.stem
        for path in ROOT.glob("*/**/management/commands/*.py")
        if path.stem != "__init__" and ".venv" not in path.parts
    }
    assert own - BEFORE_A_PLATFORM == manage.OF_A_PLATFORM & own
