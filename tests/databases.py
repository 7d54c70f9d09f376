"""Databases that tests make, copy and drop, on whichever server the run is for."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.environment import neutral
from tests.processes import ROOT


@contextlib.contextmanager
def empty_database(folder: Path) -> Iterator[str]:
    """DATABASE_URL of a new database: a file in the folder, or one in the MariaDB of this run."""
    url = os.environ["DATABASE_URL"]
    name = f"test_taskplatform_{secrets.token_hex(4)}"
    if not url:
        yield f"sqlite:///{folder / name}.sqlite3"
        return
    execute_mysql(url, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    yield urlsplit(url)._replace(path=f"/{name}").geturl()
    execute_mysql(url, f"DROP DATABASE {name}")


def execute_mysql(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement, on a connection of its own that checks no foreign keys."""
    with _mysql_cursor(url) as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@contextlib.contextmanager
def _mysql_cursor(url: str) -> Iterator[Any]:
    import MySQLdb

    address = urlsplit(url)
    connection = MySQLdb.connect(
        host=address.hostname,
        port=address.port,
        user=address.username,
        password=address.password,
        database=address.path[1:],
        init_command="SET foreign_key_checks = 0",
        autocommit=True,
    )
    with contextlib.closing(connection), connection.cursor() as cursor:
        yield cursor


def copy_database(source: str, target: str) -> None:
    """Copy tables and rows into the empty database."""
    if target.startswith("sqlite"):
        shutil.copy(source.removeprefix("sqlite:///"), target.removeprefix("sqlite:///"))
        return
    for [table] in execute_mysql(source, "SHOW TABLES"):
        [[_, create]] = execute_mysql(source, f"SHOW CREATE TABLE {table}")
        execute_mysql(target, create)
        _copy_rows(table, source, target)


def _copy_rows(table: str, source: str, target: str) -> None:
    there = urlsplit(source)
    if there.netloc == urlsplit(target).netloc:
        name = there.path[1:]
        execute_mysql(target, f"INSERT INTO {table} SELECT * FROM {name}.{table}")
    elif rows := execute_mysql(source, f"SELECT * FROM {table}"):
        places = ", ".join(["%s"] * len(rows[0]))
        with _mysql_cursor(target) as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES ({places})", rows)


def migrated_once(folder: Path) -> str:
    """DATABASE_URL of a database with all migrations and no data: the first process of a run that
    asks for it makes it, the others wait. It goes with the folder, or with its server. A file that
    MIGRATED_DATABASE names takes its place: it takes longer than a few tests."""
    if kept := os.environ.get("MIGRATED_DATABASE"):
        return f"sqlite:///{kept}"
    address = folder / "migrated"
    with (folder / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            url = _migrate(folder)
            address.write_text(url)
    return address.read_text()


def _migrate(folder: Path) -> str:
    url = os.environ["DATABASE_URL"]
    name = f"test_taskplatform_{secrets.token_hex(4)}"
    if url:
        execute_mysql(url, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        url = urlsplit(url)._replace(path=f"/{name}").geturl()
    else:
        url = f"sqlite:///{folder / name}.sqlite3"
    environment = {**os.environ, **neutral(folder / "var"), "DATABASE_URL": url}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    done = run_manage(environment, "migrate", "--verbosity", "0")
    assert done.returncode == 0, done.stderr
    return url


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run share."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def run_manage(
    environment: Mapping[str, str], *arguments: str, seconds: float = 600, root: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
