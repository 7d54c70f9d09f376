"""What a refused statement leaves to the garbage collector, which any thread may run."""

from __future__ import annotations

import gc
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import IntegrityError, OperationalError, transaction
from django.db.backends.sqlite3.base import DatabaseWrapper
from django.db.utils import ConnectionHandler

from apps.common import db

pytestmark = pytest.mark.both

WAIT_SECONDS = 20.0


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseWrapper]:
    """A SQLite file that `db` takes for the platform's, open to all threads."""
    databases = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(tmp_path / "file.sqlite3"),
            "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 0.01},
        }
    }
    handler = ConnectionHandler(databases)
    connection = handler["default"]
    assert isinstance(connection, DatabaseWrapper)
    connection.inc_thread_sharing()
    monkeypatch.setattr(db, "connection", connection)
    monkeypatch.setattr(transaction, "get_connection", lambda using=None: connection)
    yield connection
    connection.close()


@pytest.fixture
def _garbage_is_kept() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def a_statement(file: DatabaseWrapper) -> None:
    with pytest.raises(IntegrityError):
        db.execute("INSERT INTO only_one VALUES (1)")


def a_transaction(file: DatabaseWrapper) -> None:
    other = sqlite3.connect(file.settings_dict["NAME"], check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OperationalError, match="database is locked"), transaction.atomic("default"):
        raise AssertionError("the lock was not waited for")
    other.rollback()
    other.close()


@pytest.mark.django_db
@pytest.mark.usefixtures("_garbage_is_kept")
@pytest.mark.parametrize("refused", [a_statement, a_transaction])
def test_garbage_of_what_is_refused_waits_for_no_connection(
    file: DatabaseWrapper, refused: Callable[[DatabaseWrapper], None]
) -> None:
    """A thread that collected it while it held the write lock stood still for twenty seconds: the
    connection of the garbage was waiting for that lock."""
    at_work, collected = threading.Event(), threading.Event()
    seen: list[bool] = []

    def wait() -> int:
        at_work.set()
        seen.append(collected.wait(WAIT_SECONDS))
        return 1

    def work() -> None:
        refused(file)
        # A statement at work keeps its connection to itself, as one that waits for a lock does.
        db.fetch("SELECT await_collection()")

    with file.cursor() as cursor:
        cursor.execute("CREATE TABLE only_one (id integer PRIMARY KEY)")
        cursor.execute("INSERT INTO only_one VALUES (1)")
    file.connection.create_function("await_collection", 0, wait)
    worker = threading.Thread(target=work)
    worker.start()
    assert at_work.wait(WAIT_SECONDS)
    gc.collect()
    collected.set()
    worker.join(WAIT_SECONDS)
    assert seen == [True]
