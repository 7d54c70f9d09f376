"""The client's bucket of a pool: what it sends and how it reads the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from taskplatform import sdk
from tests.stub_server import KEY, Stub, hangs_up, says

NOW = "2026-03-02T09:00:00Z"


@pytest.fixture
def pool(stub: Stub) -> Iterator[sdk.Pool]:
    with sdk.Client(stub.url, KEY, give_up_after=20) as client:
        yield sdk.Pool(client, "crawl eu", "pi-1")


def test_assign_returns_the_whole_bucket(stub: Stub, pool: sdk.Pool) -> None:
    item = {
        "key": "a",
        "id": "7012",
        "lease_token": "t",
        "score": 1.5,
        "context": {"url": "x"},
        "lease_until": "2026-03-02T09:00:30.5Z",
        "a_later_field": True,
    }
    stub.behaves(hangs_up, says(200, {"items": [item], "retry_after": 0.5, "now": NOW}))
    until = datetime(2026, 3, 2, 9, 0, 30, 500_000, tzinfo=UTC)
    assert pool.assign(5) == sdk.Bucket(
        (sdk.Assigned("a", "7012", "t", 1.5, {"url": "x"}, until),), 0.5
    )
    assert stub.seen[0].raw == stub.seen[1].raw
    assert stub.seen[0].path == "/api/v1/pools/crawl%20eu/assign/"
    assert stub.seen[0].body == {"worker": "pi-1", "limit": 5}


def test_check_compares(stub: Stub, pool: sdk.Pool) -> None:
    stub.behaves(says(200, {"match": False, "missing": ["a"], "extra": ["b"], "now": NOW}))
    assert pool.check({"b": 1}) == sdk.Checked(False, ("a",), ("b",))
    assert stub.seen[0].path == "/api/v1/pools/crawl%20eu/check/"
    assert stub.seen[0].body == {"worker": "pi-1", "keys": ["b"]}


@pytest.mark.parametrize(
    ("verb", "word", "report", "more"),
    [
        ("done", "done", lambda pool: pool.done(["a", "b"]), {}),
        (
            *("fail", "failed", lambda pool: pool.fail(["a", "b"], "torn", "never")),
            {"error": "torn", "retry": "never"},
        ),
        ("release", "released", lambda pool: pool.release(["a", "b"]), {}),
    ],
)
def test_reports_name_what_is_refused_and_why(
    stub: Stub,
    pool: sdk.Pool,
    verb: str,
    word: str,
    report: Callable[[sdk.Pool], sdk.Reported],
    more: dict[str, Any],
) -> None:
    reasons = {"b": "lease_lost"}
    stub.behaves(says(200, {word: ["a"], "refused": ["b"], "reasons": reasons, "now": NOW}))
    assert report(pool) == sdk.Reported(("a",), ("b",), reasons)
    assert stub.seen[0].path == f"/api/v1/pools/crawl%20eu/{verb}/"
    assert stub.seen[0].body == {"worker": "pi-1", "keys": ["a", "b"], **more}


@pytest.mark.parametrize("verb", ["check", "done", "fail", "release"])
def test_one_string_is_no_list_of_keys(stub: Stub, pool: sdk.Pool, verb: str) -> None:
    with pytest.raises(TypeError, match="keys is a list of keys, not one string"):
        getattr(pool, verb)("shop-1")
    assert stub.seen == []
