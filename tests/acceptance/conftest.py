"""Real processes with an environment, a folder and a database of their own."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from taskplatform import sdk
from tests import forks
from tests.databases import copy_database, empty_database, migrated_once, run_folder, run_manage
from tests.environment import neutral
from tests.processes import ROOT, RunningProcess, free_port
from tests.serving import Web, await_answer, server_command
from tests.workers import Workers

# What a key of workers on other machines may do in these tests.
SCOPES = ("hold", "submit", "read", "operate")
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "REDIS_URL")


def new_environment(var: Path, database_url: str) -> dict[str, str]:
    """What a process of the platform needs, and nothing that the shell of the tests adds."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**kept, **neutral(var), "DATABASE_URL": database_url}


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """DATABASE_URL of a database without data."""
    return migrated_once(run_folder(tmp_path_factory))


class Template(NamedTuple):
    """A database that tests get copies of, and a key that is in it."""

    url: str
    key: str


def make_key(environment: Mapping[str, str], name: str, *scopes: str, root: Path = ROOT) -> str:
    options = [word for scope in scopes for word in ("--scope", scope)]
    run = forks.manage if root == ROOT else partial(run_manage, root=root)
    return run(environment, "apiclient", "create", name, *options).stdout.strip()


@pytest.fixture(scope="session")
def keyed_database(
    tmp_path_factory: pytest.TempPathFactory, migrated_database: str
) -> Iterator[Template]:
    """A database with a key of workers and nothing else."""
    folder = tmp_path_factory.mktemp("keyed")
    with empty_database(folder) as url:
        copy_database(migrated_database, url)
        yield Template(url, make_key(new_environment(folder / "var", url), "Pi", *SCOPES))


@pytest.fixture(scope="session")
def planned_database(
    tmp_path_factory: pytest.TempPathFactory, migrated_database: str
) -> Iterator[Template]:
    """A database with what the demo plans, and a key that may pull and read."""
    folder = tmp_path_factory.mktemp("planned")
    with empty_database(folder) as url:
        copy_database(migrated_database, url)
        environment = new_environment(folder / "var", url)
        done = forks.manage(environment, "demo", "--verbosity", "0")
        assert done.returncode == 0, done.stderr
        yield Template(url, make_key(environment, "Device", "pull", "read"))


@pytest.fixture
def template_database(request: pytest.FixtureRequest, migrated_database: str) -> str:
    """DATABASE_URL of the database that the test gets a copy of; modules may choose another."""
    if "key" in request.fixturenames:
        keyed: Template = request.getfixturevalue("keyed_database")
        return keyed.url
    return migrated_database


@contextlib.contextmanager
def platform_with(template: str, folder: Path) -> Iterator[dict[str, str]]:
    """The environment of one platform, with a copy of the database of its own."""
    with empty_database(folder) as url:
        copy_database(template, url)
        yield new_environment(folder / "var", url)


@pytest.fixture
def environment(tmp_path: Path, template_database: str) -> Iterator[dict[str, str]]:
    """The environment of the platform of the test."""
    with platform_with(template_database, tmp_path) as made:
        yield made


@pytest.fixture
def manage(environment: Mapping[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`manage("migrate")` runs manage.py to its end: `.returncode`, `.stdout`, `.stderr`."""

    def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
        run = forks.manage if arguments[0] in ("apiclient", "audit") else run_manage
        return run(environment, *arguments)

    return manage


@contextlib.contextmanager
def processes_of(
    environment: Mapping[str, str], folder: Path, root: Path = ROOT
) -> Iterator[Callable[..., RunningProcess]]:
    """A function that starts commands in the folder of a project, as the fixture `start` does, and
    stops them at the end."""
    with contextlib.ExitStack() as ends:

        def start(*command: str, **variables: str) -> RunningProcess:
            log = folder / f"process-{secrets.token_hex(4)}.log"
            process = RunningProcess(command, {**environment, **variables}, log, root=root)
            ends.callback(process.end)
            return process

        yield start


@pytest.fixture
def start(
    environment: Mapping[str, str], tmp_path: Path
) -> Iterator[Callable[..., RunningProcess]]:
    """`start("celery", …, PORT="8123")` runs a command; what is left at the end is stopped.

    The test fails when a process does not stop on SIGTERM or leaves others behind.
    """
    with processes_of(environment, tmp_path) as start:
        yield start


@pytest.fixture
def workers(start: Callable[..., RunningProcess], environment: Mapping[str, str]) -> Workers:
    return Workers(start, environment)


@pytest.fixture
def url(start: Callable[..., RunningProcess]) -> str:
    """The address of a web server."""
    port, command = server_command()
    await_answer(start(*command, WEB_THREADS="8"), port)
    return f"http://127.0.0.1:{port}"


@pytest.fixture
def key(keyed_database: Template) -> str:
    """A key of workers, in the database of the test."""
    return keyed_database.key


@pytest.fixture(scope="module")
def shared_web(keyed_database: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """One web server for all tests of a module; its key is that of `keyed_database`."""
    folder = tmp_path_factory.mktemp("platform")
    with (
        platform_with(keyed_database.url, folder) as environment,
        processes_of(environment, folder) as start,
    ):
        web = Web(start, free_port())
        await_answer(web.process, web.port)
        yield web


@pytest.fixture
def client(url: str, key: str) -> Iterator[sdk.Client]:
    with sdk.Client(url, key) as made:
        yield made


@pytest.fixture
def outside_at(
    start: Callable[..., RunningProcess], key: str, tmp_path: Path
) -> Callable[..., RunningProcess]:
    """`outside_at(url, program, "pi-1", …)` starts a program beside a copy of the client, as on
    another machine: with URL and KEY, and without the packages of the project."""
    (tmp_path / "sdk.py").write_text(Path(sdk.__file__).read_text())
    before = "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n"

    def begin(url: str, program: str, *arguments: str) -> RunningProcess:
        file = tmp_path / f"outside-{secrets.token_hex(4)}.py"
        file.write_text(before + program)
        return start(sys.executable, "-I", "-S", str(file), *arguments, URL=url, KEY=key)

    return begin


@pytest.fixture
def outside(outside_at: Callable[..., RunningProcess], url: str) -> Callable[..., RunningProcess]:
    """`outside(program, "pi-1", …)` does so at the web server of the test."""
    return partial(outside_at, url)
