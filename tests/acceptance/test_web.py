"""Several web processes of one machine."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus

from tests.processes import RunningProcess
from tests.serving import await_answer, status_of, web_command

COUNTED = re.compile(r'http_requests_total\{route="/health/",status="2xx"\} (\S+)')


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
