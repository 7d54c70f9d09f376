"""Private MariaDB and Redis servers for the tests.

`python -m tests.servers [--durable] -- COMMAND …` starts one of each on free loopback ports with
their data in a temporary folder, runs COMMAND with DATABASE_URL and REDIS_URL set, and leaves
nothing behind. Its exit code is that of COMMAND, 128 + n when COMMAND died of signal n.

Tests that stop, kill or freeze a server start their own with `mariadb_server()` and
`redis_server()`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from taskplatform.bootstrap import SEARCH_PATH, TEST_PACKAGES
from tests.environment import new_folder
from tests.processes import free_port

INSTALL = f"apt-get install --yes {' '.join(TEST_PACKAGES)}"
START_SECONDS = 120.0
STOP_SECONDS = 20.0


class ServerError(Exception):
    """A server could not be started, stopped or found; the message says what to do."""


def binary(name: str) -> str:
    """The path of the program; ServerError with the command that installs it."""
    path = shutil.which(name, path=SEARCH_PATH)
    if path is None:
        raise ServerError(f"{name} is not installed; as root run: {INSTALL}")
    return path


class PrivateServer(ABC):
    """One server process on 127.0.0.1 whose files all lie in `folder`.

    The port stays the same through stop, kill and start, so that clients find it again.
    """

    name: str
    in_memory = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """The address in the form that the settings take it."""

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _answers(self, connection: socket.socket) -> bool:
        """True when the server behind the fresh connection is ready to work."""

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """The process id; ServerError when it does not run."""
        if self._process is None:
            raise ServerError(f"{self.name} does not run; call start() first")
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it answers."""
        if self._process is not None:
            raise ServerError(f"{self.name} runs already as process {self._process.pid}")
        first_start = self.port == 0
        for tries_left in (3, 2, 1, 0):
            if first_start:
                self.port = free_port()
            try:
                self._start_once()
                return
            except ServerError:
                # Between the choice of a free port and its use another process may take it.
                if not (first_start and tries_left):
                    raise

    def _start_once(self) -> None:
        with self.log.open("ab") as log:
            # In a session of its own, so that Ctrl-C reaches the tests first and they can still
            # use the server while they end.
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            code = self._process.poll()
            if code is None and time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            self.kill()
            reason = f"ended with code {code}" if code is not None else "did not answer in time"
            raise ServerError(f"{self.name} {reason}; its log ends:\n{self._log_end()}")

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                return self._answers(connection)
        except OSError:
            return False

    def _log_end(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def stop(self) -> None:
        """Shut it down cleanly. Does nothing when it is down."""
        if self._process is None:
            return
        self.resume()
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError(
                f"{self.name} did not stop within {STOP_SECONDS:.0f} s and was killed; "
                f"its log ends:\n{self._log_end()}"
            ) from None
        self._process = None

    def kill(self) -> None:
        """kill -9, like a crash. Does nothing when it is down."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        os.kill(self.pid, signal.SIGCONT)


def greets(connection: socket.socket) -> bool:
    """Whether a MariaDB answers on the fresh connection."""
    greeting = connection.recv(5)
    return len(greeting) == 5 and greeting[4] == 10


class MariaDBServer(PrivateServer):
    """A MariaDB with the database and user that `url` names; the user may make test databases."""

    name = "mariadb"
    # For tests that root runs.
    run_as = "root"
    user = "taskplatform"
    database = "taskplatform"
    # A commit reaches the kernel but not the disk: a killed server loses nothing, only a power
    # failure would.
    storage = (
        "--innodb-flush-log-at-trx-commit=2",
        "--innodb-flush-method=fsync",
        "--innodb-buffer-pool-size=128M",
        "--innodb-log-file-size=64M",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._password = secrets.token_hex(16)
        self._as_root = [f"--user={self.run_as}"] if os.getuid() == 0 else []
        self._make_data()

    @property
    def url(self) -> str:
        return f"mysql://{self.user}:{self._password}@127.0.0.1:{self.port}/{self.database}"

    def _make_data(self) -> None:
        made = subprocess.run(
            [
                binary("mariadb-install-db"),
                "--no-defaults",
                f"--datadir={self.folder / 'data'}",
                "--skip-test-db",
                "--skip-name-resolve",
                "--auth-root-authentication-method=socket",
                *self._as_root,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise ServerError(
                f"mariadb-install-db ended with code {made.returncode}:\n{made.stdout}{made.stderr}"
            )
        user, admin = (f"'{name}'@'127.0.0.1'" for name in (self.user, "admin"))
        statements = [
            f"CREATE DATABASE IF NOT EXISTS `{self.database}`;",
            f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY '{self._password}';",
            f"GRANT ALL ON `{self.database}`.* TO {user};",
            rf"GRANT ALL ON `test\_{self.database}%`.* TO {user};",
            # Tests of races read which transaction waits for which lock.
            f"GRANT PROCESS ON *.* TO {user};",
            f"CREATE USER IF NOT EXISTS {admin} IDENTIFIED BY '{self._password}';",
            f"GRANT ALL ON *.* TO {admin} WITH GRANT OPTION;",
        ]
        (self.folder / "init.sql").write_text("\n".join(statements) + "\n")

    def _command(self) -> list[str]:
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        return [
            binary("mariadbd"),
            "--no-defaults",
            *self._as_root,
            f"--datadir={self.folder / 'data'}",
            f"--tmpdir={temporary}",
            # Relative to its data: a socket's whole path may have no more than 107 characters.
            "--socket=mariadb.sock",
            f"--pid-file={self.folder / 'mariadb.pid'}",
            f"--init-file={self.folder / 'init.sql'}",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--max-connections=300",
            "--character-set-server=utf8mb4",
            "--collation-server=utf8mb4_general_ci",
            # Far from UTC and without zone tables, so that tests fail if SQL relies on either.
            "--default-time-zone=+08:00",
            *self.storage,
        ]

    def _answers(self, connection: socket.socket) -> bool:
        # The greeting comes only after the init file has run.
        return greets(connection)

    def connect(self) -> Any:
        """A connection of MySQLdb, with every right, that commits each statement."""
        # An extra that a run on SQLite alone does not have.
        import MySQLdb

        return MySQLdb.connect(
            host="127.0.0.1",
            port=self.port,
            user="admin",
            password=self._password,
            database=self.database,
            autocommit=True,
        )

    def execute(self, *statements: str) -> None:
        """Run SQL as a user with every right, for faults such as `SET GLOBAL read_only = 1`."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


class DurableMariaDBServer(MariaDBServer):
    """As in production, for benchmarks: every commit reaches the disk, and millions of rows fit in
    memory, written back at the speed of an SSD."""

    in_memory = False
    storage = (
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-io-capacity=2000",
        "--innodb-buffer-pool-size=4G",
        "--innodb-log-file-size=2G",
    )


class RedisServer(PrivateServer):
    """A Redis without persistence: after a stop or a kill it starts empty."""

    name = "redis"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
        }
        arguments = [part for name, value in settings.items() for part in (f"--{name}", value)]
        return [binary("redis-server"), *arguments]

    def _answers(self, connection: socket.socket) -> bool:
        connection.sendall(b"PING\r\n")
        return connection.recv(7) == b"+PONG\r\n"


