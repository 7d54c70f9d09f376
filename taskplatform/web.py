"""How the web server is started: `manage.py web` and `make run` do it in the same way."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from apps.common.api.http_metrics import SHARED_FOLDER
from taskplatform.startup import CannotStart

APPLICATION = "taskplatform.rsgi:application"
# Where a dialect of asyncflow is served at a port of its own: on this machine alone.
LOCAL = "127.0.0.1"
# Seconds in which the headers of a request must arrive, and the next request of a connection.
HEADER_SECONDS = 10
# How long a process may go on with its requests after it was asked to stop.
STOP_SECONDS = 30
# Connections of one process: far more than requests at a time, so that silent ones keep nobody out.
MOST_CONNECTIONS = 10_000
# Files that a process opens for other things than connections.
_OTHER_FILES = 256
_FEWEST_CONNECTIONS = 128


def raise_file_limit() -> int:
    """Let this process and those that it starts open as many files as the system allows; returns
    the number of connections for which that is enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _OTHER_FILES
    limit = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return max(limit - _OTHER_FILES, _FEWEST_CONNECTIONS)


def problems(connections: int, processes: int) -> Iterator[str]:
    """The problems of a server with so few connections or so many processes, with advice."""
    if connections < MOST_CONNECTIONS // 5:
        yield (
            f"Only {connections} connections at a time: the system allows this process few open "
            "files. Raise the limit (ulimit -Hn, LimitNOFILE=)."
        )
    if processes > 1 and not settings.REDIS_URL:
        yield (
            f"Each of the {processes} web processes counts wrong keys, passwords and calls by "
            f"itself, so limits let through up to {processes} times as much: REDIS_URL or "
            "WEB_WORKERS=1 keeps them."
        )


def require_port(host: str, port: int, *, again: str) -> None:
    """Raise CannotStart when another program has the port: the server would share it, and get a
    part of the requests of both. `again` is the command that takes another `{port}`."""
    try:
        _bind(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise CannotStart(
                f"The web cannot listen on {host} port {port}: {error.strerror}. Choose others "
                "with HOST and PORT."
            ) from error
        raise CannotStart(
            f"Port {port} on {host} is taken by another program. Use another one: "
            + again.format(port=free_port(host, port))
        ) from error


def require_local_port(dialect: str, port: int) -> None:
    """The same for the port of a dialect of asyncflow."""
    try:
        _bind(LOCAL, port)
    except OSError as error:
        raise CannotStart(
            f"Port {port} on {LOCAL}, of the dialect {dialect} in ASYNCFLOW_PORTS: "
            f"{error.strerror}. Stop what has it, such as asyncflow's own server."
        ) from error


def free_port(host: str, port: int) -> int:
    """The next port that nobody has."""
    for other in range(port + 1, port + 100):
        with suppress(OSError):
            _bind(host, other)
            return other
    return port + 1


def _bind(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def several(processes: int, port: int) -> tuple[list[str], dict[str, str]]:
    """Options and variables of a server of several processes, each of which is started again when
    it dies. They count their answers together, in a folder that is emptied here."""
    options = ["--workers", str(processes), "--respawn-failed-workers"]
    if processes == 1 or SHARED_FOLDER in os.environ:
        return options, {}
    folder = Path(settings.VAR_DIR, "answers", str(port))
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return options, {SHARED_FOLDER: str(folder)}


def local_command(dialect: str, port: int, *options: str, connections: int) -> list[str]:
    """The command line of the server of a dialect of asyncflow at a port of its own."""
    application = f"taskplatform.ports:{dialect}"
    return command(
        *options, host=LOCAL, port=port, connections=connections, application=application
    )


def command(
    *options: str, host: str, port: int, connections: int, application: str = APPLICATION
) -> list[str]:
    """The command line of the server; `options` are more of granian's."""
    return [
        *(sys.executable, "-m", "granian", "--interface", "rsgi", "--http", "1", "--no-ws"),
        *("--host", host, "--port", str(port), "--backpressure", str(connections)),
        *("--http1-header-read-timeout", str(HEADER_SECONDS * 1000)),
        # The memory for the headers of a request and a part of its body.
        *("--http1-buffer-size", "65536"),
        # One that is just starting may not hear that it is to stop, and would be left for good.
        *("--workers-kill-timeout", str(STOP_SECONDS)),
        *("--log-level", "error", "--working-dir", str(settings.BASE_DIR)),
        *(*options, application),
    ]
