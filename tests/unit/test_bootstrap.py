"""What `make run` and its sisters decide before anything of the platform is installed."""

from __future__ import annotations

import ast
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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
    """A project folder whose virtual environment only notes how it is called."""

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


@pytest.fixture(autouse=True)
def signal_handlers() -> Iterator[None]:
    """`main` takes the signals of its process, which here is that of the tests."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("VAR_DIR", raising=False)
    monkeypatch.setattr(bootstrap, "has_package", lambda package: True)
    return Project(tmp_path, monkeypatch)


def as_user(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)


# --- Python -------------------------------------------------------------------------------------


def test_source_read_by_python_3_6_is_no_syntax_error() -> None:
    """A Python too old must get as far as the line that tells it so."""
    ast.parse(Path(bootstrap.__file__).read_text(), feature_version=(3, 6))


def test_python_older_than_3_11_stops_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))

    code = bootstrap.main(["run"])

    assert code == 1
    assert capsys.readouterr().err.splitlines() == [
        "Python 3.10 is too old: 3.11 or newer is needed. Name one that you have, "
        "for example: make run PYTHON=python3.12"
    ]


@pytest.mark.parametrize("version", [(3, 11), (3, 13), (4, 0)])
def test_python_from_3_11_on_goes_on(version: tuple[int, int]) -> None:
    bootstrap.require_python(*version)


# --- The venv module and Debian packages --------------------------------------------------------


def test_missing_venv_module_without_root_names_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bootstrap, "has_venv_module", lambda: False)
    as_user(monkeypatch, 1000)

    with pytest.raises(CannotGoOn) as stop:
        bootstrap.require_venv_module()

    package = f"python3.{sys.version_info.minor}-venv"
    assert str(stop.value) == (
        f"A virtual environment needs {package}. On Debian or Ubuntu run: "
        f"sudo apt-get install --yes --no-install-recommends {package}"
    )


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Root on a Debian whose apt-get does nothing but note its calls in `commands`."""
    fake = SimpleNamespace(
        commands=[], policies=[], answer=(0, ""), policy=tmp_path / "policy-rc.d"
    )

    def run(
        command: list[str], environment: dict[str, str] | None = None, quiet: bool = False
    ) -> tuple[int, str]:
        assert environment is not None and environment["DEBIAN_FRONTEND"] == "noninteractive"
        fake.commands.append(command)
        fake.policies.append(fake.policy.read_text())
        result: tuple[int, str] = fake.answer if "install" in command else (0, "")
        return result

    as_user(monkeypatch, 0)
    monkeypatch.setattr(bootstrap, "has_program", lambda *names: True)
    monkeypatch.setattr(bootstrap, "SERVICE_POLICY", str(fake.policy))
    monkeypatch.setattr(bootstrap, "run", run)
    return fake


def test_missing_venv_module_as_root_is_installed(
    monkeypatch: pytest.MonkeyPatch, apt: SimpleNamespace
) -> None:
    monkeypatch.setattr(bootstrap, "has_venv_module", lambda: bool(apt.commands))

    bootstrap.require_venv_module()

    assert apt.commands[-1][-1] == f"python3.{sys.version_info.minor}-venv"


def test_venv_module_that_a_package_does_not_bring_names_another_python(
    monkeypatch: pytest.MonkeyPatch, apt: SimpleNamespace
) -> None:
    monkeypatch.setattr(bootstrap, "has_venv_module", lambda: False)

    with pytest.raises(CannotGoOn, match="Name another Python, for example: make run PYTHON="):
        bootstrap.require_venv_module()


def test_installing_packages_starts_no_service_and_leaves_no_policy(apt: SimpleNamespace) -> None:
    bootstrap.apt_install(["redis-server"], "The test suite")

    assert apt.policies == ["#!/bin/sh\nexit 101\n"] * 2
    assert not apt.policy.exists()


def test_installing_packages_leaves_a_policy_of_the_machine_alone(apt: SimpleNamespace) -> None:
    apt.policy.write_text("its own")

    bootstrap.apt_install(["redis-server"], "The test suite")

    assert apt.policy.read_text() == "its own"


