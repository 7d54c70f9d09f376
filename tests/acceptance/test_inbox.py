"""The programs of docs/inbox.md, as they stand there, beside a platform that runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from taskplatform import sdk
from taskplatform.bootstrap import LANGUAGE_PACKAGES, has_package
from tests.acceptance.conftest import SCOPES, make_key
from tests.databases import execute_mysql
from tests.processes import ROOT, eventually
from tests.servers import MariaDBServer, mariadb_server
from tests.serving import Platform
from tests.workers import make_type

GUIDE = (ROOT / "taskplatform/docs/inbox.md").read_text()
PASSWORD = "a-password"
INSTALL = "$ sudo apt-get install "
# What makes a program end its transaction otherwise.
ROLLBACKS = {
    "php": ("$db->commit()", "$db->rollBack()"),
    "java": ("db.commit()", "db.rollback()"),
    "go": ("tx.Commit()", "tx.Rollback()"),
    "js": ("db.commit()", "db.rollback()"),
    "python": ("        )\n", "        )\n    transaction.set_rollback(True)\n"),
}
# Where npm finds its packages is a matter of the machine.
KEPT = re.compile(r"HOME$|npm_|(https?|no)_proxy$", re.I)
CONTEXT = {"order": 7, "to": "李雷"}
IN_SQLITE = "/srv/tasks/var/taskplatform.sqlite3"
# The database of a Django project that the shop's account opens.
SETTINGS = """
import os
DATABASES = {"default": {"ENGINE": "django.db.backends.mysql", "NAME": "shop", "USER": "shop"}}
DATABASES["default"]["HOST"] = "127.0.0.1"
DATABASES["default"] |= {"PORT": os.environ["DB_PORT"], "PASSWORD": os.environ["DB_PASSWORD"]}
"""


class Program(NamedTuple):
    """A program of the guide, and the commands under it; the last one runs its file."""

    language: str
    code: str
    packages: list[str]
    commands: list[str]

    def run(self, folder: Path, **variables: str) -> None:
        """Run it in the folder, as a reader would; a failure shows what it has written."""
        if missing := [package for package in self.packages if not has_package(package)]:
            pytest.fail(
                f"The {self.language} program of docs/inbox.md needs {', '.join(missing)}. As root "
                f"run: apt-get install {' '.join(missing)}"
            )
        (folder / self.commands[-1].split()[-1]).write_text(self.code)
        environment = {
            **{name: value for name, value in os.environ.items() if KEPT.match(name)},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            # What Go compiles goes with the folder.
            "XDG_CACHE_HOME": str(folder / "cache"),
            # A network that answers nothing is told from a slow one within the time of a command.
            **{"npm_config_fetch_timeout": "30000", "npm_config_fetch_retries": "1"},
            **variables,
        }
        for command in self.commands:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
                check=False,
            )
            hint = (
                "npm could not fetch it. Check the network, or name a mirror in npm_config_registry"
                if command.startswith("npm ")
                else "It did not run as it stands"
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{hint}."


def programs() -> dict[str, Program]:
    """The programs of the guide by the headings above them."""
    found = {}
    for section in GUIDE.split("\n## ")[1:]:
        shown = re.findall(r"^```(\w+)\n(.*?)^```", section, re.M | re.S)
        if shown:
            [(language, code), (_console, commands)] = shown
            lines = re.findall(r"^\$ .*", commands, re.M)
            found[section.partition("\n")[0]] = Program(
                language,
                code,
                [w for line in lines if line.startswith(INSTALL) for w in line.split()[4:]],
                [line[2:] for line in lines if not line.startswith(INSTALL)],
            )
    return found


PROGRAMS = programs()
ON_SERVERS = [name for name in PROGRAMS if name != "SQLite"]


class Shop:
    """The database of a shop beside that of a platform, made by the statements of the guide."""

    def __init__(self, server: MariaDBServer, client: sdk.Client) -> None:
        self._server = server
        self._client = client
        [statements] = re.findall(r"^```sql\n(.*?)^```", GUIDE, re.M | re.S)
        server.execute(*filter(str.strip, statements.split(";\n")))

    @property
    def variables(self) -> dict[str, str]:
        """What the programs read from their environment."""
        return {"DB_PORT": str(self._server.port), "DB_PASSWORD": PASSWORD}

    def as_shop(self, sql: str) -> list[tuple[Any, ...]]:
        """The answer to the account of the guide."""
        return execute_mysql(f"mysql://shop:{PASSWORD}@127.0.0.1:{self._server.port}/shop", sql)

    def forget(self) -> set[str]:
        """Make order 7 unpaid; returns the jobs that it has so far."""
        self._server.execute("UPDATE shop.orders SET paid = 0")
        return jobs_of(self._client)

    def is_paid(self) -> bool:
        return self.as_shop("SELECT id, paid FROM shop.orders") == [(7, 1)]

    def made_since(self, before: set[str]) -> list[sdk.Job]:
        """The jobs made of all rows that were there, when they have ended."""
        waiting = "SELECT id FROM taskplatform.jobs_inbox WHERE refused_at IS NULL"
        eventually(lambda: not execute_mysql(self._server.url, waiting))
        return [ended(self._client, number) for number in jobs_of(self._client) - before]


def jobs_of(client: sdk.Client) -> set[str]:
    """The jobs of order 7."""
    path = "/jobs/?key=order-7&limit=100"
    return client._call(path, None, lambda answer: {job["id"] for job in answer.body["results"]})


def ended(client: sdk.Client, number: str) -> sdk.Job:
    eventually(lambda: client.job(number).is_final)
    return client.job(number)


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDBServer]:
    """One of its own: the guide names the platform's database, and makes another."""
    with mariadb_server() as started:
        yield started


