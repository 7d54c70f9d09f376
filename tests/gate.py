"""The gate that every change passes: `python -m tests.gate check | test | test-fast | …`.

`make check`, `make test`, `make test-fast`, `make test-calendar` and `make test-cluster` install
what it needs and then start it.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from taskplatform.bootstrap import CannotGoOn, run, say, tool
from tests.environment import neutral

MANAGE = [sys.executable, "manage.py"]
# One worker more than cores, because tests of whole processes often wait; Redis has 16 databases.
WORKERS = min((os.cpu_count() or 1) + 1, 16)
# Some tests take twenty seconds: a worker that has finished takes half of what another has left.
PYTEST = [sys.executable, "-m", "pytest", "-n", str(WORKERS), "--dist", "worksteal"]
# What does not depend on the database runs on SQLite only. Tests in tests/unit use none
# (tests/unit/conftest.py enforces it). The others end before a query, are about texts or the web
# server, or open pages whose queries other tests run on both.
ONCE = [
    "tests/unit",
    "tests/browser",
    "tests/integration/api/test_addresses.py",
    "tests/integration/api/test_bad_bodies.py",
    "tests/integration/api/test_generated.py",
    "tests/integration/api/test_headers.py",
    "tests/integration/api/test_matrix.py",
    "tests/integration/api/test_openapi.py",
    "tests/integration/alerts/test_pages.py",
    "tests/integration/alerts/test_report_pages.py",
    "tests/integration/access/test_abilities.py",
    "tests/integration/access/test_schema.py",
    "tests/integration/bulk/test_offers.py",
    "tests/integration/common/test_admin_columns.py",
    "tests/integration/dispatch/test_admin_explain.py",
    "tests/integration/dispatch/test_admin_in_chinese.py",
    "tests/integration/dispatch/test_admin_preview.py",
    "tests/integration/dispatch/test_admin_what_if.py",
    "tests/integration/jobs/admin/test_asyncflow_page.py",
    "tests/integration/jobs/admin/test_chinese.py",
    "tests/integration/reports/test_governance_page.py",
    "tests/integration/reports/test_page_addresses.py",
    "tests/integration/test_admin_site.py",
    "tests/integration/test_audit_page.py",
    "tests/integration/test_broker.py",
    "tests/integration/test_readme_handler.py",
    "tests/integration/test_rights.py",
    "tests/integration/test_seconds.py",
    "tests/acceptance/test_benchmark.py",
    "tests/acceptance/test_raw_requests.py",
    "tests/acceptance/test_serve_supervisor.py",
    "tests/acceptance/test_slow_clients.py",
]
CHECKS: list[tuple[str, list[str]]] = [
    ("ruff check", [tool("ruff"), "check", "."]),
    ("ruff format", [tool("ruff"), "format", "--check", "."]),
    ("mypy", [tool("mypy")]),
    ("import contracts", [tool("lint-imports")]),
    ("migrations", [*MANAGE, "makemigrations", "--check", "--dry-run"]),
    ("django check", [*MANAGE, "check"]),
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


def suite(title: str, command: Sequence[str]) -> int:
    say(f"The suite on {title}")
    with tempfile.TemporaryDirectory() as folder:
        code, _ = run(list(command), isolated(folder))
    return code


def test() -> int:
    """All checks and tests; on success the last line is that of pytest."""
    left_out = [f"--ignore={path}" for path in ONCE]
    on_servers = [sys.executable, "-m", "tests.servers", "--", *PYTEST, *left_out]
    return (
        check()
        or suite("SQLite", PYTEST)
        or suite("MariaDB and Redis: what depends on the database", on_servers)
    )


def test_fast() -> int:
    """The suite on SQLite without tests of browsers and whole processes."""
    return suite("SQLite", [*PYTEST, "--ignore=tests/browser", "--ignore=tests/acceptance"])


def test_calendar() -> int:
    """Every time zone through all years; takes minutes."""
    return suite("every time zone", [*PYTEST, "-m", "calendar", "tests/unit/dispatch"])


def test_cluster() -> int:
    """The platform on a Galera cluster, test by test: three nodes are load enough."""
    command = [sys.executable, "-m", "pytest", "-m", "cluster", "tests/acceptance/test_cluster.py"]
    return suite("a Galera cluster", command)


COMMANDS = {
    "check": check,
    "test": test,
    "test-fast": test_fast,
    "test-calendar": test_calendar,
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
