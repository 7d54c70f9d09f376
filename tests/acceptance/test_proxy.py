"""What the proxy by taskplatform/deploy/nginx.conf lets through, whatever is behind it."""

from __future__ import annotations

import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deploy import HOST, INSIDE, OUTSIDE, ask, await_listening, proxy_command
from tests.processes import RunningProcess, eventually, free_port
from tests.servers import binary
from tests.stub_server import answering

HEADERS = {"Host": HOST}
BODY = b"x" * 2000
# Its answer has long headers.
LONG = "/long"
BUSY = "/static/x?busy=text/plain"


class Plain(BaseHTTPRequestHandler):
    """A web server that compresses nothing: what a path ends with is the type of its content."""

    def do_GET(self) -> None:
        self.send_response(429 if self.path == BUSY else 200)
        self.send_header("Content-Type", self.path.rpartition("=")[2])
        self.send_header("Content-Length", str(len(BODY)))
        if self.path == LONG:
            self.send_header("X-Long", "x" * 10_000)
        if self.path == BUSY:
            self.send_header("Retry-After", "7")
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


class Ports(NamedTuple):
    clear: int
    tls: int
    plain: int


@pytest.fixture(scope="module")
def behind() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Plain)
    with answering(server):
        yield server.server_address[1]


@contextmanager
def running(folder: Path, behind: int, **limits: str) -> Iterator[Ports]:
    ports = Ports(*(free_port() for _ in Ports._fields))
    command = proxy_command(binary("nginx"), folder, **ports._asdict(), behind=behind, **limits)
    process = RunningProcess(command, {}, folder / "output.log")
    try:
        await_listening(process, ports.plain)
        yield ports
    finally:
        process.end()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, behind: int) -> Iterator[Ports]:
    with running(tmp_path_factory.mktemp("proxy"), behind) as ports:
        yield ports


def statuses(port: int, path: str, times: int, *callers: str, key: str = "") -> Counter[int]:
    headers = HEADERS | ({"Authorization": f"Bearer {key}"} if key else {})
    return Counter(
        ask(port, "GET", path, headers, caller=caller).status
        for _time in range(times)
        for caller in callers or (OUTSIDE,)
    )


def test_what_comes_without_tls_is_sent_to_it_but_for_keys(proxy: Ports) -> None:
    page = ask(proxy.clear, "GET", "/admin/?a=1", HEADERS)
    assert (page.status, page.headers["Location"]) == (301, f"https://{HOST}/admin/?a=1")
    for path in ("/api/v1/jobs/", "/asyncflow/g1/ping"):
        assert ask(proxy.clear, "GET", path, HEADERS).status == 403


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_of_today_is_spoken(proxy: Ports, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", proxy.tls), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as client,
    ):
        assert client.version() == version.name.replace("_", ".")


def test_figures_and_documents_are_for_the_inside(proxy: Ports, subtests: pytest.Subtests) -> None:
    for path in ("/metrics", "/health/ready", "/api/schema/", "/api/docs/"):
        with subtests.test(path=path):
            assert ask(proxy.plain, "GET", path, HEADERS).status == 403
            # Whoever says so is not inside.
            claimed = HEADERS | {"X-Forwarded-For": INSIDE}
            assert ask(proxy.plain, "GET", path, claimed).status == 403
            assert ask(proxy.plain, "GET", path, HEADERS, caller=INSIDE).status == 200
    assert ask(proxy.plain, "GET", "/health/live", HEADERS).status == 200


def test_what_comes_plain_goes_out_compressed(proxy: Ports, subtests: pytest.Subtests) -> None:
    for kind, packed in (
        *((kind, True) for kind in ("text/html", "text/css", "text/javascript", "text/csv")),
        *((f"application/{kind}", True) for kind in ("json", "problem+json", "javascript")),
        ("image/svg+xml", True),
        ("image/png", False),
    ):
        with subtests.test(kind=kind):
            accepting = HEADERS | {"Accept-Encoding": "gzip"}
            answer = ask(proxy.plain, "GET", f"/static/x?type={kind}", accepting)
            assert (answer.headers.get("Content-Encoding") == "gzip") == packed
            assert ("Accept-Encoding" in answer.headers.get("Vary", "")) == packed
            alone = ask(proxy.plain, "GET", f"/static/x?type={kind}", HEADERS)
            assert "Content-Encoding" not in alone.headers


def test_more_passwords_than_anybody_types_are_refused(proxy: Ports) -> None:
    tried = statuses(proxy.plain, "/admin/login/", 25)
    assert tried[200] in range(21, 24) and tried[429] == 25 - tried[200]
    # They are one count, of one address, and keep nobody from the pages.
    assert statuses(proxy.plain, "/admin/password_change/", 2) == {429: 2}
    assert statuses(proxy.plain, "/admin/", 2) == {200: 2}
    assert statuses(proxy.plain, "/admin/login/", 2, INSIDE) == {200: 2}


def test_what_one_address_and_one_key_ask_is_limited(tmp_path: Path, behind: int) -> None:
    """By rates that a test reaches, in place of those of the file."""
    with running(tmp_path, behind, calls="1r/m") as ports:
        assert statuses(ports.plain, "/api/v1/jobs/", 3) == {200: 1, 429: 2}
        refused = ask(ports.plain, "GET", "/api/v1/jobs/", HEADERS)
        assert refused.headers.get_all("Retry-After") == ["2"]
        assert statuses(ports.plain, "/api/v1/jobs/", 1, INSIDE) == {200: 1}
    with running(tmp_path, behind, keys="1r/m") as ports:
        asked = statuses(ports.plain, "/api/v1/jobs/", 2, OUTSIDE, INSIDE, key="shop.1")
        assert asked == {200: 1, 429: 3}
        assert statuses(ports.plain, "/api/v1/jobs/", 1, key="shop.2") == {200: 1}
        assert statuses(ports.plain, "/admin/", 3) == {200: 3}


def test_only_refusals_of_the_proxy_get_its_time_to_try_again(proxy: Ports) -> None:
    busy = ask(proxy.plain, "GET", BUSY, HEADERS)
    assert (busy.status, busy.headers.get_all("Retry-After")) == (429, ["7"])
    assert "Retry-After" not in ask(proxy.plain, "GET", "/admin/", HEADERS).headers


def test_long_headers_of_an_answer_are_no_failure_of_its_server(proxy: Ports) -> None:
    """nginx would leave it alone for 10 seconds, so that a few such answers would stop all."""
    assert statuses(proxy.plain, LONG, 4) == {200: 4}
    assert statuses(proxy.plain, "/admin/", 4) == {200: 4}


def test_requests_under_way_of_one_address_are_limited(tmp_path: Path, behind: int) -> None:
    """As bodies are that come byte by byte, of which nobody sees the end."""
    body = f"POST /api/v1/jobs/ HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 9000000\r\n\r\n{{"
    with running(tmp_path, behind, callers="1") as ports, ExitStack() as slow:

        def is_refused() -> bool:
            # Of two at the same moment nginx may have refused the slow one.
            slow.close()
            one = slow.enter_context(
                socket.create_connection(("127.0.0.1", ports.plain), source_address=(OUTSIDE, 0))
            )
            one.sendall(body.encode())
            return statuses(ports.plain, "/admin/", 1) == {429: 1}

        eventually(is_refused)
        assert statuses(ports.plain, "/admin/", 1, INSIDE) == {200: 1}
        slow.close()
        eventually(lambda: statuses(ports.plain, "/admin/", 1) == {200: 1})
