"""The server that clients and workers in these tests talk to."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from taskplatform import sdk
from tests.stub_jobs import Jobs, worker_of
from tests.stub_server import KEY, Stub, serving


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serving() as server:
        yield server


@pytest.fixture
def client(stub: Stub) -> Iterator[sdk.Client]:
    with sdk.Client(stub.url, KEY, timeout=30, give_up_after=60) as made:
        yield made


@pytest.fixture
def jobs(stub: Stub) -> Jobs:
    return Jobs(stub)


@pytest.fixture
def worker(stub: Stub) -> sdk.Worker:
    return worker_of(stub)


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    """Handlers wait for it."""
    event = threading.Event()
    yield event
    event.set()
