"""A database of the benchmark's own, and servers on it; the operator's data stay untouched."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.management.base import CommandError
from django.db import DatabaseError, connection, connections

START_SECONDS = 30
STOP_SECONDS = 10


@contextmanager
def scratch_database(folder: Path) -> Iterator[None]:
    """Let the default connection be an empty, migrated database that is dropped afterwards."""
    kept = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        connection.settings_dict["TEST"]["NAME"] = str(folder / "benchmark.sqlite3")
    else:
        connection.settings_dict["TEST"]["NAME"] = f"test_{kept}_benchmark_{os.getpid()}"
    try:
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    except (DatabaseError, SystemExit) as error:
        raise CommandError(
            f"The benchmark could not make a database of its own ({error}); give its user the "
            "right to create databases named test_…, or run it on SQLite."
        ) from error
    name = connection.settings_dict["NAME"]
    # As in the settings of the servers, so that all share one cache and nobody else does.
    settings.CACHES["default"]["KEY_PREFIX"] = f"taskplatform:{name}"
    renew_cache()
    try:
        yield
    finally:
        connections.close_all()
        connection.creation.destroy_test_db(kept, verbosity=0)


def renew_cache() -> None:
    """Let the cache be as the settings have it now."""
    caches[DEFAULT_CACHE_ALIAS] = caches.create_connection(DEFAULT_CACHE_ALIAS)


def environment() -> dict[str, str]:
    """What a child process needs to be on the scratch database, too."""
    # That of SQLite by default is not set, or empty.
    scheme, host, _, query, _ = urlsplit(os.environ.get("DATABASE_URL") or "sqlite://")
    name = quote(str(connection.settings_dict["NAME"]))
    return {
        **os.environ,
        "DATABASE_URL": f"{scheme}://{host}/{name}" + (f"?{query}" if query else ""),
        "DEBUG": "",
        "ALLOWED_HOSTS": "localhost",
    }


@contextmanager
def server(application: str, folder: Path, **variables: str) -> Iterator[int]:
    """A web server with that WSGI application on a free port of loopback; yields the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    log = folder / f"server-{port}.log"
    command = [
        *(sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1"),
        *("--port", str(port), "--workers", "2", "--blocking-threads", "4", "--no-ws"),
        *("--log-level", "error", "--working-dir", str(settings.BASE_DIR), application),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment() | variables, stdout=output, stderr=output
        )
        try:
            _await(port, process, log)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise CommandError(f"A server of the benchmark did not start: {log.read_text()[-500:]}")
