"""Worker processes for a benchmark: ours, and plain Celery's as the baseline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError

from tests.benchmark.scratch import environment

READY_SECONDS = 40
OURS, PLAIN = "taskplatform", "tests.benchmark.plain_celery"


def await_true(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Return as soon as the condition holds; CommandError names what did not come."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise CommandError(f"The benchmark waited {seconds:.0f} s in vain for {what}.")
        time.sleep(0.002)


@contextmanager
def worker(
    application: str, folder: Path, *options: str, variables: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A Celery worker of the application until the block ends; its log is in the folder."""
    name = f"{application.rpartition('.')[2]}-{time.monotonic_ns()}"
    command = [
        *(sys.executable, "-m", "celery", "--workdir", str(settings.BASE_DIR), "--quiet"),
        *("-A", application, "worker", "--hostname", f"{name}@%h", "--loglevel", "WARNING"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat", *options),
    ]
    log = folder / f"{name}.log"
    given = {**environment(), "EXTRA_APPS": "tests.benchmark", "VAR_DIR": str(folder)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**given, **(variables or {})},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            ended = process.poll() is not None
            _stop(process)
            if ended:
                # Whatever was waited for in vain, this is why.
                raise CommandError(f"A worker ended by itself: {log.read_text()[-800:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def prefork(queues: Sequence[str], processes: int) -> list[str]:
    """The options of a worker that forks."""
    return ["--pool", "prefork", "-c", str(processes), "--queues", ",".join(queues)]
