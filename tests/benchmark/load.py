"""Requests over kept-open connections, with as little work as possible between two of them."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from django.core.management.base import CommandError

ANSWER_SECONDS = 30
OK = 200
NO_CONTENT = 204


class Answer(NamedTuple):
    """A status, the body and how long it took."""

    status: int
    body: bytes
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


# Sends one request on a connection of its own and waits for the answer.
Ask = Callable[[bytes], Answer]


class Volley(NamedTuple):
    """The answers in the order of their requests, the client of each, and the time for all."""

    answers: list[Answer]
    sent_by: list[int]
    seconds: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.answers) / self.seconds


def post(path: str, body: Any, *, key: str = "") -> bytes:
    """The bytes of one request."""
    text = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text


def good(answer: Answer) -> Any:
    """What a successful answer says; CommandError otherwise."""
    if answer.status != OK:
        raise CommandError(f"{answer.status} {answer.body[:300]!r}")
    return answer.json


class Clients:
    """Clients of a server on loopback, each with a connection that it keeps open."""

    def __init__(self, port: int, number: int) -> None:
        self._port, self._number = port, number

    def __enter__(self) -> Clients:
        """OSError when one cannot connect."""
        with ExitStack() as opened:
            address = ("127.0.0.1", self._port)
            self._wires = [
                opened.enter_context(socket.create_connection(address, ANSWER_SECONDS))
                for _ in range(self._number)
            ]
            for wire in self._wires:
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def fire(self, requests: Sequence[bytes], *, after: Volley | None = None) -> Volley:
        """Send all requests, one of each client at a time; OSError when it breaks off.

        Each client takes the next request or, `after` another volley, those at the positions of its
        own requests there.
        """
        answers: list[Any] = [None] * len(requests)
        sent_by = [0] * len(requests)
        # Which process of the server has how many connections is chance, and the last of a fixed
        # share would wait for the busiest.
        waiting = iter(range(len(requests)))

        def run(ask: Ask, client: int) -> None:
            own = waiting
            if after is not None:
                own = iter([n for n in range(len(requests)) if after.sent_by[n] == client])
            for position in own:
                answers[position] = ask(requests[position])
                sent_by[position] = client

        return Volley(answers, sent_by, self.work(run))

    def work(self, work: Callable[[Ask, int], None]) -> float:
        """Let every client work at once, each given how to ask and its number; the seconds.

        The first error of a client is raised when all have ended.
        """
        failures: list[Exception] = []
        begun: list[float] = []
        barrier = threading.Barrier(self._number, lambda: begun.append(time.perf_counter()))

        def run(client: int) -> None:
            barrier.wait()
            try:
                work(partial(_ask, self._wires[client]), client)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)

        threads = [
            threading.Thread(target=run, args=[client], daemon=True)
            for client in range(self._number)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return time.perf_counter() - begun[0]


def fire(port: int, requests: Sequence[bytes], *, connections: int = 8) -> Volley:
    """`Clients.fire` on this number of connections."""
    with Clients(port, connections) as clients:
        return clients.fire(requests)


def _ask(wire: socket.socket, request: bytes) -> Answer:
    begun = time.perf_counter()
    wire.sendall(request)
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += _more(wire)
    head = data[:end].lower()
    status = int(head[9:12])
    at = head.find(b"content-length:")
    if at < 0 and status != NO_CONTENT:
        raise ConnectionError(f"an answer {status} without its length")
    length = 0 if at < 0 else int(head[at + 15 :].split(b"\r\n", 1)[0])
    while len(data) < end + 4 + length:
        data += _more(wire)
    return Answer(status, data[end + 4 :], time.perf_counter() - begun)


def _more(wire: socket.socket) -> bytes:
    part = wire.recv(65536)
    if not part:
        raise ConnectionError("the server closed the connection in the middle of an answer")
    return part
