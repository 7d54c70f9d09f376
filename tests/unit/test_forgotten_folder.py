"""A command for the data of a platform, started without the VAR_DIR of that platform."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.core import management
from django.db import OperationalError

import manage
from taskplatform import startup
from tests.environment import neutral
from tests.processes import free_port

ROOT = Path(manage.__file__).parent
# They make a platform, serve one, or bring databases of their own.
BEFORE_A_PLATFORM = {"serve", "web", "benchmark", "settings", "datamodel"}


def said(var: Path, database: str = "") -> str:
    """The one line with which a command ends that finds no platform in the folder."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "apiclient", "list"],
        env={**neutral(var), "DATABASE_URL": database},
        cwd=var.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    return line


def test_it_says_where_it_looked_and_leaves_nothing(tmp_path: Path) -> None:
    var = tmp_path / "none"

    line = said(var)

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


def test_database_that_is_no_platform_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "taskplatform.sqlite3").touch()

    assert said(tmp_path).endswith(
        "/taskplatform.sqlite3 has not all tables of this release. Make them with manage.py "
        "migrate, which make run does by itself."
    )
    line = said(tmp_path, f"mysql://u:p@127.0.0.1:{free_port()}/tasks")
    assert re.match(r"The database u@127.0.0.1:\d+/tasks cannot be used: .* Check DATABASE", line)


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (KeyboardInterrupt(), pytest.raises(SystemExit, match=r"^130$")),
        # The database is well, so it is a fault of ours, which needs its traceback.
        (OperationalError("near SELEKT"), pytest.raises(OperationalError, match="SELEKT")),
    ],
)
def test_fault_keeps_its_traceback_and_ctrl_c_needs_none(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, end: AbstractContextManager[Any]
) -> None:
    monkeypatch.setattr(management, "execute_from_command_line", Mock(side_effect=error))
    monkeypatch.setattr(startup, "database_problem", Mock(return_value=""))
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "taskplatform.settings")
    monkeypatch.setattr(sys, "argv", ["manage.py", "benchmark"])

    with end:
        manage.main()


def test_each_own_command_says_whether_it_needs_a_platform() -> None:
    own = {
        path.stem
        for box in ("apps", "taskplatform")
        for path in (ROOT / box).glob("**/management/commands/*.py")
        # Those of the client are for other projects.
        if path.stem != "__init__" and "client" not in path.parts
    }
    assert own - BEFORE_A_PLATFORM == manage.OF_A_PLATFORM & own
