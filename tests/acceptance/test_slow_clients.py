"""Callers who send slowly or not at all delay nobody else: at the web server, and at the proxy in
front of it as taskplatform/docs/deployment.md has it."""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import Template
from tests.flood import KINDS, flood, slowest
from tests.processes import ROOT, RunningProcess, eventually, free_port
from tests.servers import binary
from tests.serving import await_answer, web_command

Start = Callable[..., RunningProcess]

# What the platform promises, beside what the machine of the test takes by itself.
DELAY_SECONDS = 1.0
# Other tests on the machine may hold one round up; slow callers do so in every round.
ROUNDS = 3
EACH = [(kind,) for kind in KINDS]
HOST = "tasks.example.org"
# Other addresses than that of the proxy, whose word counts.
OUTSIDE, INSIDE = "127.0.0.2", "127.0.0.3"
# What many systems allow a process that asks for no more.
FEW_FILES = ["sh", "-c", 'ulimit -Sn 1024 && exec "$@"', "sh"]


@pytest.fixture
def template_database(planned_database: Template) -> str:
    return planned_database.url


@pytest.fixture
def headers(planned_database: Template) -> dict[str, str]:
    """Of a call that may pull."""
    return {
        "Host": HOST,
        "Authorization": f"Bearer {planned_database.key}",
        "Content-Type": "application/json",
    }


@pytest.fixture
def web(start: Start) -> int:
    """The port of a web server that stands alone."""
    port, command = web_command()
    await_answer(start(*FEW_FILES, *command, ALLOWED_HOSTS=f"127.0.0.1,{HOST}"), port)
    return port


@pytest.fixture
def clear() -> int:
    """The port of the proxy for what comes without TLS."""
    return free_port()


