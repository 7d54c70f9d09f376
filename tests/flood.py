"""Callers who send nothing, half a request, or one byte at a time, and many of them."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

_DRIP_SECONDS = 1.0

_POST = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
_JSON = _POST.format(path="/api/v1/dispatch/") + "Content-Type: application/json\r\n"
_FORM = (
    _POST.format(path="/admin/login/?next=/admin/")
    + "Cookie: sessionid=0123456789abcdefghijklmnopqrstuv; csrftoken=x\r\n"
    + "Content-Type: multipart/form-data; boundary=part\r\nContent-Length: 5000\r\n\r\n"
    + '--part\r\nContent-Disposition: form-data; name="username"\r\n\r\nad'
)

# What each caller sends at once, and whether it goes on byte by byte.
KINDS = {
    "silent": ("", False),
    "half a line": ("GET /admin/lo", False),
    "half of the headers": (_JSON + "Authorization: Bea", False),
    "headers byte by byte": (_JSON + "X-A: ", True),
    "no body": (_JSON + "Content-Length: 500\r\n\r\n", False),
    "half a body": (_JSON + 'Content-Length: 500\r\n\r\n{"uid":', False),
    "half a chunk": (_JSON + 'Transfer-Encoding: chunked\r\n\r\n5\r\n{"u', False),
    "a body byte by byte": (_JSON + "Content-Length: 50000\r\n\r\n{", True),
    "half a form with a cookie": (_FORM, False),
    "a form byte by byte": (_FORM, True),
}


def allow_files(number: int) -> None:
    """Let this process open so many files, if the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, hard), hard))


@contextmanager
def flood(port: int, kind: str, number: int) -> Iterator[None]:
    """That many callers of the kind are connected, as long as the server keeps them."""
    allow_files(number + 500)
    text, goes_on = KINDS[kind]
    over = threading.Event()
    with ExitStack() as opened:
        wires = []
        for _ in range(number):
            wire = opened.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            wire.sendall(text.encode())
            wires.append(wire)

        def drip() -> None:
            while not over.wait(_DRIP_SECONDS):
                for wire in wires:
                    # The server may have closed some.
                    with suppress(OSError):
                        wire.send(b"x")

        dripping = threading.Thread(target=drip)
        if goes_on:
            dripping.start()
        try:
            yield
        finally:
            over.set()
            if goes_on:
                dripping.join()


def slowest(probe: object, *, seconds: float) -> float:
    """The longest time that the call took, repeated for so long."""
    assert callable(probe)
    longest = 0.0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.monotonic()
        probe()
        longest = max(longest, time.monotonic() - begun)
    return longest
