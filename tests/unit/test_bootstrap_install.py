"""What `make run` installs and what it starts, with a Python that only records its calls."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from taskplatform import bootstrap
from taskplatform.bootstrap import ALL_LOCKS, MYSQL_LOCK, RUN_LOCK, CannotGoOn

FAKE_PYTHON = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$*" in *"pip install"*) cat "$(dirname "$0")/pip-says" 2>/dev/null && exit 1;; esac
exit 0
"""


class Project:
    """A project folder whose virtual environment only records its calls."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._monkeypatch = monkeypatch
        self.place_at(root)
        for lock in ALL_LOCKS:
            (root / lock).write_text(f"# {lock}\n")
        self.make_venv()

    def place_at(self, root: Path) -> None:
        venv = root / ".venv"
        places = {
            "ROOT": root,
            "VENV": venv,
            "VENV_PYTHON": venv / "bin" / "python",
            "STAMP": venv / "installed.json",
            "PIP_LOG": venv / "pip.log",
        }
        for name, path in places.items():
            self._monkeypatch.setattr(bootstrap, name, str(path))
        self.bin = venv / "bin"

    def make_venv(self) -> None:
        self.bin.mkdir(parents=True)
        (self.bin / "python").write_text(FAKE_PYTHON)
        (self.bin / "python").chmod(0o755)

    def pip_fails_with(self, output: str) -> None:
        (self.bin / "pip-says").write_text(output)

    def pip_works(self) -> None:
        (self.bin / "pip-says").unlink()

    def installations(self) -> int:
        """How often pip has been called."""
        calls = self.bin / "calls"
        return calls.read_text().count("pip install") if calls.exists() else 0


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("VAR_DIR", raising=False)
    monkeypatch.setattr(bootstrap, "has_package", lambda package: True)
    return Project(tmp_path, monkeypatch)


# --- Installing ---------------------------------------------------------------------------------


def test_pip_is_called_for_what_is_new_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def calls_after(*locks: str) -> int:
        bootstrap.install([*locks])
        return project.installations()

    assert [calls_after(RUN_LOCK), calls_after(RUN_LOCK)] == [1, 1]
    assert [calls_after(MYSQL_LOCK), calls_after(RUN_LOCK, MYSQL_LOCK)] == [2, 2]
    assert [calls_after(*ALL_LOCKS), calls_after(RUN_LOCK)] == [3, 3]
    (project.root / RUN_LOCK).write_text("# newer\n")
    assert [calls_after(RUN_LOCK), calls_after(RUN_LOCK)] == [4, 4]
    monkeypatch.setattr(sys, "version", "3.13.0 (another build)")
    assert calls_after(RUN_LOCK) == 5


def commands_of_an_install(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run, all of it with success."""
    made: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "run", lambda command, *_, **__: made.append(command) or (0, ""))
    bootstrap.install([RUN_LOCK])
    return made


def test_moved_project_makes_its_virtual_environment_anew(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripts in a virtual environment name the folder it was made in."""
    bootstrap.install([RUN_LOCK])
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in [*ALL_LOCKS, ".venv"]:
        shutil.move(project.root / name, moved / name)
    project.place_at(moved)

    made = commands_of_an_install(monkeypatch)

    assert made[0][1:] == ["-m", "venv", "--clear", str(moved / ".venv")]


def test_virtual_environment_without_python_is_made_anew(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade of the system's Python, or a first start that was broken off."""
    bootstrap.install([RUN_LOCK])
    (project.bin / "python").unlink()

    made = commands_of_an_install(monkeypatch)

    assert "venv" in made[0] and "pip" in made[1]


def test_broken_off_upgrade_is_repeated_though_the_old_lock_comes_back(project: Project) -> None:
    bootstrap.install([RUN_LOCK])
    before = (project.root / RUN_LOCK).read_text()
    (project.root / RUN_LOCK).write_text("# newer\n")
    project.pip_fails_with("ERROR: something else\n")
    with pytest.raises(CannotGoOn):
        bootstrap.install([RUN_LOCK])
    project.pip_works()
    (project.root / RUN_LOCK).write_text(before)

    bootstrap.install([RUN_LOCK])

    assert project.installations() == 3


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError(…)'\n"
            "ERROR: Could not find a version that satisfies the requirement amqp==5.4.2\n",
            "the package index does not answer",
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n",
            "its hash does not match",
        ),
        ("ERROR: Could not install packages due to an OSError: [Errno 28]\n", "disk is full"),
        ("Collecting x\nERROR: No matching distribution found for x\n", "found for x"),
    ],
)
def test_failing_pip_is_shown_in_one_line(project: Project, output: str, message: str) -> None:
    project.pip_fails_with(output)

    with pytest.raises(CannotGoOn, match=message) as stop:
        bootstrap.install([RUN_LOCK])

    assert "\n" not in str(stop.value)