S = TypeVar("S", bound=PrivateServer)


@contextlib.contextmanager
def _started(make: type[S]) -> Iterator[S]:
    folder = new_folder(f"taskplatform-{make.name}-", in_memory=make.in_memory)
    try:
        server = make(folder)
        try:
            server.start()
            yield server
        finally:
            # Its data is deleted, so a clean shutdown would only take time.
            server.kill()
    finally:
        shutil.rmtree(folder)


def mariadb_server(*, durable: bool = False) -> AbstractContextManager[MariaDBServer]:
    """A running MariaDB, deleted with its data at the end of the block."""
    return _started(DurableMariaDBServer if durable else MariaDBServer)


def redis_server() -> AbstractContextManager[RedisServer]:
    """A running Redis until the end of the block."""
    return _started(RedisServer)


class _Signals:
    """Records a stop signal instead of interrupting a start or a clean-up."""

    def __init__(self) -> None:
        self.received: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = self.received or number


def _run(command: Sequence[str], environment: Mapping[str, str], signals: _Signals) -> int:
    """Run the command until it ends or a signal stops it; its exit code as Popen gives it."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise ServerError(f"{command[0]} cannot be started: {error.strerror}") from error
    while signals.received is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(0.2)
    if signals.received == signal.SIGINT:
        # The command shares the terminal and has received the Ctrl-C itself.
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(STOP_SECONDS)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(STOP_SECONDS)
    process.kill()
    return process.wait()


def main(arguments: Sequence[str]) -> int:
    """The exit code of the command run beside the two servers."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.servers",
        description="Run COMMAND beside a private MariaDB and Redis, "
        "with DATABASE_URL and REDIS_URL set.",
    )
    parser.add_argument(
        "--durable",
        action="store_true",
        help="MariaDB writes every commit to the disk, as in production (for benchmarks)",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND …")
    options = parser.parse_args(arguments)
    command = options.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        parser.error("which command? For example: python -m tests.servers -- pytest tests")
    signals = _Signals()
    try:
        with mariadb_server(durable=options.durable) as mariadb, redis_server() as redis:
            if signals.received is not None:
                return 128 + signals.received
            environment = {**os.environ, "DATABASE_URL": mariadb.url, "REDIS_URL": redis.url}
            # The Celery application sets it on import, and pytest is to begin from nothing.
            environment.pop("DJANGO_SETTINGS_MODULE", None)
            code = _run(command, environment, signals)
    except ServerError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