def test_failing_apt_get_tells_its_error_and_removes_the_policy(apt: SimpleNamespace) -> None:
    apt.answer = (100, "Reading package lists...\nE: Unable to locate package redis-server\n")

    with pytest.raises(CannotGoOn, match="E: Unable to locate package redis-server"):
        bootstrap.apt_install(["redis-server"], "The test suite")

    assert not apt.policy.exists()


def test_only_missing_packages_are_installed(
    monkeypatch: pytest.MonkeyPatch, apt: SimpleNamespace
) -> None:
    monkeypatch.setattr(bootstrap, "has_package", lambda package: package == "gcc")

    bootstrap.require_packages(["gcc", "pkg-config"], "Building mysqlclient")

    assert apt.commands[-1][-1] == "pkg-config" and "gcc" not in apt.commands[-1]


# --- The disk -----------------------------------------------------------------------------------


def test_space_is_demanded_of_the_nearest_folder_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def disk_usage(folder: str) -> SimpleNamespace:
        asked.append(folder)
        return SimpleNamespace(free=50 * 2**20)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)

    bootstrap.require_space(str(tmp_path / "not" / "yet"), 50)
    with pytest.raises(CannotGoOn, match="50 MB are free and 51 MB are needed"):
        bootstrap.require_space(str(tmp_path), 51)

    assert asked == [str(tmp_path), str(tmp_path)]


def test_disk_that_fills_up_anywhere_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere")

    monkeypatch.setitem(bootstrap.COMMANDS, "run", full)

    assert bootstrap.main(["run"]) == 1
    assert capsys.readouterr().err == (
        "The disk is full: No space left on device. Make room and repeat.\n"
    )


def test_folder_that_cannot_be_written_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused() -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/somewhere")

    monkeypatch.setitem(bootstrap.COMMANDS, "run", refused)

    assert bootstrap.main(["run"]) == 1
    assert capsys.readouterr().err == "/somewhere: Permission denied.\n"


# --- Installing ---------------------------------------------------------------------------------


def test_second_start_does_not_call_pip(project: Project) -> None:
    bootstrap.install([RUN_LOCK])
    bootstrap.install([RUN_LOCK])

    assert project.installations() == 1


def test_start_after_a_developer_installed_everything_does_not_call_pip(project: Project) -> None:
    bootstrap.install(ALL_LOCKS)
    bootstrap.install([RUN_LOCK])

    assert project.installations() == 1


def test_further_lock_is_installed_and_the_first_stays_known(project: Project) -> None:
    bootstrap.install([RUN_LOCK])
    bootstrap.install([MYSQL_LOCK])
    bootstrap.install([RUN_LOCK, MYSQL_LOCK])

    assert project.installations() == 2


def test_changed_lock_is_installed_again(project: Project) -> None:
    bootstrap.install([RUN_LOCK])
    (project.root / RUN_LOCK).write_text("# newer\n")
    bootstrap.install([RUN_LOCK])

    assert project.installations() == 2


def test_other_python_installs_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap.install([RUN_LOCK])
    monkeypatch.setattr(sys, "version", "3.13.0 (another build)")
    bootstrap.install([RUN_LOCK])

    assert project.installations() == 2


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
    made: list[list[str]] = []

    def run(command: list[str], *_: object, **__: object) -> tuple[int, str]:
        made.append(command)
        return 0, ""

    monkeypatch.setattr(bootstrap, "run", run)
    bootstrap.install([RUN_LOCK])

    assert made[0][1:] == ["-m", "venv", "--clear", str(moved / ".venv")]