def test_mysqlclient_is_built_only_with_its_packages(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "has_package", lambda package: package != "pkg-config")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(CannotGoOn, match="Building mysqlclient needs pkg-config"):
        bootstrap.install([RUN_LOCK, MYSQL_LOCK])
    bootstrap.install([RUN_LOCK])

    assert project.installations() == 1


# --- Starting -----------------------------------------------------------------------------------


@pytest.fixture
def started(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Runs `start` up to the point where it becomes manage.py; the locks it installed."""

    def started() -> list[str]:
        installed: list[str] = []
        monkeypatch.setattr(bootstrap, "VENV_PYTHON", sys.executable)
        monkeypatch.setattr(bootstrap, "install", installed.extend)
        monkeypatch.setattr(os, "execv", lambda path, arguments: installed.append(arguments[-1]))
        bootstrap.start()
        return installed

    return started


def test_start_on_sqlite_needs_no_mysqlclient(started: Callable[[], list[str]]) -> None:
    assert started() == [RUN_LOCK, "serve"]


def test_start_on_mariadb_installs_mysqlclient_wherever_its_address_is(
    started: Callable[[], list[str]], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://u:p@127.0.0.1/x")
    assert started() == [RUN_LOCK, RUN_LOCK, MYSQL_LOCK, "serve"]
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("DATABASE_URL_FILE", "/run/secrets/database_url")
    assert started() == [RUN_LOCK, RUN_LOCK, MYSQL_LOCK, "serve"]
    for name in ("DATABASE_URL", "DATABASE_URL_FILE"):
        monkeypatch.delenv(name)
    (project.root / ".env").write_text("# DATABASE_URL=sqlite:///x\nDATABASE_URL='mysql://u@h/x'\n")
    assert started() == [RUN_LOCK, RUN_LOCK, MYSQL_LOCK, "serve"]


def test_environment_goes_before_the_env_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "VENV_PYTHON", sys.executable)
    (project.root / ".env").write_text("export VAR_DIR=elsewhere\n")
    assert bootstrap.settings("VAR_DIR", "DATABASE_URL") == ["elsewhere", ""]

    monkeypatch.setenv("VAR_DIR", "")

    assert bootstrap.settings("VAR_DIR") == [""]


def test_start_with_a_full_disk_under_var_stops(
    started: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**20))

    with pytest.raises(CannotGoOn, match="1 MB are free and 50 MB are needed"):
        started()


def test_linked_environment_of_another_place_is_left_alone(project: Project) -> None:
    bootstrap.install([RUN_LOCK])
    theirs = project.root / ".venv"
    (project.root / "theirs").mkdir()
    project.place_at(project.root / "theirs")
    (project.root / "theirs" / RUN_LOCK).write_text("")
    (project.root / "theirs" / ".venv").symlink_to(theirs)

    with pytest.raises(CannotGoOn, match="is a link"):
        bootstrap.install([RUN_LOCK])

    assert (theirs / "installed.json").exists()
