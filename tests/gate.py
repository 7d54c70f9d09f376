"""The gate that every change passes: `python -m tests.gate check | test | test-fast | …`.

`make check`, `make test`, `make test-fast`, `make test-next`, `make test-long` and
`make test-cluster` install what it needs and then start it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from taskplatform.bootstrap import ROOT, CannotGoOn, end, run, say, tool
from tests import newest
from tests.environment import ALL_EXAMPLES, neutral

MANAGE = [sys.executable, "manage.py"]
# One worker more than cores, because tests of whole processes often wait; Redis has 16 databases.
WORKERS = min((os.cpu_count() or 1) + 1, 16)
# The tests of a file stay together, so that what a file starts once is started once.
PYTEST = [sys.executable, "-m", "pytest", "-n", str(WORKERS), "--dist", "loadfile"]
PYTEST += ["--no-loadscope-reorder"]
ON_SERVERS = [sys.executable, "-m", "tests.servers", "--", *PYTEST]
SHORT = "not long and not cluster"
MARKED = "(both or mariadb)"
DRAWN = {ALL_EXAMPLES: "1"}
WALK = "tests/browser/appearance/test_pages.py"
CHECKS: list[tuple[str, list[str]]] = [
    ("ruff check", [tool("ruff"), "check", "."]),
    ("ruff format", [tool("ruff"), "format", "--check", "."]),
    ("mypy", [tool("mypy")]),
    ("import contracts", [tool("lint-imports")]),
    # It begins with the checks of Django.
    ("migrations", [*MANAGE, "makemigrations", "--check", "--dry-run"]),
    ("deployment check", [*MANAGE, "check", "--deploy", "--fail-level", "WARNING"]),
]


def isolated(folder: str) -> dict[str, str]:
    """An environment without anything of the shell or of a running platform."""
    environment = {**os.environ, **neutral(Path(folder)), "DATABASE_URL": "", "REDIS_URL": ""}
    # The Celery application sets it on import, and pytest is to begin from nothing.
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    # Hundreds of processes import the same modules; compiling them takes longer than the import.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def check() -> int:
    """Lint, format, types, contracts, migrations and deployment settings.

    CannotGoOn names the first that fails, after its output.
    """
    production = {
        "HTTPS": "1",
        "DEBUG": "0",
        "SECRET_KEY": secrets.token_urlsafe(64),
        "ALLOWED_HOSTS": "example.org",
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, command in CHECKS:
            extra = production if "--deploy" in command else {}
            began = time.monotonic()
            code, output = run(command, {**isolated(folder), **extra}, quiet=True)
            seconds = time.monotonic() - began
            say(f"{name:<18}{'failed' if code else 'ok':<8}{seconds:5.1f} s")
            if code:
                say(output.rstrip())
                raise CannotGoOn(f"The check failed at: {name}. Its output is above.")
    return 0


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Let pytest compile the tests on a core that has nothing else to do: each of its processes
    would compile all of them at the same time."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=isolated(folder),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
        try:
            yield
        finally:
            end(process)


def suite(title: str, command: Sequence[str], **variables: str) -> int:
    say(f"The suite on {title}")
    with tempfile.TemporaryDirectory() as folder:
        code, _ = run(list(command), {**isolated(folder), **variables})
    return code


def marked_files() -> list[str]:
    """The files with a test that is marked for MariaDB: collecting all takes twice as long."""
    marks = ("mark.both", "mark.mariadb")
    files = sorted(Path(ROOT, "tests").rglob("test_*.py"))
    return [str(file) for file in files if any(mark in file.read_text() for mark in marks)]


def test() -> int:
    """All checks, all short tests on SQLite, and what is marked on MariaDB and Redis; on success
    the last line is that of pytest."""
    with tempfile.TemporaryDirectory() as places:
        # With the equals sign: pytest would take a folder by itself for the root of the tests.
        noted = ["-p", "tests.places", f"--places={places}"]
        with compiling():
            check()
        return suite("SQLite", [*PYTEST, *noted]) or suite(
            "MariaDB and Redis: what is marked for them",
            [*ON_SERVERS, *noted, "-m", f"{MARKED} and {SHORT}", *marked_files()],
        )


def test_fast() -> int:
    """The suite on SQLite without tests of browsers and whole processes."""
    return suite("SQLite", [*PYTEST, "--ignore=tests/browser", "--ignore=tests/acceptance"])


def test_next() -> int:
    """On the newest Python, Django and theme: all short tests without a browser on SQLite, with all
    drawn examples, and one walk over all pages."""
    pytest = [newest.python(), *PYTEST[1:]]
    return suite(
        "SQLite and the newest packages", [*pytest, "--ignore=tests/browser"], **DRAWN
    ) or suite("the newest packages in the browser", [*pytest, WALK])


def test_long() -> int:
    """What `make test` leaves out: what is long, all else once on MariaDB and Redis, the newest
    packages, a cluster."""
    # A machine without a Python for them is told so now, and not an hour later.
    newest.newest()
    left_out = f"not cluster and (long or not {MARKED})"
    return (
        suite("SQLite: what is long", [*PYTEST, "-m", "long and not cluster"], **DRAWN)
        or suite(
            "MariaDB and Redis: what is long or has run on SQLite alone",
            [*ON_SERVERS, "--ignore=tests/unit", "-m", left_out],
        )
        or test_next()
        or test_cluster()
    )


def test_cluster() -> int:
    """The platform on a Galera cluster, test by test: three nodes are load enough."""
    command = [sys.executable, "-m", "pytest", "-m", "cluster", "tests/acceptance/test_cluster.py"]
    return suite("a Galera cluster", command)


COMMANDS = {
    "check": check,
    "test": test,
    "test-fast": test_fast,
    "test-next": test_next,
    "test-long": test_long,
    "test-cluster": test_cluster,
}


def main(name: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        return COMMANDS[name]()
    except CannotGoOn as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
