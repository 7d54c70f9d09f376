"""`manage.py serve` as an operator meets it: first and second start, faults, and its end."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from apps.jobs.services.submit import submit
from tests.databases import empty_database
from tests.forks import forked
from tests.processes import ROOT, eventually, free_port
from tests.serving import SERVE, WAIT_SECONDS, Platform, signed_in


@pytest.fixture(scope="module")
def database_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with new_database(tmp_path_factory.mktemp("database")) as url:
        yield url


def new_database(folder: Path) -> AbstractContextManager[str]:
    """An empty one; on SQLite the URL is "", which is the file in VAR_DIR."""
    return empty_database(folder) if os.environ["DATABASE_URL"] else nullcontext("")


@pytest.fixture(scope="module")
def new_platform(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Platform:
    platform = Platform(tmp_path_factory.mktemp("serve"), database_url)
    platform.var.chmod(0o755)
    return platform


@pytest.fixture(scope="module")
def stopped_at_once(new_platform: Platform) -> tuple[int, dict[int, str]]:
    """The exit code of a start that was stopped while it made the tables, and what it left
    running. On MariaDB alone, which keeps what half a migration made."""
    if not os.environ["DATABASE_URL"]:
        return 0, {}
    with subprocess.Popen(SERVE, env=new_platform.environment, stdout=subprocess.DEVNULL) as start:
        eventually(new_platform.has_tables, seconds=WAIT_SECONDS)
        start.send_signal(signal.SIGTERM)
        return start.wait(WAIT_SECONDS), new_platform.processes()


@pytest.fixture(scope="module")
def installed(
    new_platform: Platform, stopped_at_once: tuple[int, dict[int, str]]
) -> Iterator[tuple[Platform, list[str]]]:
    """A platform after its first start that came to its end, and what that start has shown."""
    shown = new_platform.start()
    print(f"first start: {new_platform.seconds:.1f} s")  # noqa: T201
    yield new_platform, shown
    new_platform.end(signal.SIGKILL)
    eventually(lambda: new_platform.processes() == {}, seconds=WAIT_SECONDS)


@pytest.fixture
def platform(installed: tuple[Platform, list[str]]) -> Platform:
    """The platform, down."""
    platform = installed[0]
    platform.end()
    return platform


@pytest.fixture
def running(installed: tuple[Platform, list[str]]) -> Platform:
    """The platform after its first start, or a later one when the test before has stopped it."""
    platform = installed[0]
    if not platform.is_up:
        platform.start()
    return platform


@pytest.fixture
def refused(installed: tuple[Platform, list[str]], tmp_path: Path) -> dict[str, str]:
    """The environment of a start that comes no further than its checks, with files of its own: the
    platform may run or not."""
    return {**installed[0].environment, "VAR_DIR": str(tmp_path), "PORT": str(free_port())}


def refusal(environment: dict[str, str]) -> str:
    """The one line with which a start refuses."""
    done = subprocess.run(
        SERVE, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 1 and done.stdout == "", done
    (line,) = done.stderr.splitlines()
    return line


# --- What a newcomer sees -------------------------------------------------------------------------


@pytest.mark.both
def test_first_start_shows_a_password_that_opens_the_admin(
    installed: tuple[Platform, list[str]], running: Platform
) -> None:
    (password,) = re.findall(r"login admin, password (\S+)", "\n".join(installed[1]))
    signed_in(running.url, "admin", password)


def test_files_are_their_owners_alone_in_a_folder_that_was_open(
    installed: tuple[Platform, list[str]], running: Platform
) -> None:
    """The database, the password and the key that were shown, and logs, also those that the parts
    have made since."""
    for name in ("admin_password", "demo_key"):
        kept = (running.var / name).read_text()
        assert any(kept in line for line in installed[1])
    logs = running.var / "logs"
    found = [running.var, *running.var.iterdir(), *logs.iterdir()]

    assert [path for path in found if path.stat().st_mode & 0o077] == []


def test_pages_and_health_answer(running: Platform) -> None:
    paths = ("/api/docs/", "/api/schema/", "/health/ready", "/no/such")
    assert [running.status(path) for path in paths] == [200, 200, 200, 404]


def test_shown_commands_pull_a_task_and_call_back(running: Platform) -> None:
    """S0.1: pasted into a shell as they stand, they hand out a task and end it."""
    pull, call_back = (line for line in running.shown if "curl" in line)
    (plan_a_round,) = (line for line in running.shown if line.endswith("demo --fresh"))
    subprocess.run(
        shlex.split(plan_a_round), env=running.environment, check=True, capture_output=True
    )

    done = subprocess.run(
        ["sh", "-c", f"{pull}\n{call_back}"], capture_output=True, text=True, check=True
    )

    task, ending = map(json.loads, done.stdout.splitlines())
    assert task["title"] and task["number"] == ending["number"]
    assert ending["state"] == "succeeded"


@pytest.mark.both
def test_sweeps_run_by_themselves(running: Platform) -> None:
    """Beat, broker and worker work together: sweeps come to their end, again and again."""
    ended = "SELECT name, finished_at FROM common_sweeplease WHERE finished_at IS NOT NULL"
    before = dict(running.rows(ended))

    def go_on() -> bool:
        after = dict(running.rows(ended))
        names = ("dispatch.expire", "jobs.scan", "jobs.rescue")
        return all(name in after and after[name] != before.get(name) for name in names)

    eventually(go_on, seconds=WAIT_SECONDS)


@pytest.mark.both
def test_submitted_job_is_done_by_itself(running: Platform) -> None:
    """S1.5: from submit to done, on what a start sets up."""

    def submitted() -> None:
        print(submit("echo", {"shop": 7}).id)  # noqa: T201

    done = forked(running.environment, submitted)
    assert done.returncode == 0, done.stderr
    job = f"SELECT status, result FROM jobs_job WHERE id = {int(done.stdout)}"
    eventually(lambda: running.rows(job)[0][0] == "succeeded", seconds=WAIT_SECONDS)
    assert json.loads(running.rows(job)[0][1]) == {"shop": 7}


# --- The end --------------------------------------------------------------------------------------


def test_end_leaves_nothing_running_and_the_next_start_shows_no_password(
    running: Platform,
) -> None:
    """SIGKILL does so at the end of these tests; for other signals than these see
    tests/acceptance/test_serve_supervisor.py."""
    # A worker that is still starting hears of the stop only when it has started.
    eventually(running.works, seconds=WAIT_SECONDS)
    assert len(running.processes()) >= 4
    shown = list(running.shown)

    code = running.end(signal.SIGTERM)

    assert code == 0
    assert running.processes() == {}
    assert running.shown == shown

    running.start()
    print(f"second start: {running.seconds:.1f} s")  # noqa: T201
    kept = running.var / "admin_password"
    assert f"            login admin, password in {kept}" in running.shown
    assert not any(kept.read_text() in line for line in running.shown)


@pytest.mark.mariadb
def test_stop_while_the_tables_are_made_lets_the_next_start_go_on(
    stopped_at_once: tuple[int, dict[int, str]], running: Platform
) -> None:
    """MariaDB keeps what half a migration made, which nobody could then make."""
    assert stopped_at_once == (0, {})
    assert running.status("/health/ready") == 200


# --- Faults ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_frozen_web_process_is_replaced(platform: Platform) -> None:
    """It lives and holds its port, and answers no health check."""
    patient = "supervisor.FROZEN_SECONDS, supervisor.CHECK_SECONDS = 10.0, 0.5"
    code = f"import manage; from taskplatform import supervisor; {patient}; manage.main()"
    replacement = [sys.executable, "-c", code, "serve", "--plan"]
    code = f"import manage; from taskplatform import supervise; supervise.COMMAND = {replacement}"
    code += "; manage.main()"
    platform.command = [sys.executable, "-c", code, "serve"]
    platform.environment["PYTHONPATH"] = str(ROOT)
    try:
        platform.start()
        frozen = platform.part("granian")
        below = Path(f"/proc/{frozen}/task/{frozen}/children").read_text().split()

        for pid in below:
            os.kill(int(pid), signal.SIGSTOP)

        eventually(lambda: platform.part("granian") not in {0, frozen}, seconds=WAIT_SECONDS)
        eventually(lambda: platform.status("/health/live") == 200, seconds=WAIT_SECONDS)
        assert any("web has not answered for 10 s." in line for line in platform.shown)
        assert platform.end() == 0
        assert platform.processes() == {}
    finally:
        platform.command = SERVE


def test_beat_that_dies_starts_again(running: Platform) -> None:
    """It is a process below that of the sweeps, which alone the supervisor knows."""
    sweeps = eventually(lambda: running.part("sweeps-"))
    below = Path(f"/proc/{sweeps}/task/{sweeps}/children")
    beat = int(eventually(lambda: below.read_text().split())[0])
    began = "SELECT MAX(started_at) FROM common_sweeplease"

    os.kill(beat, signal.SIGKILL)

    eventually(lambda: running.part("sweeps-") not in {0, sweeps}, seconds=WAIT_SECONDS)
    before = running.rows(began)
    eventually(lambda: running.rows(began) != before, seconds=WAIT_SECONDS)
    assert any("sweeps ended with code 1 and starts again in" in line for line in running.shown)


def test_port_in_use_is_shown_with_a_free_one(refused: dict[str, str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        line = refusal({**refused, "PORT": str(port)})

    assert line.startswith(f"Port {port} on 127.0.0.1 is taken by another program.")
    (offered,) = re.findall(r"Use another one: PORT=(\d+) make run$", line)
    assert int(offered) != port


def test_second_start_with_the_same_files_is_refused(running: Platform) -> None:
    line = refusal({**running.environment, "PORT": str(free_port())})

    assert line.startswith(f"The platform runs already with the files of {running.var}: ")
    assert f"process {running.pid} on port {running.port}" in line
    assert running.status("/health/live") == 200


def test_wrong_setting_is_shown_in_one_line(refused: dict[str, str]) -> None:
    """What the settings make of a value is in tests/unit/test_settings.py."""
    line = refusal({**refused, "ALLOWED_HOSTS": "localhost:8000"})

    assert "ALLOWED_HOSTS: localhost:8000 is not a host name" in line


@pytest.mark.mariadb
@pytest.mark.parametrize(
    ("change", "message"),
    [
        # Not more than the name of what is said differs.
        pytest.param(
            {"path": "/no_such_database"},
            "Unknown database|Access denied",
            marks=pytest.mark.long,
        ),
        ({"netloc": "nobody:wrong@{host}"}, "Access denied"),
    ],
)
def test_database_that_refuses_is_shown_without_the_password(
    refused: dict[str, str], change: dict[str, str], message: str
) -> None:
    url = urllib.parse.urlsplit(refused["DATABASE_URL"])
    host = f"{url.hostname}:{url.port}"
    changed = url._replace(**{key: text.format(host=host) for key, text in change.items()})

    line = refusal({**refused, "DATABASE_URL": changed.geturl()})

    assert re.search(f"The database .* cannot be used: .*({message})", line)
    assert "Check DATABASE_URL" in line
    assert "wrong" not in line and str(url.password) not in line
