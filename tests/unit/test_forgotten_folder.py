"""A command for the data of a platform, started without the VAR_DIR of that platform."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.core import management

import manage
from tests.environment import neutral

ROOT = Path(manage.__file__).parent
# They make a platform, serve one, or bring databases of their own.
BEFORE_A_PLATFORM = {"serve", "web", "benchmark", "settings", "datamodel"}


def test_it_says_where_it_looked_and_leaves_nothing(tmp_path: Path) -> None:
    var = tmp_path / "none"

    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "apiclient", "list"],
        env={**neutral(var), "DATABASE_URL": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith(f"There is no platform in VAR_DIR={var}: it has no database.")
    assert "VAR_DIR=/srv/tasks … manage.py apiclient" in line
    assert not var.exists()


def test_only_commands_that_come_before_a_platform_go_on_without_one(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`migrate` is one of those that come first."""
    started: list[list[str]] = []
    monkeypatch.setattr(management, "execute_from_command_line", started.append)
    monkeypatch.setenv("VAR_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("DATABASE_URL", "")
    # Which it sets itself, for the processes of other tests too.
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
    for line in ("audit", "demo", "rebuild_reports --from 2026-11-20"):
        with subtests.test(line=line):
            command = ["manage.py", *line.split()]
            monkeypatch.setattr(sys, "argv", command)
            with pytest.raises(SystemExit, match=rf"^There is no .* … manage\.py {command[1]}, or"):
                manage.main()
    assert started == []
    early = [["manage.py", "migrate", "--plan"], ["manage.py", "apiclient", "--help"]]
    for command in early:
        monkeypatch.setattr(sys, "argv", command)
        manage.main()
    assert started == early
    assert not (tmp_path / "none").exists()


def test_each_own_command_says_whether_it_needs_a_platform() -> None:
    own = {
        path.stem
        for box in ("apps", "taskplatform")
        for path in (ROOT / box).glob("**/management/commands/*.py")
        # Those of the client are for other projects.
        if path.stem != "__init__" and "client" not in path.parts
    }
    assert own - BEFORE_A_PLATFORM == manage.OF_A_PLATFORM & own
