"""Callers who send slowly or not at all delay nobody else: at the web server, and at the proxy in
front of it by taskplatform/deploy/nginx.conf."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.conftest import Template
from tests.deploy import HOST, INSIDE, ask, await_listening, proxy_command
from tests.flood import KINDS, flood, slowest
from tests.processes import RunningProcess, free_port
from tests.servers import binary
from tests.serving import await_answer, server_command, web_command

Start = Callable[..., RunningProcess]

# What the platform promises, beside what the machine of the test takes by itself.
DELAY_SECONDS = 1.0
# Other tests on the machine may hold one round up; slow callers do so in every round.
ROUNDS = 3
EACH = [(kind,) for kind in KINDS]
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
def proxy(start: Start, tmp_path: Path) -> int:
    """The port of the proxy, with a web server behind it."""
    behind, command = server_command()
    web = start(
        *command,
        HTTPS="1",
        TRUSTED_PROXIES="127.0.0.1",
        ALLOWED_HOSTS=f"127.0.0.1,{HOST}",
        # One process counts wrong keys by itself then, and none of them is missed.
        REDIS_URL="",
    )
    await_answer(web, behind)
    plain = free_port()
    folder = tmp_path / "proxy"
    folder.mkdir()
    ports = {"clear": free_port(), "tls": free_port(), "plain": plain, "behind": behind}
    await_listening(start(*proxy_command(binary("nginx"), folder, **ports)), plain)
    return plain


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
        assert ask(port, "GET", "/health/ready", headers, caller=INSIDE).status == 200
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
