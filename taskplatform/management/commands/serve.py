"""Start everything this machine needs and keep it running: `make run` ends up here."""

from __future__ import annotations

import fcntl
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connections

from apps.asyncflow.conf import conf as asyncflow
from apps.jobs.conf import conf as jobs
from taskplatform import startup, web
from taskplatform.demo.company import ANN
from taskplatform.startup import CannotStart
from taskplatform.supervise import Plan, become_supervisor, show
from taskplatform.supervisor import Part, on_stop

SWEEP_THREADS = 3
# Threads of one process share a core, and a slot of each is for fast jobs, one for the platform.
SLOTS_OF_A_PROCESS = 4


class Command(BaseCommand):
    """Sets the machine up, then runs web, sweeps with beat, and drains until it is stopped.

    Exit code 0 after Ctrl-C, SIGTERM or the end of the terminal; 1 with one line on standard error
    when it cannot start.
    """

    help = "Set this machine up, then run web, sweeps with beat, and drains."

    _stop_requested = False
    _is_migrating = False

    def handle(self, *args: Any, **options: Any) -> None:
        on_stop(self._stop_setup)
        # The terminal is for what somebody has to read.
        logging.disable(logging.INFO)
        self.var = Path(settings.VAR_DIR)
        self.host: str = settings.HOST
        self.port: int = settings.PORT
        try:
            self._serve()
        except CannotStart as reason:
            self._refuse(str(reason))
        except DatabaseError as error:
            self._refuse(f"The database {startup.database_address()} refused: {error}")
        except OSError as error:
            self._refuse(f"{error.filename or self.var}: {error.strerror or error}")

    def _refuse(self, reason: str) -> NoReturn:
        show(" ".join(reason.split()))
        # While the interpreter ends, one more would be the exit code.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(1)

    def _serve(self) -> NoReturn:
        with self._only_one() as lock:
            self._require_ports()
            if problem := startup.protect(self.var):
                show(f"{problem}. The platform runs all the same.")
            password, key = self._set_up()
            logs = self.var / "logs"
            logs.mkdir(exist_ok=True)
            plan = Plan(
                self._parts(),
                logs=str(logs),
                host=startup.reachable_host(),
                port=self.port,
                headers=self._headers,
                greeting=self._greeting(password, key),
                handler_seconds=jobs.JOB_STOP_SECONDS,
            )
            become_supervisor(plan, lock=lock)

    def _set_up(self) -> tuple[str, str]:
        """The password of a login just made or "", and the demo key or ""."""
        startup.await_database(show)
        with startup.setup_lock():
            self._migrate()
            for gap in startup.ensure_handlers():
                show(gap)
            password = startup.ensure_admin(self.var)
            key = startup.ensure_demo(self.var)
        startup.collect_static(self.var)
        if problem := startup.redis_problem():
            show(f"{problem}. The platform works without it, but slower.")
        for problem in web.problems(web.raise_file_limit(), settings.WEB_WORKERS):
            show(problem)
        # The parts have connections of their own.
        connections.close_all()
        return password, key

    # --- A stop during the set-up -------------------------------------------------------------

    def _migrate(self) -> None:
        """Migrate to the end even when a stop is requested: MariaDB keeps the tables of half a
        migration, and the next start could not make them again."""
        self._is_migrating = True
        call_command("migrate", interactive=False, verbosity=0)
        self._is_migrating = False
        if self._stop_requested:
            _exit_now()

    def _stop_setup(self) -> None:
        if self._stop_requested or not self._is_migrating:
            _exit_now()
        self._stop_requested = True
        show(
            "Stopping after the migrations. A second Ctrl-C stops now; you may then have to repair "
            "the tables by hand."
        )

    # --- One at a time ------------------------------------------------------------------------

    @contextmanager
    def _only_one(self) -> Iterator[int]:
        """Lock VAR_DIR: two supervisors would share its queue folder and logs. Yields the
        file that holds the lock."""
        with (self.var / "serve.lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise CannotStart(
                    f"The platform runs already with the files of {self.var}: {file.read()}. Stop "
                    "that one, or start a second one beside it: "
                    f"VAR_DIR={self.var}2 PORT={web.free_port(self.host, self.port)} make run"
                ) from None
            file.truncate(0)
            file.write(f"process {os.getpid()} on port {self.port}")
            file.flush()
            yield file.fileno()

    def _require_ports(self) -> None:
        web.require_port(self.host, self.port, again="PORT={port} make run")
        for dialect, port in asyncflow.ASYNCFLOW_PORTS:
            web.require_local_port(dialect, port)

    # --- The parts ----------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        celery = [sys.executable, "-m", "celery", "--workdir", str(settings.BASE_DIR), "--quiet"]
        worker = [*celery, "-A", "taskplatform", "worker", "--pool", "threads"]
        worker += ["--loglevel", settings.LOG_LEVEL]
        # Workers need no messages from each other: the tables hold the work.
        worker += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        node = f"{self.port}@%h"
        connections = web.raise_file_limit()
        # This supervisor starts a single process again by itself, and says so.
        options, variables = (
            web.several(settings.WEB_WORKERS, self.port) if settings.WEB_WORKERS > 1 else ([], {})
        )
        return [
            Part(
                "web",
                web.command(*options, host=self.host, port=self.port, connections=connections),
                leads=True,
                variables=variables,
            ),
            *(
                Part(f"asyncflow-{name}", web.local_command(name, port, connections=connections))
                for name, port in asyncflow.ASYNCFLOW_PORTS
            ),
            Part(
                "sweeps",
                [
                    *worker,
                    *("--beat", "--queues", "sweeps", "--concurrency", str(SWEEP_THREADS)),
                    *("--hostname", f"sweeps-{node}"),
                ],
            ),
            *(
                Part(
                    name,
                    [
                        *worker,
                        *("--queues", "fast,slow", "--concurrency", str(slots)),
                        *("--hostname", f"{name}-{node}"),
                    ],
                )
                for name, slots in drains(settings.WORKER_SLOTS)
            ),
        ]

    # --- Ready --------------------------------------------------------------------------------

    @property
    def _allowed_host(self) -> str:
        """A name of this platform that ALLOWED_HOSTS lets in, its own address if possible."""
        host = startup.reachable_host()
        host = f"[{host}]" if ":" in host else host
        names = [name.lstrip(".") for name in settings.ALLOWED_HOSTS]
        return host if "*" in names or host in names else names[0]

    @property
    def url(self) -> str:
        """Where browsers and clients find the platform; with HTTPS that is the proxy in front."""
        host = self._allowed_host
        return f"https://{host}" if settings.HTTPS else f"http://{host}:{self.port}"

    @property
    def _headers(self) -> dict[str, str]:
        """The headers with which the web process answers this machine as it would a browser."""
        https = {"X-Forwarded-Proto": "https"} if settings.HTTPS else {}
        return {"Host": self._allowed_host, **https}

    def _greeting(self, password: str, key: str) -> str:
        url = self.url
        kept = self.var / "admin_password"
        login = f"password {password}  (kept in {kept})"
        if not password:
            login = f"password in {kept}" if kept.exists() else "password as set before"
        lines = [
            "",
            f"The task platform runs at {url}/",
            "",
            f"  Admin     {url}/admin/",
            f"            login {startup.ADMIN}, {login}",
            f"  API       {url}/api/docs/",
            *(
                f"  asyncflow {dialect} at http://{web.LOCAL}:{port}"
                for dialect, port in asyncflow.ASYNCFLOW_PORTS
            ),
            f"  Logs      {self.var / 'logs'}",
            *(self._first_steps(url, key) if key else []),
            "",
            "Ctrl-C stops everything.",
        ]
        return "\n".join(lines)

    def _first_steps(self, url: str, key: str) -> list[str]:
        curl = f"curl -s -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json'"
        number = r"""$(expr "$TASK" : '{"number":"\([0-9]*\)')"""
        body = rf"{{\"uid\":\"{ANN}\",\"number\":\"{number}\",\"outcome\":\"succeeded\"}}"
        return [
            f"  API key   {key}",
            "",
            f"Pull a task as {ANN}, then call back:",
            "",
            f"""TASK=$({curl} {url}/api/v1/dispatch/ -d '{{"uid":"{ANN}"}}'); echo "$TASK\"""",
            f'{curl} {url}/api/v1/callback/ -d "{body}"',
            "",
            "Nothing comes when all is handed out; in the same environment, this plans more:",
            shlex.join([sys.executable, str(settings.BASE_DIR / "manage.py"), "demo", "--fresh"]),
        ]


def drains(slots: int) -> list[tuple[str, int]]:
    """The processes that share so many slots, with the slots of each: as few as keep the cores
    busy."""
    processes = max(1, slots // SLOTS_OF_A_PROCESS)
    each, left = divmod(slots, processes)
    return [
        (f"drains-{number + 1}" if number else "drains", each + (number < left))
        for number in range(processes)
    ]


def _exit_now() -> None:
    """End without cleaning up: no process has been started, and the next start repeats the set-up.

    An exception instead could be swallowed by a finalizer, or break a database connection between a
    statement and its answer, which then refuses the clean-up.
    """
    os._exit(0)
