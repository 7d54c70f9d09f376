"""Several web processes of one machine."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path

import pytest

from taskplatform import web as web_server
from taskplatform.sdk import Client
from tests.acceptance.conftest import Template, platform_with, processes_of
from tests.processes import RunningProcess, eventually
from tests.serving import await_answer, server_command, status_of, web_command
from tests.workers import make_type, rows

COUNTED = re.compile(r'http_requests_total\{route="/health/",status="2xx"\} (\S+)')


@pytest.fixture(scope="module")
def environment(
    keyed_database: Template, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    with platform_with(keyed_database.url, tmp_path_factory.mktemp("web")) as environment:
        yield environment


@pytest.fixture(scope="module")
def web(
    environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, RunningProcess]]:
    """The port of two processes, and the one above them."""
    port, command = web_command()
    with processes_of(environment, tmp_path_factory.mktemp("logs")) as start:
        web = start(*command, "--workers", "2")
        await_answer(web, port)
        yield port, web


@pytest.mark.sqlite
def test_server_that_is_to_stop_while_it_starts_leaves_nothing_running(
    environment: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the supervisor above it is killed: its processes do not hear of it yet."""
    monkeypatch.setattr(web_server, "STOP_SECONDS", 1)
    _, command = server_command()
    with processes_of(environment, tmp_path) as start:
        server = start(*command)
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        eventually(children.read_text)

        server.process.terminate()

        eventually(lambda: not server.lives(), seconds=20)


# Elsewhere a key reads the figures.
@pytest.mark.sqlite
def test_each_process_tells_what_all_of_them_have_answered(web: tuple[int, object]) -> None:
    port, _ = web

    def answered() -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            found = COUNTED.search(answer.read().decode())
        return float(found[1]) if found else 0.0

    begun = answered()
    for _request in range(20):
        assert status_of(port, "/health/live") == HTTPStatus.OK
    told = Counter(answered() - begun for _scrape in range(20))

    assert told == {20: 20}


@pytest.mark.both
def test_processes_share_a_database(
    web: tuple[int, RunningProcess], environment: Mapping[str, str], key: str
) -> None:
    """Callers at several processes get one job for one key, and wait while another one writes."""
    port, process = web
    has_redis = bool(environment.get("REDIS_URL"))
    assert ("limits let through up to 2 times" in process.output) != has_redis

    with Client(f"http://127.0.0.1:{port}", key) as client:
        make_type(client, "till")

    def submit(caller: int) -> list[str]:
        # A connection of its own, which one of the processes accepts.
        with Client(f"http://127.0.0.1:{port}", key, give_up_after=0) as client:
            return [
                client.submit("till", {"n": number}, key=f"k{number}", unique=True).id
                for number in range(15)
            ]

    with ThreadPoolExecutor(8) as callers:
        told = set(map(tuple, callers.map(submit, range(8))))
    assert len(told) == 1
    assert rows(environment["DATABASE_URL"], "SELECT COUNT(*) FROM jobs_job") == [(15,)]