@pytest.fixture
def proxy(start: Start, tmp_path: Path, clear: int) -> int:
    """The port of the proxy, with a web server behind it."""
    behind, command = web_command()
    web = start(
        *command,
        HTTPS="1",
        TRUSTED_PROXIES="127.0.0.1",
        ALLOWED_HOSTS=f"127.0.0.1,{HOST}",
        # One process counts wrong keys by itself then, and none of them is missed.
        REDIS_URL="",
    )
    await_answer(web, behind)
    port = free_port()
    folder = tmp_path / "proxy"
    folder.mkdir()
    (folder / "nginx.conf").write_text(proxy_configuration(folder, port, behind, clear))
    arguments = ["-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
    nginx = start(binary("nginx"), *arguments)

    def listens() -> bool:
        assert nginx.process.poll() is None, nginx.output
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    eventually(listens)
    return port


def proxy_configuration(folder: Path, port: int, behind: int, clear: int) -> str:
    """That of the README, without TLS, and with places where everybody may write."""
    readme = (ROOT / "taskplatform" / "docs" / "deployment.md").read_text()
    (text,) = re.findall(r"```nginx\n(.*?)```", readme, re.DOTALL)
    temporary = "".join(
        f"    {kind}_temp_path {folder / kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    for old, new in (
        ("user www-data;", "user root;" if os.geteuid() == 0 else ""),
        ("/run/nginx.pid", str(folder / "nginx.pid")),
        ("/var/log/nginx", str(folder)),
        ("listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        ("listen 80;", f"listen 127.0.0.1:{clear};"),
        ("allow 10.0.0.0/8;", f"allow {INSIDE};"),
        ("server 10.0.0.2:8000;", f"server 127.0.0.1:{behind};"),
        ("http {\n", f"http {{\n{temporary}"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    return re.sub(r" *ssl_certificate.*\n", "", text)


def ask(
    port: int,
    method: str,
    path: str,
    headers: dict[str, str],
    body: str | bytes | None = None,
    caller: str = OUTSIDE,
) -> http.client.HTTPResponse:
    """The answer on a connection of its own, its body read."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", port, timeout=30, source_address=(caller, 0)
    )
    with closing(connection) as client:
        client.request(method, path, body, headers)
        answer = client.getresponse()
        answer.read()
    return answer


@pytest.mark.parametrize(
    ("front", "callers", "floods"),
    [
        # More of each kind than the server has threads.
        pytest.param("web", 40, [tuple(KINDS)], id="web"),
        pytest.param("web", 1000, EACH, id="web-1000", marks=pytest.mark.long),
        pytest.param("proxy", 1000, EACH, id="proxy-1000", marks=pytest.mark.long),
    ],
)
def test_slow_callers_delay_nobody(
    request: pytest.FixtureRequest,
    headers: dict[str, str],
    front: str,
    callers: int,
    floods: list[tuple[str, ...]],
) -> None:
    """Health checks, pages and pulls go on beside so many connections of each kind."""
    port: int = request.getfixturevalue(front)

    def probe() -> None:
        assert ask(port, "GET", "/health/ready", headers).status == 200
        assert ask(port, "GET", "/admin/", headers).status == 302
        pull = json.dumps({"uid": "uid_ben"})
        assert ask(port, "POST", "/api/v1/dispatch/", headers, pull).status == 200

    alone = slowest(probe, seconds=1)
    delayed = dict.fromkeys(floods, math.inf)
    for _round in range(ROUNDS):
        for kinds in list(delayed):
            with ExitStack() as connected:
                for kind in kinds:
                    connected.enter_context(flood(port, kind, callers))
                delayed[kinds] = slowest(probe, seconds=1) - alone
            if delayed[kinds] <= DELAY_SECONDS:
                del delayed[kinds]

    assert delayed == {}


def test_proxy_passes_requests_on_and_says_who_sent_them(
    proxy: int, headers: dict[str, str]
) -> None:
    pull = json.dumps({"uid": "uid_ben"}).encode()
    page = ask(proxy, "GET", "/admin/", headers)
    assert (page.status, page.headers["Location"]) == (302, "/admin/login/?next=/admin/")
    assert page.headers["Strict-Transport-Security"]
    named = ask(proxy, "POST", "/api/v1/dispatch/", {**headers, "X-Request-Id": "mine-1"}, pull)
    assert (named.status, named.headers["X-Request-Id"]) == (200, "mine-1")
    assert ask(proxy, "HEAD", "/health/live", headers).status == 200
    in_chunks = {**headers, "Transfer-Encoding": "chunked"}
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(pull), pull)
    assert ask(proxy, "POST", "/api/v1/dispatch/", in_chunks, chunks).status == 200
    too_long = {**headers, "Content-Length": str(10 * 1024 * 1024)}
    assert ask(proxy, "POST", "/api/v1/dispatch/", too_long, b"").status == 413
    # The one who tries wrong keys is counted, whatever addresses the headers claim.
    tried = [
        ask(
            proxy,
            "GET",
            "/api/v1/jobs/",
            {
                **headers,
                "Authorization": f"Bearer nobody-222222.{'x' * 43}",
                "X-Forwarded-For": f"203.0.113.{number}",
                "X_Forwarded_For": f"198.51.100.{number}",
                "X_Forwarded_Proto": "http",
            },
        ).status
        for number in range(45)
    ]
    assert set(tried) == {401, 429}


def test_proxy_keeps_out_what_is_not_for_the_world(
    proxy: int, clear: int, headers: dict[str, str]
) -> None:
    """No TLS, figures of the whole platform, and more sign-ins than anybody types."""
    page = ask(clear, "GET", "/admin/?a=1", headers)
    assert (page.status, page.headers["Location"]) == (301, f"https://{HOST}/admin/?a=1")
    for path in ("/api/v1/jobs/", "/asyncflow/g1/ping"):
        assert ask(clear, "GET", path, headers).status == 403
    for path in ("/metrics", "/api/schema/", "/api/docs/"):
        assert ask(proxy, "GET", path, headers).status == 403, path
        assert ask(proxy, "GET", path, headers, caller=INSIDE).status != 404, path
    assert ask(proxy, "GET", "/api/schema/", headers, caller=INSIDE).status == 200
    tried = [ask(proxy, "GET", "/admin/login/", headers).status for _ in range(25)]
    assert (429 in tried[:20], tried[-1]) == (False, 429)
    assert ask(proxy, "GET", "/admin/login/", headers, caller=INSIDE).status != 429
    assert ask(proxy, "GET", "/health/live", headers).status == 200
