"""The demo beside a platform that runs as `make run` starts it."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.processes import RunningProcess, eventually, free_port
from tests.serving import server_command

Manage = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., RunningProcess]

PROMISES = (
    "every quota is met exactly",
    "nobody was handed a task again that was over for them",
    "nobody ever had two tasks at once",
    "nothing is left open",
    "of each quota as many are handed out as dispatches count to it (I1)",
    "each person has at most one open dispatch (I5)",
    "every repeated callback gets its first answer",
)
# More than anybody can hand out in a second.
RAISE_QUOTAS = """
from apps.dispatch.models import OnceTask
OnceTask.objects.filter(mode="blocking").update(dispatch_times=100_000)
"""


@pytest.fixture
def port(environment: dict[str, str]) -> str:
    """A free port that every process of the test takes for the platform's."""
    # By itself only a platform on SQLite has demo data.
    environment |= {"PORT": str(free_port()), "DEMO": "1"}
    return environment["PORT"]


@pytest.fixture
def platform(start: Start, port: str, environment: Mapping[str, str]) -> RunningProcess:
    """With its workers, which a start does not wait for."""
    running = start(sys.executable, "manage.py", "serve")
    running.await_output("Ctrl-C stops everything", seconds=180)
    logs = Path(environment["VAR_DIR"]) / "logs"
    for name in ("sweeps", "drains"):
        log = logs / f"{name}.log"
        eventually(lambda log=log: log.exists() and b" ready." in log.read_bytes(), seconds=180)
    return running


@pytest.fixture
def web_alone(start: Start, port: str) -> RunningProcess:
    """The part that the clients need; it may still be starting."""
    return start(*server_command(int(port))[1], WEB_THREADS="8")


def keep_off_the_hour() -> None:
    """Let no occurrence of the demo's rotations come due while the clients play: that of the
    fridges does at each even hour, the others do not soon after they were planned."""
    left = 7200 - time.time() % 7200
    if left < 60:
        time.sleep(left)


def is_healthy(port: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/live") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.usefixtures("web_alone")
def test_twenty_clients_meet_every_quota_exactly(manage: Manage, port: str) -> None:
    """S0.1, S0.4, S0.5, S0.9, S0.11–S0.14, S0.16, S0.22, S0.25, S0.28, S0.29, I1, I4, I5, I13:
    over HTTP, once tasks and rotations, with failures, releases, and callbacks whose first answer
    is lost."""
    key = manage("apiclient", "create", "Demo", "--scope", "pull").stdout.strip()
    eventually(lambda: is_healthy(port), seconds=180)
    keep_off_the_hour()
    played = manage("demo", "--clients", "20", "--seconds", "30", "--key", key)
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stderr == ""
    for promise in PROMISES:
        assert f"✓ {promise}" in played.stdout
    lines = played.stdout.splitlines()
    rows = [line for line in lines if "Nanjing Road  " in line]
    rotating = [line for line in lines if " at " in line and line.endswith(("yes", "NO"))]
    assert (len(rows), len(rotating)) == (10, 6)
    assert all(row.endswith("yes") for row in [*rows, *rotating])
    assert max(map(len, played.stdout.splitlines())) <= 100


@pytest.mark.long
def test_jobs_of_four_types_drain_and_keep_what_is_promised(
    manage: Manage, port: str, environment: Mapping[str, str], request: pytest.FixtureRequest
) -> None:
    """S1.1, S1.9, S4.1, S4.2: calls, failures with retries, slow work and checkpoints."""
    if not environment["DATABASE_URL"].startswith("sqlite"):
        refused = manage("demo", "--jobs", "100")
        assert refused.returncode == 1
        assert f"JOB_HTTP_HOSTS=127.0.0.1:{port}" in refused.stderr
        return
    request.getfixturevalue("platform")
    played = manage("demo", "--jobs", "100", "--seconds", "500")
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stdout.count("✓") == 11
    assert "100 jobs ended in" in played.stdout
    assert max(map(len, played.stdout.splitlines())) <= 100


@pytest.mark.long
@pytest.mark.usefixtures("platform")
def test_price_round_runs_from_its_start_to_its_end(manage: Manage) -> None:
    """Beside one that stands: people, a program on another machine, a photo that is too dark, and
    a job that fails for good and is retried."""
    key = manage("apiclient", "create", "Demo", "--scope", "pull").stdout.strip()
    stands = manage("demo", "--flow")
    assert "12 price-read       9 of 12       1" in stands.stdout, stands.stderr
    played = manage("demo", "--flow", "runs", "--key", key)
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stdout.count("✓") == 9
    assert "12 price-read       12 of 12       0" in played.stdout
    assert "HTTP 503 from prices.example" in played.stderr


@pytest.mark.long
@pytest.mark.usefixtures("web_alone")
def test_run_that_cannot_succeed_exits_1_and_says_why(manage: Manage, port: str) -> None:
    assert manage("demo").returncode == 0
    key = manage("apiclient", "create", "Demo", "--scope", "pull").stdout.strip()
    eventually(lambda: is_healthy(port), seconds=180)
    refused = manage("demo", "--clients", "20", "--key", "nobody.knows-it")
    assert refused.returncode == 1
    assert "not_authenticated" in refused.stderr
    assert "knows-it" not in refused.stderr + refused.stdout
    assert len(refused.stderr.splitlines()) == 1

    asked_too_much = manage("shell", "--verbosity", "0", "--command", RAISE_QUOTAS)
    assert asked_too_much.returncode == 0, asked_too_much.stderr
    short = manage("demo", "--clients", "20", "--seconds", "1", "--key", key)
    assert short.returncode == 1
    assert "✗ every quota is met exactly" in short.stdout
    assert "✓ nothing is left open" in short.stdout
    assert "--seconds" in short.stderr
