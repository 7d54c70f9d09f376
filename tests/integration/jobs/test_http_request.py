"""The handler http_request: what it calls, what it makes of answers, and what it never reaches."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import override_settings

from apps.jobs.handlers import Fail, Retry
from apps.jobs.handlers import http as http_handler
from apps.jobs.handlers.contract import MAX_WAIT
from apps.jobs.handlers.http import http_request
from tests.frozen import FrozenClock
from tests.stub_server import answering

CTX = SimpleNamespace(job_id=42)


class _Site(BaseHTTPRequestHandler):
    seen: list[tuple[str, str, dict[str, str], bytes]]
    lines: list[tuple[str, str]]

    def log_message(self, *_: Any) -> None: ...

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.lines += self.headers.items()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen.append((self.command, self.path, headers, body))
        if self.path == "/drip":
            self._drip()
            return
        status = int(self.path.strip("/").partition("?")[0] or 200)
        text = b"x" * 200_000 if status == 299 else b"fine \x00"
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        if status == 302:
            self.send_header("Location", "/200")
        if status == 429:
            self.send_header("Retry-After", "7")
        if status == 503:
            self.send_header("Retry-After", "9" * 5000)
        self.end_headers()
        self.wfile.write(text)

    def _drip(self) -> None:
        """Goes on for a minute, and never is silent for long."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        try:
            for _ in range(1200):
                self.wfile.write(b"X-More: 1\r\n"[:1])
                self.wfile.flush()
                time.sleep(0.05)
            self.seen.append(("", "/over", {}, b""))
        except OSError:
            pass

    do_GET = do_POST = _answer  # noqa: N815


