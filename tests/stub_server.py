"""A server that answers like the platform, or misbehaves as a test asks."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from types import SimpleNamespace
from typing import Any

import pytest

from taskplatform import sdk

KEY = "demo.s3cret-part"
OPEN: dict[str, Any] = {
    "number": "901",
    "redo": 0,
    "source": "once",
    "task": 12,
    "occurrence_at": "2026-03-02T09:00:00Z",
    "title": "Photograph shelf 3",
    "params": {"shelf": 3},
    "template": {"name": "photo", "version": 2},
    "dispatched_at": "2026-03-02T09:00:01.25Z",
    "deadline_at": "2026-03-02T10:00:01.250000Z",
    "a_later_field": True,
}
ENDED: dict[str, Any] = {
    "number": "901",
    "state": "succeeded",
    "finished_at": "2026-03-02T09:05:00Z",
    "next": None,
}

Behaviour = Callable[["Handler"], None]


@dataclass
class Seen:
    """A request as the stub received it; `peer` identifies the connection."""

    path: str
    body: dict[str, Any]
    authorization: str
    peer: tuple[str, int]
    at: float
    raw: bytes = b""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Stub

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        raw = self.rfile.read(length)
        self.seen = Seen(
            self.path,
            json.loads(raw) if raw else {},
            self.headers["Authorization"],
            self.client_address,
            time.monotonic(),
            raw,
        )
        self.server.seen.append(self.seen)
        self.server.next_behaviour()(self)

    def log_message(self, *args: object) -> None:
        """Silence: the tests read `seen`."""

    def answer(
        self, status: int, content: bytes, headers: dict[str, str], length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)


class Stub(ThreadingHTTPServer):
    """One behaviour for each request; the last one is repeated."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviours: list[Behaviour] = []
        self.seen: list[Seen] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def next_behaviour(self) -> Behaviour:
        return self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]

    def behaves(self, *behaviours: Behaviour) -> None:
        self.behaviours = list(behaviours)

    def handle_error(self, *args: object) -> None:
        """A client that left is part of the tests."""


def says(status: int, body: object = None, **headers: str) -> Behaviour:
    kind = "application/json" if status < 400 else "application/problem+json"
    content = b"" if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.answer(status, content, {"Content-Type": kind, **named})


def problem(status: int, code: str, detail: str = "No.", **headers: str) -> Behaviour:
    body = {
        "type": f"urn:problem:{code}",
        "title": code,
        "status": status,
        "detail": detail,
        "code": code,
        "errors": [{"field": "result", "code": code, "message": detail}],
        "request_id": "r-7",
    }
    return says(status, body, **headers)


def says_text(status: int, content: bytes, kind: str, length: int | None = None) -> Behaviour:
    return lambda handler: handler.answer(status, content, {"Content-Type": kind}, length)


def hangs_up(handler: Handler) -> None:
    handler.close_connection = True


def resets(handler: Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def never_answers(handler: Handler) -> None:
    handler.server.over.wait(30)


def then_closes(behaviour: Behaviour) -> Behaviour:
    """Answers as if the connection were kept, and closes it."""

    def behave(handler: Handler) -> None:
        behaviour(handler)
        handler.close_connection = True

    return behave


offers = says(200, OPEN)
ends = says(200, ENDED)
cuts_short = then_closes(says_text(200, b'{"number": "90', "application/json", length=400))


class SteppingClock:
    """The clock of the client's patience: each reading is a step, however long it took."""

    step = 0.1

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(sdk, "time", SimpleNamespace(monotonic=self._read))

    def _read(self) -> float:
        self.now += self.step
        return self.now


def raises(error: BaseException) -> Callable[[object], None]:
    """A handler that does."""

    def work(_given: object) -> None:
        raise error

    return work


@contextmanager
def unused_port() -> Iterator[int]:
    """A port of this machine at which nobody listens, nor begins to in the block."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


@contextmanager
def answering(server: BaseServer) -> Iterator[None]:
    """The server answers in a thread of its own, and is closed after the block."""
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    with server:
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving() -> Iterator[Stub]:
    """A stub on a free port of this machine, stopped at the end."""
    server = Stub()
    with answering(server):
        try:
            yield server
        finally:
            server.over.set()
