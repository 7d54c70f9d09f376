"""`manage.py benchmark`: measures the chosen parts and prints their figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError, OutputWrapper
from django.db import connection

from taskplatform.supervisor import end_with_parent, on_stop
from tests.benchmark import api, backlog, dispatch, flows, history, jobs, reports, workers
from tests.benchmark.figures import Figure, Part, RunOptions, lines
from tests.benchmark.processes import scratch_database

PARTS = {
    "dispatch": dispatch.PARTS,
    "jobs": jobs.PARTS,
    "flows": flows.PARTS,
    "workers": workers.PARTS,
    "api": api.PARTS,
    "reports": reports.PARTS,
    "history": history.PARTS,
}
STOPPED = 130
Write = Callable[[str], None]


def run(
    name: str, only: Collection[str], *, quick: bool, as_json: bool, out: OutputWrapper, log: Write
) -> None:
    """Measure the parts with these names, all if there are none, and print their figures.

    A signal that asks it to stop ends it with what has been measured; nothing it began is left.
    """
    known = [part.name for part in PARTS[name]]
    if unknown := sorted(set(only) - set(known)):
        raise CommandError(
            f"{name} has no part {', '.join(unknown)}; its parts: {', '.join(known)}."
        )
    parts = [part for part in PARTS[name] if not only or part.name in only]
    on_stop(_interrupt)
    measured = list[Figure]()
    try:
        # Closed, so that a part also ends what it runs when it is left at a figure.
        with closing(_measure(name, parts, quick=quick, log=log)) as figures:
            for each in figures:
                measured.append(each)
                if as_json:
                    out.write(json.dumps(each.as_json()))
                    out.flush()
    except KeyboardInterrupt:
        raise CommandError("The benchmark was stopped.", returncode=STOPPED) from None
    finally:
        if measured and not as_json:
            out.write("\n".join(lines(measured)))


def _interrupt() -> None:
    raise KeyboardInterrupt


def _measure(name: str, parts: Sequence[Part], *, quick: bool, log: Write) -> Generator[Figure]:
    """On SQLite only the parts for it; on servers all, those for SQLite in another process."""
    if connection.vendor == "sqlite":
        here = [part for part in parts if part.on != "servers"]
        if not here:
            raise CommandError(
                f"Of {name} these parts need MariaDB and Redis. Set DATABASE_URL and REDIS_URL; "
                "both must be of test machines."
            )
        yield from _measure_here(here, quick=quick, log=log)
        return
    if not os.environ.get("DATABASE_URL") or not os.environ.get("REDIS_URL"):
        raise CommandError("Set DATABASE_URL and REDIS_URL; both must be of test machines.")
    yield from _measure_here([p for p in parts if p.on != "sqlite"], quick=quick, log=log)
    if embedded := [part.name for part in parts if part.on == "sqlite"]:
        log("measuring: SQLite")
        yield from _measure_on_sqlite(name, embedded, quick=quick)


def _measure_here(parts: Sequence[Part], *, quick: bool, log: Write) -> Iterator[Figure]:
    if not parts:
        return
    with tempfile.TemporaryDirectory() as name, scratch_database(Path(name)):
        run = RunOptions(Path(name), quick, lambda text: log(f"measuring: {text}"))
        for part in parts:
            run.log(part.name)
            if part in (*jobs.PARTS, *workers.PARTS):
                backlog.ensure_types()
            yield from part.measure(run)


def _measure_on_sqlite(name: str, parts: Sequence[str], *, quick: bool) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "manage.py", "benchmark", name, *parts, "--json"]
        process = subprocess.Popen(
            [*command, "--quick"] if quick else command,
            env={**os.environ, "DATABASE_URL": "", "REDIS_URL": "", "VAR_DIR": folder},
            cwd=settings.BASE_DIR,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=end_with_parent(os.getpid()),
        )
        with process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    yield Figure(**json.loads(line))
            except BaseException:
                process.terminate()
                raise
            finally:
                process.wait()
    if process.returncode:
        raise CommandError("The benchmark on SQLite failed; its error stands above.")
