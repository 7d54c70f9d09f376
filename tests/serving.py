"""The whole platform as `manage.py serve` runs it, for tests to start, look at and stop."""

from __future__ import annotations

import http.client
import http.cookiejar
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.environment import neutral
from tests.processes import ROOT, RunningProcess, eventually, free_port, usual_signals
from tests.workers import rows

SERVE = [sys.executable, str(ROOT / "manage.py"), "serve"]
WORKERS = ("sweeps", "drains")
LAST_LINE = "Ctrl-C stops everything."
WAIT_SECONDS = 180.0


def web_command(port: int = 0) -> tuple[int, list[str]]:
    """The port and the command of a web server as production runs it."""
    port = port or free_port()
    command = [sys.executable, "manage.py", "web", "--host", "127.0.0.1"]
    return port, [*command, "--port", str(port)]


def server_command(port: int = 0) -> tuple[int, list[str]]:
    """The port, and the command that `manage.py web` becomes: without its start, which takes as
    long as that of the server."""
    from taskplatform import web

    port = port or free_port()
    options = ("--workers", "1", "--respawn-failed-workers")
    return port, web.command(
        *options, host="127.0.0.1", port=port, connections=web.MOST_CONNECTIONS
    )


def await_answer(web: RunningProcess, port: int) -> None:
    """Wait until the web server works."""

    def answers() -> bool:
        assert web.process.poll() is None, web.output
        return status_of(port, "/health/live") == 200

    eventually(answers)


def status_of(port: int, path: str) -> int:
    """The status that a GET is answered with, 0 when nobody answers."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        client.request("GET", path)
        return client.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        client.close()


def signed_in(url: str, name: str, password: str) -> urllib.request.OpenerDirector:
    """A browser's cookies after its sign-in; AssertionError when that is refused."""
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    opener = urllib.request.build_opener(cookies)
    with opener.open(f"{url}/admin/login/") as page:
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.read().decode())[0]
    form = {"csrfmiddlewaretoken": token, "username": name, "password": password}
    sent = urllib.parse.urlencode(form).encode()
    with opener.open(f"{url}/admin/login/?next=/admin/", sent) as page:
        assert page.url == f"{url}/admin/"
    return opener


class Web:
    """A web process that can be killed and started again at the same address."""

    def __init__(self, start: Callable[..., RunningProcess], port: int) -> None:
        self._start = start
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.begin()

    def begin(self) -> None:
        self.process = self._start(*server_command(self.port)[1], WEB_THREADS="8")

    def kill(self) -> None:
        self.process.signal_all(signal.SIGKILL)
        eventually(lambda: not self.process.lives())


class Platform:
    """One machine's platform: a folder, a port, a database, and what the terminal shows."""

    def __init__(self, var: Path, database_url: str) -> None:
        self.var = var
        self.port = free_port()
        self.environment = {
            **os.environ,
            **neutral(var),
            "PORT": str(self.port),
            # By itself on SQLite alone.
            "DEMO": "1",
            "DATABASE_URL": database_url,
        }
        self.command = SERVE
        self.shown: list[str] = []
        self.seconds = 0.0
        self._earlier = dict.fromkeys(WORKERS, 0)
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_up(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> list[str]:
        """Start it and wait until it says that it runs; the lines it has shown."""
        began = time.monotonic()
        self.shown = []
        self._earlier = {name: len(self.log(name)) for name in WORKERS}
        self._process = subprocess.Popen(
            self.command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=usual_signals(),
        )
        self._reader = threading.Thread(target=self._read, args=[self._process])
        self._reader.start()
        eventually(
            lambda: LAST_LINE in self.shown or not self._reader.is_alive(), seconds=WAIT_SECONDS
        )
        self.seconds = time.monotonic() - began
        assert LAST_LINE in self.shown, self.shown
        return list(self.shown)

    def works(self) -> bool:
        """Whether sweeps and drains, which a start does not wait for, have been up since."""
        return all(" ready." in self.log(name)[self._earlier[name] :] for name in WORKERS)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.shown.append(line.rstrip("\n"))

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal and wait for its end; its exit code. Nothing when it is down."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        with process:
            process.send_signal(number)
            try:
                process.wait(WAIT_SECONDS)
            finally:
                # Otherwise the end of the block would wait for ever.
                process.kill()
            self._reader.join(WAIT_SECONDS)
        return process.returncode

    def processes(self) -> dict[int, str]:
        """Command lines of all live processes that carry this platform's folder in their
        environment, by process id: also of those whose parent is gone."""
        mark = f"VAR_DIR={self.var}".encode()
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                try:
                    environment = (folder / "environ").read_bytes().split(b"\0")
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except (FileNotFoundError, PermissionError, ProcessLookupError):
                    continue
                if mark in environment:
                    found[int(folder.name)] = command
        return found

    def part(self, mark: str) -> int:
        """The process id of the supervisor's child whose command line has `mark`, 0 if none."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        commands = self.processes()
        return next((int(pid) for pid in children if mark in commands.get(int(pid), "")), 0)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The answer of its database."""
        url = self.environment["DATABASE_URL"]
        return rows(url or f"sqlite:///{self.var / 'taskplatform.sqlite3'}", sql)

    def has_tables(self) -> bool:
        """Whether its first start has begun to make them."""
        if self.environment["DATABASE_URL"]:
            return bool(self.rows("SHOW TABLES"))
        kept = (self.var / "taskplatform.sqlite3").exists()
        return kept and bool(self.rows("SELECT name FROM sqlite_master"))

    def log(self, name: str) -> str:
        path = self.var / "logs" / f"{name}.log"
        # Its end may be half a character.
        return path.read_text(errors="replace") if path.exists() else ""

    def status(self, path: str) -> int:
        return status_of(self.port, path)
