"""Tests in this folder run in the round on SQLite only, so none may use a database."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def django_db_setup() -> None:
    pytest.fail("A test in tests/unit uses a database; it belongs to tests/integration.")


@pytest.fixture
def signal_handlers() -> Iterator[None]:
    """`main` takes the signals of its process, which here is that of the tests."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
