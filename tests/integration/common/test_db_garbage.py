"""What a refused statement leaves to the garbage collector, which any thread may run."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import IntegrityError
from django.db.backends.sqlite3.base import DatabaseWrapper
from django.db.utils import ConnectionHandler

from apps.common import db

WAIT_SECONDS = 20.0


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseWrapper]:
    """A SQLite file that `db` takes for the platform's, open to all threads."""
    databases = {
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "file.sqlite3")}
    }
    handler = ConnectionHandler(databases)
    connection = handler["default"]
    assert isinstance(connection, DatabaseWrapper)
    connection.inc_thread_sharing()
    monkeypatch.setattr(db, "connections", {"default": connection})
    yield connection
    connection.close()


@pytest.fixture
def _garbage_is_kept() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.django_db
@pytest.mark.usefixtures("_garbage_is_kept")
def test_garbage_of_a_refused_statement_waits_for_no_connection(file: DatabaseWrapper) -> None:
    """A thread that collected it while it held the write lock stood still for twenty seconds: the
    connection of the garbage was waiting for that lock."""
    at_work, collected = threading.Event(), threading.Event()
    seen: list[bool] = []

    def wait() -> int:
        at_work.set()
        seen.append(collected.wait(WAIT_SECONDS))
        return 1

    def work() -> None:
        with pytest.raises(IntegrityError):
            db.execute("INSERT INTO only_one VALUES (1)")
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
