"""No body keeps a process busy: it is refused at once, or costs in proportion to its length.

`manage.py benchmark api` measures what the largest ones cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from apps.common.api.serializer_fields import MAX_NAMED
from tests import factories
from tests.benchmark import costly
from tests.benchmark.costly import Body
from tests.clients import JsonClient
from tests.steps import assert_linear

pytestmark = pytest.mark.django_db

# The smaller part has so many members that each of them is looked at.
SMALLEST, SMALL = 192, 96


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
            send(body, body.largest // SMALLEST or 1)
            assert_linear(partial(send, body), body.largest // SMALL or 1)


def test_wrong_follow_ups_are_told_where_until_that_has_cost_enough(
    make_key: Callable[..., str],
) -> None:
    """Each report is judged by itself, so that the first errors of a body do not end its check."""
    costly.make_rows()
    for _ in range(9):
        factories.job("free")
    api = JsonClient(make_key())
    asked = {"worker": "pi-1", "types": ["free"], "limit": 9}
    held = api.post("/api/v1/jobs/hold/", asked).json()["jobs"]
    wrong = {"type": "texts", "context": costly.rows(1, 5_000)}
    done = {"outcome": "succeeded", "submit": [wrong]}
    outcomes = [{"id": job["id"], "lease_token": job["lease_token"], **done} for job in held]

    answer = api.post("/api/v1/jobs/settle/", {"worker": "pi-1", "outcomes": outcomes}).json()

    said = [each["message"] for each in answer["results"]]
    where = [message for message in said if "submit[0].context.rows[0]: " in message]
    brief = [message for message in said if "send a smaller part of it" in message]
    assert said == where + brief
    assert 1 <= len(where) <= 5


@pytest.mark.both
def test_all_letters_that_a_body_may_have_are_stored(make_key: Callable[..., str]) -> None:
    """Chinese takes twice as many bytes in the database as on the wire, which is more than a
    statement of MariaDB may have."""
    text = {"text": "字" * 80_000}
    factories.job_type("mail")
    factories.job_type("points", pool=True)
    api = JsonClient(make_key())

    def post(address: str, **body: Any) -> Any:
        raw = json.dumps(body, ensure_ascii=False).encode()
        answer = api.post(f"/api/v1/{address}", raw=raw)
        assert answer.status_code in {200, 201}, answer.content[:300]
        assert b'"ok":false' not in answer.content
        return answer.json()

    post("jobs/", jobs=[{"type": "mail", "context": text}] * 33)
    held: list[Any] = []
    while len(held) < 33:
        held += post("jobs/hold/", worker="pi-1", types=["mail"])["jobs"]
    reports = [{"id": job["id"], "lease_token": job["lease_token"]} for job in held]
    leases = [{**each, "checkpoint": text, "sequence": 1} for each in reports]
    assert all(
        each["ok"] for each in post("jobs/heartbeat/", worker="pi-1", leases=leases)["leases"]
    )
    outcomes = [{**each, "outcome": "succeeded", "result": text} for each in reports]
    assert all(
        each["ok"] for each in post("jobs/settle/", worker="pi-1", outcomes=outcomes)["results"]
    )
    keys = [f"point-{number}" for number in range(33)]
    for _again in range(2):
        post(
            "pools/points/rebuild/",
            items=dict.fromkeys(keys, 1),
            contexts=dict.fromkeys(keys, text),
        )
