"""A database of the benchmark's own, and web servers and workers on it.

The operator's data stay untouched.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.management.base import CommandError
from django.db import DatabaseError, connection, connections

from taskplatform import web
from taskplatform.supervisor import end_with_parent
from tests.processes import RunningProcess, free_port

START_SECONDS = 40
STOPS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
PLATFORM, PLAIN_CELERY = "taskplatform", "tests.benchmark.plain_celery"


@contextmanager
def scratch_database(folder: Path) -> Iterator[None]:
    """Let the default connection use an empty, migrated database that is dropped afterwards."""
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
    # As in the settings of the servers, which share the cache of this process.
    settings.CACHES["default"]["KEY_PREFIX"] = f"taskplatform:{name}"
    renew_cache()
    try:
        yield
    finally:
        connections.close_all()
        connection.creation.destroy_test_db(kept, verbosity=0)


def renew_cache() -> None:
    """Connect the cache anew, as the settings are now."""
    caches[DEFAULT_CACHE_ALIAS] = caches.create_connection(DEFAULT_CACHE_ALIAS)


def _environment() -> dict[str, str]:
    """What a child process needs to use the scratch database, too."""
    scheme, host, _, query, _ = urlsplit(os.environ.get("DATABASE_URL") or "sqlite://")
    name = quote(str(connection.settings_dict["NAME"]))
    return {
        **os.environ,
        "DATABASE_URL": f"{scheme}://{host}/{name}" + (f"?{query}" if query else ""),
        "DEBUG": "",
        "ALLOWED_HOSTS": "localhost",
    }


def await_true(condition: Callable[[], bool], seconds: float, name: str) -> None:
    """Return as soon as the condition holds; CommandError when it does not in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise CommandError(f"The benchmark waited {seconds:.0f} s in vain for {name}.")
        time.sleep(0.002)


@contextmanager
def _running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    """The process until the block ends; CommandError shows its log when it ends before."""
    # A stop waits until there is something to end.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        process = RunningProcess(command, environment, log, end_with_parent(os.getpid()))
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            yield
        finally:
            code = process.process.poll()
            process.end()
            if code is not None:
                raise CommandError(f"{' '.join(command[:4])} ended: {process.output[-800:]}")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def server(application: str, folder: Path, **variables: str) -> Iterator[int]:
    """A web server with that application on a free port of loopback; yields the port."""
    port = free_port()
    command = web.command(
        *("--workers", "2"), host="127.0.0.1", port=port, connections=100, application=application
    )
    with _running(command, _environment() | variables, folder / f"server-{port}.log"):
        await_true(lambda: _accepts(port), START_SECONDS, application)
        yield port


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def worker(application: str, folder: Path, *options: str) -> Iterator[None]:
    """A Celery worker of the application; its log is in the folder."""
    name = f"{application.rpartition('.')[2]}-{time.monotonic_ns()}"
    command = [
        *(sys.executable, "-m", "celery", "--quiet", "-A", application, "worker"),
        *("--hostname", f"{name}@%h", "--loglevel", "WARNING"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat", *options),
    ]
    variables = {"EXTRA_APPS": "tests.benchmark", "VAR_DIR": str(folder)}
    with _running(command, _environment() | variables, folder / f"{name}.log"):
        yield


def while_it_works(work: Callable[[], None]) -> Iterator[None]:
    """Yields as long as the work goes on in a process of its own, as in production; CommandError
    when it failed."""
    connections.close_all()
    prepare, child = end_with_parent(os.getpid()), os.fork()
    if child == 0:
        status = 1
        try:
            prepare()
            work()
            status = 0
        finally:
            os._exit(status)
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        yield
    if ended[1]:
        raise CommandError("The work in the background failed; its error stands above.")


def prefork(*queues: str) -> list[str]:
    """The options of a worker with two forked processes."""
    return ["--pool", "prefork", "-c", "2", "--queues", ",".join(queues)]
