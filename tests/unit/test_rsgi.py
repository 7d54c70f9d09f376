"""A request is complete before a thread works on it."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from granian.rsgi import ProtocolClosed

from apps.common.api.problems import REFUSED
from tests.addresses import every_address
from tests.processes import eventually

# Importing it names the settings for this process, which other tests want unnamed.
with patch.dict(os.environ):
    from taskplatform import rsgi, sign_ins
    from taskplatform.rsgi import Application, Body


class Headers:
    """As granian passes them on."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def items(self) -> list[tuple[str, str]]:
        return self._pairs


class Protocol:
    """Receives these parts of a body; None is silence that does not end."""

    def __init__(self, *parts: bytes | None, breaks: bool = False) -> None:
        self._parts = parts
        self._breaks = breaks
        self.sent: tuple[Any, ...] = ()

    async def __call__(self) -> bytes:
        body = b"".join([part async for part in self])
        if self._breaks:
            raise ProtocolClosed
        return body

    async def __aiter__(self) -> Any:
        for part in self._parts:
            if part is None:
                await asyncio.sleep(3600)
            yield part

    def response_empty(self, *sent: Any) -> None:
        self.sent = sent

    response_bytes = response_file = response_empty


class Caller:
    """Sends one request and keeps what the application saw."""

    def __init__(self) -> None:
        self.environ: dict[str, Any] = {}
        self.body = b""
        self.headers: list[tuple[str, str]] = []
        self.answer: Iterable[bytes] = [b"o", b"k"]
        self.application = Application(self.wsgi, threads=1, trusted=["10.0.0.4"])

    def wsgi(self, environ: dict[str, Any], begin: Callable[..., None]) -> Iterable[bytes]:
        self.environ = environ
        self.body = environ["wsgi.input"].read()
        begin("200 OK", [("Content-Type", "text/plain")])
        return self.answer

    def send(
        self, *parts: bytes | None, breaks: bool = False, path: str = "/caf\xe9/"
    ) -> tuple[Any, ...]:
        """Status, headers and body of the answer."""
        scope: Any = SimpleNamespace(
            method="POST",
            path=path,
            query_string="a=%20&b",
            http_version="1.1",
            scheme="http",
            server="10.0.0.2:8000",
            client="10.0.0.4:50000",
            headers=Headers(self.headers),
        )
        protocol: Any = Protocol(*parts, breaks=breaks)
        # A thread of its own: a browser under test leaves its event loop in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self.application.__rsgi__(scope, protocol)).result()
        return protocol.sent

    def length(self, number: int) -> None:
        self.headers.append(("content-length", str(number)))

    def chunked(self) -> None:
        self.headers.append(("transfer-encoding", "chunked"))


@pytest.fixture
def caller() -> Caller:
    return Caller()


def test_body_in_parts_arrives_whole_with_its_length(caller: Caller) -> None:
    caller.chunked()
    caller.headers.append(("content-type", "application/json"))

    sent = caller.send(b'{"a"', b": 1}", b"")

    assert caller.body == b'{"a": 1}'
    assert caller.environ["CONTENT_LENGTH"] == "8"
    assert caller.environ["CONTENT_TYPE"] == "application/json"
    assert caller.environ["PATH_INFO"] == "/caf\xc3\xa9/"
    assert caller.environ["QUERY_STRING"] == "a=%20&b"
    assert (caller.environ["SERVER_NAME"], caller.environ["SERVER_PORT"]) == ("10.0.0.2", "8000")
    assert sent == (200, [("content-type", "text/plain")], b"ok")


def test_request_without_a_body_is_not_waited_for(caller: Caller) -> None:
    assert caller.send(None)[0] == 200
    assert "CONTENT_LENGTH" not in caller.environ


def test_repeated_headers_are_joined_and_those_with_underscores_are_not_read(
    caller: Caller,
) -> None:
    caller.headers = [
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("accept", "text/html"),
        ("accept", "*/*"),
        ("x-forwarded-for", "203.0.113.1"),
        ("x_forwarded_for", "198.51.100.1"),
        ("x_forwarded_proto", "https"),
        ("content_length", "5"),
    ]

    caller.send(None)

    headers = {name: text for name, text in caller.environ.items() if name.startswith("HTTP_")}
    assert headers == {
        "HTTP_COOKIE": "a=1;b=2",
        "HTTP_ACCEPT": "text/html,*/*",
        "HTTP_X_FORWARDED_FOR": "203.0.113.1",
    }
    assert caller.environ["REMOTE_ADDR"] == "203.0.113.1"


@pytest.mark.parametrize("length", [10, rsgi.MEMORY_BYTES + 1])
def test_request_that_breaks_off_in_the_middle_is_not_carried_out(
    caller: Caller, length: int
) -> None:
    caller.length(length)

    assert caller.send(b"12345", breaks=True) == (400, [("connection", "close")])
    assert caller.environ == {}
    assert Body.in_files == 0


