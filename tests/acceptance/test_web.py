"""Several web processes of one machine."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import pytest

from taskplatform.sdk import Client
from tests.acceptance.conftest import make_key
from tests.processes import RunningProcess
from tests.serving import await_answer, status_of, web_command
from tests.workers import make_type, rows

COUNTED = re.compile(r'http_requests_total\{route="/health/",status="2xx"\} (\S+)')


# Elsewhere a key reads the figures.
@pytest.mark.sqlite
def test_each_process_tells_what_all_of_them_have_answered(
    start: Callable[..., RunningProcess],
) -> None:
    port, command = web_command()
    web = start(*command, "--workers", "2")
    await_answer(web, port)

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
    start: Callable[..., RunningProcess], environment: Mapping[str, str]
) -> None:
    """Callers at several processes get one job for one key, and wait while another one writes."""
    key = make_key(environment, "Shop", "submit", "operate")
    port, command = web_command()
    web = start(*command, "--workers", "3")
    await_answer(web, port)
    assert ("limits let through up to 3 times" in web.output) != bool(environment.get("REDIS_URL"))

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
