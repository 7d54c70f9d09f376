"""No body keeps a process busy: it is refused at once, or costs in proportion to its length.

`manage.py benchmark api` measures what the largest ones cost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from apps.common.serializers import MAX_NAMED
from tests.benchmark import costly
from tests.benchmark.costly import Body
from tests.clients import JsonClient
from tests.steps import assert_linear

pytestmark = pytest.mark.django_db

# The smaller part has so many members that each of them is looked at.
SMALLEST, SMALL = 64, 16


@pytest.fixture
def send(make_key: Callable[..., str]) -> Callable[[Body, int], None]:
    """Sends a body of that size, whose answer has its status and names few errors."""
    costly.make_rows()
    api = JsonClient(make_key())

    def send(body: Body, size: int) -> None:
        answer: Any = api.post(f"/api/v1/{body.address}", raw=body.make(size))
        assert answer.status_code == body.status, answer.content[:300]
        assert len(answer.json().get("errors", ())) <= 2 * MAX_NAMED

    return send


def test_no_body_keeps_the_process_busy(
    send: Callable[[Body, int], None], subtests: pytest.Subtests
) -> None:
    for body in costly.BODIES:
        with subtests.test(f"{body.name} for {body.address}"):
            if body.exceeds:
                send(body, body.largest)
                continue
            # Fills caches.
            send(body, body.largest // SMALLEST)
            assert_linear(partial(send, body), body.largest // SMALL)