@pytest.mark.parametrize("length", [10, rsgi.MEMORY_BYTES + 1])
def test_body_that_takes_too_long_ends_the_connection_and_needs_no_thread(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(rsgi, "BODY_SECONDS", 0.01)
    caller.length(length)

    assert caller.send(b"12345", None) == (408, [("connection", "close")])
    assert caller.environ == {}


@pytest.mark.parametrize("declared", [True, False])
def test_too_large_body_is_refused_and_not_read_on(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, declared: bool
) -> None:
    monkeypatch.setattr(rsgi, "BODY_BYTES", 10)
    if declared:
        caller.length(11)
        _, headers, _ = caller.send(None)
    else:
        caller.chunked()
        _, headers, _ = caller.send(b"123456", b"123456", None)

    assert caller.environ[REFUSED].status == 413
    assert caller.body == b""
    assert ("connection", "close") in headers


def test_large_bodies_share_a_bounded_space_and_give_it_back(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rsgi, "MEMORY_BYTES", 10)
    monkeypatch.setattr(rsgi, "FILES_BYTES", 30)
    caller.length(25)
    caller.send(b"x" * 25)
    assert caller.body == b"x" * 25

    of_others = Body()
    of_others.add(b"y" * 20)
    caller.send(b"x" * 25)

    assert caller.environ[REFUSED].status == 503
    of_others.close()
    assert Body.in_files == 0


def test_whole_file_is_left_to_the_server_and_closed(caller: Caller, tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    path.write_bytes(b"<svg/>")
    file = path.open("rb")
    caller.answer = rsgi._File(file)

    assert caller.send()[2] == str(path)
    assert file.closed


def test_each_address_of_a_file_takes_turns(subtests: pytest.Subtests) -> None:
    files = [
        "/" + re.sub("<.*?>", "7", address)
        for address, _view in every_address()
        if re.search(r"/(export|csv)/$", address)
    ]
    assert len(files) > 5
    for path in files:
        with subtests.test(path):
            assert rsgi._FILES.fullmatch(path)


@pytest.mark.parametrize(
    "path",
    [
        "/admin/login/",
        "/admin/password_change/",
        "/admin/auth/user/add/",
        "/admin/auth/user/7/password/",
        "/admin/jobs/job/export/",
        "/admin/reports/csv/",
        "/admin/bulk/bulkrun/7/csv/",
    ],
)
def test_what_takes_long_takes_no_thread_from_others(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """One at a time, while others are answered; too many are refused."""
    for places in ("MAX_HASHES", "MAX_FILES", "MAX_FILES_OF_ADDRESS"):
        monkeypatch.setattr(rsgi, places, 3)
    monkeypatch.setattr(sign_ins, "refusal", lambda environ: None)
    begun, go_on = threading.Semaphore(0), threading.Event()
    usual = caller.wsgi

    def wsgi(environ: dict[str, Any], begin: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == path and REFUSED not in environ:
            begun.release()
            assert go_on.wait(10)
        return usual(environ, begin)

    caller.application = Application(wsgi, threads=1, trusted=[])
    with ThreadPoolExecutor(3) as people:
        signing_in = [people.submit(caller.send, path=path) for _ in range(3)]
        assert begun.acquire(timeout=10)
        turns = caller.application.passwords, caller.application.files
        eventually(lambda: sum(each.placed.total() for each in turns) == 3)

        assert caller.send(path="/api/v1/dispatch/")[0] == 200
        assert REFUSED not in caller.environ
        caller.send(path=path)
        assert caller.environ[REFUSED].status == 503
        assert not begun.acquire(blocking=False)
        go_on.set()
        assert [each.result()[0] for each in signing_in] == [200] * 3
    assert not any(each.placed for each in turns)


def test_address_takes_not_all_places_of_those_who_wait(caller: Caller) -> None:
    for turns, path in (
        (caller.application.passwords, "/admin/password_change/"),
        (caller.application.files, "/admin/jobs/job/export/"),
    ):
        turns.most_of_address = 2
        turns.placed.update({"203.0.113.1": 2, "203.0.113.2": 1})
        for address, refused in (("203.0.113.1", True), ("203.0.113.2", False)):
            caller.headers = [("x-forwarded-for", address)]
            caller.send(path=path)
            assert (REFUSED in caller.environ) == refused


def test_sign_in_that_a_limit_refuses_needs_no_turn_and_others_keep_their_body(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer leaves while the thread of the hashes is busy."""
    body = b"username=vera&password=x"
    busy = threading.Event()
    caller.application.passwords.thread.submit(busy.wait, 10)
    monkeypatch.setattr(sign_ins.throttles, "seconds_left", lambda name, rate: 7)
    caller.length(len(body))
    caller.send(body, path="/admin/login/")
    assert caller.environ[REFUSED].status == 429
    busy.set()

    monkeypatch.setattr(sign_ins.throttles, "seconds_left", lambda name, rate: None)
    caller.send(body, path="/admin/login/")
    assert caller.body == body
