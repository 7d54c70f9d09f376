"""Requests that no client library would send, on the wire of a real server. S0.29."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.conftest import Template, platform_with, processes_of
from tests.processes import eventually
from tests.serving import server_command

PULL = json.dumps({"uid": "uid_ben"}).encode()
KILOBYTES_256 = 262_144


class Wire:
    """Writes bytes to the server and reads what comes back."""

    def __init__(self, port: int, key: str) -> None:
        self.port = port
        self.key = key

    def head(self, *headers: str, method: str = "POST", path: str = "/api/v1/dispatch/") -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Authorization: Bearer {self.key}",
            "Content-Type: application/json",
            "Connection: close",
            *headers,
        ]
        return "\r\n".join([*lines, "", ""]).encode()

    def send(self, *parts: bytes, shuts: bool = False) -> tuple[int, Any]:
        """The status and the JSON of the answer; (0, None) when the server just hangs up."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as wire:
            try:
                for part in parts:
                    wire.sendall(part)
                if shuts:
                    wire.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                # It has answered and closed without reading on.
                pass
            return self._read(wire)

    @staticmethod
    def _read(wire: socket.socket) -> tuple[int, Any]:
        received = b""
        try:
            while part := wire.recv(65_536):
                received += part
        except ConnectionResetError:
            pass
        head, _, body = received.partition(b"\r\n\r\n")
        if not head:
            return 0, None
        if b"chunked" in head.lower():
            body = body.partition(b"\r\n")[2].rpartition(b"\r\n0\r\n")[0]
        return int(head.split()[1]), json.loads(body) if body else None


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.fixture(scope="module")
def wire(planned_database: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """Tests share the server, so each has callers of its own where wrong keys are counted."""
    folder = tmp_path_factory.mktemp("raw")
    port, command = server_command()
    with (
        platform_with(planned_database.url, folder) as environment,
        processes_of(environment, folder) as start,
    ):
        web = start(
            *command,
            TRUSTED_PROXIES="127.0.0.1",
            WEB_THREADS="2",
            # Its one process counts wrong keys by itself then, and none of them is missed.
            REDIS_URL="",
        )
        wire = Wire(port, planned_database.key)

        def answers() -> bool:
            assert web.process.poll() is None, web.output
            try:
                return wire.send(wire.head(method="GET", path="/health/live"))[0] == 200
            except OSError:
                return False

        eventually(answers, seconds=60)
        yield wire
        assert "Traceback" not in web.output, web.output[-5000:]


def test_bodies_are_bounded_however_they_come(wire: Wire) -> None:
    """S0.29: with a length, in chunks, cut short or compressed; the good ones are read."""
    padded = PULL + b" " * (KILOBYTES_256 + 1 - len(PULL))
    length = "Content-Length: {}".format
    in_chunks = "Transfer-Encoding: chunked"
    refused = {
        "no body": (wire.head(), 400, "malformed"),
        "too long": (wire.head(length(len(padded))) + padded, 413, "too_large"),
        "said to be huge": (wire.head(length(10**12)), 413, "too_large"),
        "chunks too long": (
            wire.head(in_chunks) + chunked(*[padded[:65_536]] * 5),
            413,
            "too_large",
        ),
        "empty chunks": (wire.head(in_chunks) + chunked(), 400, "malformed"),
        "form": (wire.head(length(3)) + b"a=1", 400, "malformed"),
    }

    for name, (request, status, code) in refused.items():
        answered, problem = wire.send(request)
        assert (answered, problem and problem["code"]) == (status, code), name
    for request in (
        wire.head(length(len(PULL))) + PULL,
        wire.head(in_chunks) + chunked(PULL[:5], PULL[5:]),
        wire.head(length(KILOBYTES_256)) + padded[:-1],
    ):
        assert wire.send(request)[0] == 200


def test_address_of_the_caller_is_taken_from_a_trusted_proxy(wire: Wire) -> None:
    """Behind a proxy, what one caller does wrong is not held against all others."""
    stranger = Wire(wire.port, f"nobody-222222.{'x' * 43}")

    def asked_for(*forwarded: str) -> int:
        header = f"X-Forwarded-For: {', '.join(forwarded)}"
        return stranger.send(stranger.head(header, method="GET", path="/api/v1/jobs/"))[0]

    # More than two minutes' worth, wherever a minute ends.
    attempts = range(3, 48)
    assert 429 in [asked_for("203.0.113.1") for _ in attempts]
    assert asked_for("203.0.113.2") == 401
    # The proxy adds the last one; those before it anybody may claim.
    assert 429 in [asked_for(f"203.0.113.{number}", "203.0.113.1") for number in attempts]


def test_request_that_breaks_off_does_nothing(wire: Wire) -> None:
    """S0.29: half a body is not carried out, and the server goes on serving others."""
    pull = PULL.replace(b"uid_ben", b"uid_chloe")
    broken = [
        wire.head("Content-Length: 500") + pull,
        wire.head("Transfer-Encoding: chunked") + b'5\r\n{"uid',
        wire.head("Transfer-Encoding: chunked") + b"zz\r\n{}",
        wire.head("Content-Length: abc"),
        wire.head(f"Content-Length: {len(pull)}", "Content-Length: 3") + pull,
        b"POST /api/v1/dispatch/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthor",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
    ]

    for request in broken:
        status, _ = wire.send(request, shuts=True)
        assert status == 0 or 400 <= status < 500, request[:60]

    listed = wire.head(method="GET", path="/api/v1/dispatches/?executor=uid_chloe")
    assert wire.send(listed) == (200, {"next": None, "results": []})