def test_virtual_environment_without_python_is_made_anew(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade of the system's Python, or a first start that was broken off."""
    bootstrap.install([RUN_LOCK])
    (project.bin / "python").unlink()
    made: list[list[str]] = []

    def run(command: list[str], *_: object, **__: object) -> tuple[int, str]:
        made.append(command)
        return 0, ""

    monkeypatch.setattr(bootstrap, "run", run)
    bootstrap.install([RUN_LOCK])

    assert "venv" in made[0] and "pip" in made[1]


def test_installation_that_broke_off_is_repeated(project: Project) -> None:
    project.pip_fails_with("ERROR: something else\n")
    with pytest.raises(CannotGoOn, match="something else"):
        bootstrap.install([RUN_LOCK])
    project.pip_works()

    bootstrap.install([RUN_LOCK])
    bootstrap.install([RUN_LOCK])

    assert project.installations() == 2


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
    ("output", "told"),
    [
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError(…)'\n"
            "ERROR: Could not find a version that satisfies the requirement amqp==5.4.2\n",
            "the package index does not answer",
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n",
            "its hash differs",
        ),
        ("ERROR: Could not install packages due to an OSError: [Errno 28]\n", "disk is full"),
        ("Collecting x\nERROR: No matching distribution found for x\n", "found for x"),
    ],
)
def test_failing_pip_is_told_in_one_line(project: Project, output: str, told: str) -> None:
    project.pip_fails_with(output)

    with pytest.raises(CannotGoOn, match=told) as stop:
        bootstrap.install([RUN_LOCK])

    assert "\n" not in str(stop.value)


def test_mysqlclient_is_built_only_with_its_packages(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "has_package", lambda package: package != "pkg-config")
    as_user(monkeypatch, 1000)

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
        monkeypatch.setattr(bootstrap, "install", installed.extend)
        monkeypatch.setattr(os, "execv", lambda path, arguments: installed.append(arguments[-1]))
        bootstrap.start()
        return installed

    return started


def test_start_on_sqlite_needs_no_mysqlclient(started: Callable[[], list[str]]) -> None:
    assert started() == [RUN_LOCK, "serve"]


def test_start_on_mariadb_named_by_the_environment_installs_mysqlclient(
    started: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://u:p@127.0.0.1/x")

    assert started() == [RUN_LOCK, MYSQL_LOCK, "serve"]


def test_start_on_mariadb_named_by_the_env_file_installs_mysqlclient(
    started: Callable[[], list[str]], project: Project
) -> None:
    (project.root / ".env").write_text("# DATABASE_URL=sqlite:///x\nDATABASE_URL='mysql://u@h/x'\n")

    assert started() == [RUN_LOCK, MYSQL_LOCK, "serve"]


def test_environment_goes_before_the_env_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / ".env").write_text("export PORT=8001\n")
    assert bootstrap.setting("PORT") == "8001"

    monkeypatch.setenv("PORT", "")

    assert bootstrap.setting("PORT") == ""


def test_start_with_a_full_disk_under_var_stops(
    started: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**20))

    with pytest.raises(CannotGoOn, match="1 MB are free and 50 MB are needed"):
        started()


def test_unknown_command_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert bootstrap.main(["fly"]) == 1
    assert capsys.readouterr().err == (
        "Say what to do, one of: run, check, test, test-fast, test-calendar, locks.\n"
    )


# --- Being stopped ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_lets_the_running_command_tidy_up(tmp_path: Path, number: signal.Signals) -> None:
    """pytest and the private servers of the tests must not be left behind by a stopped make."""
    child = (
        "import sys, time, pathlib\n"
        "print('here', flush=True)\n"
        "try:\n    time.sleep(60)\n"
        f"except KeyboardInterrupt:\n    pathlib.Path({str(tmp_path / 'tidy')!r}).touch()\n"
    )
    program = (
        "import sys\nfrom taskplatform import bootstrap\n"
        f"bootstrap.COMMANDS['run'] = lambda: bootstrap.run([sys.executable, '-c', {child!r}])[0]\n"
        "sys.exit(bootstrap.main(['run']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=bootstrap.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "here\n"
        began = time.monotonic()
        process.send_signal(number)
        told = process.stderr.read()

    assert process.returncode == 130 and told == "Interrupted.\n"
    assert (tmp_path / "tidy").exists()
    assert time.monotonic() - began < bootstrap.STOP_SECONDS
