"""What `make run` and its sisters decide before anything of the platform is installed."""

from __future__ import annotations

import ast
import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from taskplatform import bootstrap
from taskplatform.bootstrap import CannotGoOn

pytestmark = pytest.mark.usefixtures("signal_handlers")


def as_user(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)


# --- Python -------------------------------------------------------------------------------------


def test_source_read_by_python_3_6_is_no_syntax_error() -> None:
    """A Python too old must reach the line that says so."""
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
        return fake.answer if "install" in command else (0, "")

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

    assert apt.policies == [bootstrap.NO_STARTS] * 2
    assert not apt.policy.exists()


def test_policy_of_a_killed_command_holds_no_service_back(apt: SimpleNamespace) -> None:
    """It removes itself when the next service is to start; the next installation uses it."""
    program = (
        "import time\nfrom taskplatform import bootstrap\n"
        f"bootstrap.SERVICE_POLICY = {str(apt.policy)!r}\n"
        "with bootstrap.no_service_starts():\n    print('here', flush=True)\n    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=bootstrap.ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"here\n"
        during = subprocess.run([apt.policy], check=False).returncode
        process.kill()
    with bootstrap.no_service_starts():
        next_time = subprocess.run([apt.policy], check=False).returncode
    assert (during, next_time, apt.policy.exists()) == (101, 101, False)

    bootstrap.write(str(apt.policy), bootstrap.NO_STARTS)
    apt.policy.chmod(0o755)
    assert subprocess.run([apt.policy], check=False).returncode == 0
    assert not apt.policy.exists()


def test_installing_packages_leaves_a_policy_of_the_machine_alone(apt: SimpleNamespace) -> None:
    apt.policy.write_text("its own")

    bootstrap.apt_install(["redis-server"], "The test suite")

    assert apt.policy.read_text() == "its own"


def test_failing_apt_get_shows_its_error_and_removes_the_policy(apt: SimpleNamespace) -> None:
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


def test_space_is_required_of_the_nearest_folder_that_exists(
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


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (
            errno.ENOSPC,
            "The disk is full: No space left on device. Free some space and try again.\n",
        ),
        (errno.EACCES, "/somewhere: Permission denied.\n"),
    ],
)
def test_trouble_with_the_disk_anywhere_is_shown_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, shown: str
) -> None:
    def fail() -> int:
        raise OSError(number, os.strerror(number), "/somewhere")

    monkeypatch.setitem(bootstrap.COMMANDS, "run", fail)

    assert bootstrap.main(["run"]) == 1
    assert capsys.readouterr().err == shown


# --- Being stopped ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "seconds"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGTERM, 1)]
)
def test_stop_lets_the_running_command_tidy_up(
    tmp_path: Path, number: signal.Signals, seconds: int
) -> None:
    """pytest and the private servers of the tests must not be left behind by a stopped make, which
    may take seconds to know that the command has started, nor by a second Ctrl-C."""
    child = (
        "import sys, time, pathlib\n"
        "try:\n    print('here', flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('tidying', flush=True)\n"
        f"    while not pathlib.Path({str(tmp_path / 'again')!r}).exists():\n"
        "        time.sleep(0.01)\n"
        f"    pathlib.Path({str(tmp_path / 'tidy')!r}).touch()\n"
    )
    program = (
        "import sys, time\nfrom taskplatform import bootstrap\n"
        "class Popen(bootstrap.subprocess.Popen):\n"
        "    def __init__(self, *args, **options):\n"
        f"        super().__init__(*args, **options)\n        time.sleep({seconds})\n"
        "bootstrap.subprocess.Popen = Popen\n"
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
        process.send_signal(number)
        assert process.stdout.readline() == "tidying\n"
        process.send_signal(number)
        (tmp_path / "again").touch()
        shown = process.stderr.read()

    assert process.returncode == 130 and shown == "Interrupted.\n"
    assert (tmp_path / "tidy").exists()