def with_receipts(platform: Platform) -> sdk.Client:
    """A client of the platform, which is started and has the job type."""
    platform.environment["DEMO"] = "0"
    platform.start()
    client = sdk.Client(platform.url, make_key(platform.environment, "Shop", *SCOPES))
    make_type(client, "receipt", handler="echo")
    return client


@pytest.fixture(scope="module")
def shop(server: MariaDBServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    platform = Platform(tmp_path_factory.mktemp("platform"), server.url)
    try:
        with with_receipts(platform) as client:
            yield Shop(server, client)
    finally:
        platform.end()


@pytest.mark.long
@pytest.mark.mariadb
@pytest.mark.parametrize("name", ON_SERVERS)
def test_program_of_the_guide_pays_and_makes_one_job_or_does_neither(
    name: str, shop: Shop, tmp_path: Path
) -> None:
    program = PROGRAMS[name]
    if program.language == "python":
        startproject = [sys.executable, "-m", "django", "startproject", "shop", "."]
        subprocess.run(startproject, cwd=tmp_path, check=True)
        with (tmp_path / "shop" / "settings.py").open("a") as settings:
            settings.write(SETTINGS)

    before = shop.forget()
    program.run(tmp_path, **shop.variables)
    assert shop.is_paid()
    [job] = shop.made_since(before)
    assert (job.type, job.context, job.status) == ("receipt", CONTEXT, "succeeded")

    before = shop.forget()
    commit, rollback = ROLLBACKS[program.language]
    assert program.code.count(commit) == 1
    changed = program._replace(code=program.code.replace(commit, rollback))
    changed.run(tmp_path, **shop.variables)
    assert (shop.is_paid(), shop.made_since(before)) == (False, [])


@pytest.mark.long
@pytest.mark.mariadb
def test_account_of_the_guide_reads_and_changes_nothing_else(
    shop: Shop, subtests: pytest.Subtests
) -> None:
    assert shop.as_shop("SHOW TABLES FROM taskplatform") == [("jobs_inbox",)]
    for sql in (
        "SELECT type FROM jobs_inbox",
        "SELECT password FROM auth_user",
        "SELECT context FROM jobs_job",
        "INSERT INTO jobs_inbox (type, error) VALUES ('receipt', '')",
        "UPDATE jobs_inbox SET type = 'other'",
        "DELETE FROM jobs_inbox",
        "INSERT INTO jobs_jobtype (name) VALUES ('other')",
    ):
        with subtests.test(sql=sql), pytest.raises(Exception, match="command denied to user"):
            shop.as_shop(re.sub(r"\b(jobs_|auth_)", r"taskplatform.\1", sql, count=1))


@pytest.mark.long
@pytest.mark.sqlite
def test_program_of_the_guide_makes_a_job_in_the_file_of_the_platform(tmp_path: Path) -> None:
    platform = Platform(tmp_path / "platform", "")
    program = PROGRAMS["SQLite"]
    assert program.code.count(IN_SQLITE) == 1
    file = str(platform.var / "taskplatform.sqlite3")
    try:
        with with_receipts(platform) as client:
            program._replace(code=program.code.replace(IN_SQLITE, file)).run(tmp_path)
            [number] = eventually(lambda: jobs_of(client))
            assert ended(client, number).result == CONTEXT
    finally:
        platform.end()


def test_long_run_installs_the_languages_of_the_guide() -> None:
    assert {name for each in PROGRAMS.values() for name in each.packages} == {*LANGUAGE_PACKAGES}