@pytest.fixture
def site() -> Iterator[Any]:
    handler = type("Site", (_Site,), {"seen": [], "lines": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    port = server.server_port
    hosts = (f"localhost:{port}", f"127.0.0.1:{port}")
    allowed = override_settings(JOB_HTTP_HOSTS=hosts, JOB_HTTP_NETWORKS=("127.0.0.1",))
    with answering(server), allowed:
        yield SimpleNamespace(
            url=f"http://127.0.0.1:{port}", port=port, seen=handler.seen, lines=handler.lines
        )


def call(url: str, **context: Any) -> Any:
    return http_request({"url": url, **context}, CTX)


def test_request_is_sent_with_its_body_and_the_number_of_the_job(site: Any) -> None:
    answer = call(f"{site.url}/201?a=1", method="POST", json={"a": "é"}, headers={"X-Trace": "t1"})

    [(method, path, headers, body)] = site.seen
    assert (method, path, json.loads(body)) == ("POST", "/201?a=1", {"a": "é"})
    assert headers["idempotency-key"] == "42"
    assert headers["content-type"] == "application/json"
    assert headers["x-trace"] == "t1"
    assert headers["host"] == f"127.0.0.1:{site.port}"
    assert answer == {"status": 201, "body": "fine \ufffd"}


def test_header_of_the_job_takes_the_place_of_the_usual_one(site: Any) -> None:
    for name in ("Content-Type", "content-type"):
        site.lines.clear()
        call(f"{site.url}/200", method="POST", text="<a/>", headers={name: "application/xml"})
        assert [v for n, v in site.lines if n.lower() == "content-type"] == ["application/xml"]


def test_host_header_omits_the_usual_port_of_its_scheme(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def plain(target: http_handler.Target, seconds: float) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", site.port), timeout=seconds) as stream:
            yield stream

    monkeypatch.setattr(http_handler, "_socket", plain)
    for scheme, port, host in (
        ("http", 80, "shop.example"),
        ("https", 443, "shop.example"),
        ("http", 443, "shop.example:443"),
        ("https", 80, "shop.example:80"),
    ):
        target = http_handler.Target(scheme, "shop.example", port, "/200")
        http_handler.send(target, "GET", {}, None, 60)

        assert site.seen[-1][2]["host"] == host


def test_long_answer_is_cut(site: Any) -> None:
    assert len(call(f"{site.url}/299")["body"]) == 65_536


def test_answer_that_may_pass_is_tried_again_and_others_fail(site: Any) -> None:
    """Redirects are not followed. Whoever sees the job reads the error; what a foreign server says
    is for fewer, so the body of an answer is no part of it."""
    waits = {408: None, 425: None, 429: timedelta(seconds=7), 500: None, 503: MAX_WAIT}
    statuses = (*waits, 302, 400, 404, 410)
    for status in statuses:
        kind = Retry if status in waits else Fail
        with pytest.raises(kind, match=f"answered {status}") as caught:
            call(f"{site.url}/{status}")
        said = caught.value.detail["body"]
        assert said and said not in str(caught.value)
        if isinstance(caught.value, Retry):
            assert (caught.value.after, caught.value.is_asked) == (waits[status], True), status
    assert [path for _, path, *_ in site.seen] == [f"/{status}" for status in statuses]


def test_wait_is_read_in_both_forms_of_its_standard(
    frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    """By the clock of the other side, where that is shown. RFC 9110, 10.2.3."""
    now, theirs = "Mon, 02 Mar 2026 09:00:00 GMT", "Mon, 02 Mar 2026 11:00:00 GMT"
    for text, date, seconds in (
        ("120", None, 120.0),
        (" 120 ", None, 120.0),
        ("Mon, 02 Mar 2026 09:00:30 GMT", None, 30.0),
        ("Monday, 02-Mar-26 09:00:30 GMT", None, 30.0),
        ("Mon Mar  2 09:00:30 2026", now, 30.0),
        ("Mon, 02 Mar 2026 11:00:30 GMT", theirs, 30.0),
        ("Mon, 02 Mar 2026 10:00:00 GMT", theirs, 0.0),
        ("soon", None, None),
        ("Mon, 02 Mar 99999999999999999999 09:00:30 GMT", None, None),
        ("Mon, 02 Mar 2026 09:00:30 -9999999999999999", None, None),
        ("-5", None, None),
        ("12.5", None, None),
        ("", None, None),
    ):
        with subtests.test(text=text, date=date):
            headers = {"retry-after": text} | ({"date": date} if date else {})
            assert http_handler.wait_of(headers) == seconds
    assert http_handler.wait_of({}) is None


def test_server_that_drips_is_cut_off_in_time(site: Any) -> None:
    with pytest.raises(Retry, match=r"did not answer within 0\.4 s"):
        call(f"{site.url}/drip", timeout=0.4)
    assert "/over" not in [path for _, path, *_ in site.seen]


def test_name_is_resolved_once_and_its_address_dialled(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that points elsewhere at the second resolution gains nothing."""
    resolved = []

    def resolve(host: str, port: int, *_: Any, **__: Any) -> Any:
        resolved.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(http_handler.socket, "getaddrinfo", resolve)

    with override_settings(JOB_HTTP_HOSTS=(f"shop.example:{site.port}",)):
        assert call(f"http://shop.example:{site.port}/200")["status"] == 200

    assert resolved[0] == "shop.example"
    assert set(resolved[1:]) <= {"127.0.0.1"}
    assert site.seen[0][2]["host"] == f"shop.example:{site.port}"


def test_listed_name_at_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fe80::1"):
        found = [(0, 0, 6, "", (each, 80)) for each in ("93.184.216.34", address)]
        monkeypatch.setattr(http_handler.socket, "getaddrinfo", lambda *_, found=found, **__: found)

        with (
            override_settings(JOB_HTTP_HOSTS=("shop.example",)),
            pytest.raises(Fail, match="is not public; name its network in JOB_HTTP_NETWORKS"),
        ):
            call("http://shop.example/")


@override_settings(JOB_HTTP_HOSTS=("shop.example",))
def test_address_that_is_not_listed_is_not_called(subtests: pytest.Subtests) -> None:
    for url, said in (
        ("http://other.example/", "other.example port 80 is not allowed"),
        ("http://shop.example:81/", "shop.example port 81 is not allowed"),
        ("http://shop.example@other.example/", "user or password"),
        ("http://u:p@shop.example/", "user or password"),
        ("ftp://shop.example/", "is no address of the web"),
        ("file:///etc/passwd", "is no address of the web"),
        ("//shop.example/", "is no address of the web"),
        ("http://[::1/", "is no address"),
        ("http://shop.example:99999/", "is no address"),
        ("http://shop.example/a b", "quote the rest"),
        ("http://shop.example/é", "quote the rest"),
        ("http://shop.example/a\x7f", "quote the rest"),
    ):
        with subtests.test(url=url), pytest.raises(Fail, match=said):
            call(url)


def test_headers_of_the_connection_and_of_who_asks_are_not_for_jobs(site: Any) -> None:
    of_connection = ("Host", "content-length", "Proxy-Authorization", "Connection")
    of_caller = ("Via", "forwarded", "X-Real-IP", "X-Forwarded-For", "x-forwarded-proto")
    of_lenient_servers = ("X_Real_IP", "x-forwarded_for", "Content_Length")
    for name in (*of_connection, *of_caller, *of_lenient_servers):
        with pytest.raises(Fail, match="is not for jobs to set"):
            call(site.url, headers={name: "x"})
    for blank in (" ", "\t", "\r", "\x0b", ":", "\x00", "é"):
        for name in ("Transfer-Encoding", "Content-Length", "Host", "X"):
            with pytest.raises(Fail, match="is no name of a header"):
                call(site.url, headers={f"{name}{blank}": "x"})
    with pytest.raises(Fail, match="is no name of a header"):
        call(site.url, headers={"": "x"})
    assert site.seen == []


@pytest.mark.parametrize("sign", ["\n", "\r\nX-B: 2", "\n folded", "\x00", "\x7f", "北"])
def test_header_that_cannot_be_sent_is_named_without_its_value(site: Any, sign: str) -> None:
    """Secrets that are read from a file end with a line break."""
    with pytest.raises(Fail, match="header X-Key") as caught:
        call(site.url, headers={"X-Key": f"s3cr3t{sign}"})
    assert "s3cr3t" not in str(caught.value)
    assert site.seen == []


def test_value_of_a_header_may_have_all_that_headers_have(site: Any) -> None:
    value = 'a\tb "c" é~'
    call(f"{site.url}/200", headers={"X-A": value})
    assert dict(site.lines)["X-A"] == value


# What a broken or hostile server sends without an end, or in place of an answer.
BROKEN: dict[str, tuple[bytes, bytes]] = {
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
    "negative part": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nx\r\n", b""),
    "no number": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n", b""),
    "another protocol": (b"SSH-2.0-OpenSSH\r\n", b""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_answer_that_is_none_is_tried_again_and_costs_little(name: str) -> None:
    begin, again = BROKEN[name]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            stream, _peer = server.accept()
            with stream, suppress(OSError):
                stream.recv(65_536)
                stream.sendall(begin)
                while again:
                    stream.sendall(again * 1000)

        thread = threading.Thread(target=answer)
        thread.start()
        hosts = override_settings(
            JOB_HTTP_HOSTS=(f"127.0.0.1:{port}",), JOB_HTTP_NETWORKS=("127.0.0.1",)
        )
        began = time.thread_time()
        with hosts, pytest.raises(Retry, match="broke off"):
            call(f"http://127.0.0.1:{port}/", timeout=60)
        assert time.thread_time() - began < 5
        thread.join()


def test_nobody_at_the_address_is_tried_again(site: Any) -> None:
    # Bound, so that nobody else can listen there meanwhile, and deaf itself.
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        refused = pytest.raises(Retry, match=r"127\.0\.0\.1 broke off: Connection refused$")
        with override_settings(JOB_HTTP_HOSTS=(f"127.0.0.1:{port}",)), refused:
            call(f"http://127.0.0.1:{port}/")


def test_proxies_of_the_environment_are_not_used(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert call(f"{site.url}/200")["status"] == 200
