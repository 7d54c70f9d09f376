"""Requests over kept-open connections, with as little work as possible between two of them."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

ANSWER_SECONDS = 30
NO_CONTENT = 204


class Answer(NamedTuple):
    """A status, the body and how long it took."""

    status: int
    body: bytes
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Volley(NamedTuple):
    """The answers in the order of their requests, and the time for all of them."""

    answers: list[Answer]
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


def fire(port: int, requests: Sequence[bytes], *, connections: int = 8) -> Volley:
    """Send all requests to a server on loopback, so many at a time; OSError when it breaks off."""
    answers: list[Any] = [None] * len(requests)
    failures: list[Exception] = []
    begun: list[float] = []
    barrier = threading.Barrier(connections + 1, lambda: begun.append(time.perf_counter()))
    # Each connection takes the next one: which process of the server has how many connections is
    # chance, and the last of a fixed share would wait for the busiest.
    waiting = iter(range(len(requests)))

    def run() -> None:
        try:
            with socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS) as wire:
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                barrier.wait()
                for position in waiting:
                    answers[position] = _ask(wire, requests[position])
        except threading.BrokenBarrierError:
            return
        except OSError as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(connections)]
    for thread in threads:
        thread.start()
    # One that cannot connect holds nobody up: its failure is told below.
    with suppress(threading.BrokenBarrierError):
        barrier.wait(ANSWER_SECONDS)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return Volley(answers, time.perf_counter() - begun[0])


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
