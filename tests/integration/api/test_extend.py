"""POST /dispatch/extend/: a deadline moves forward while the dispatch is open. S0.28."""

from __future__ import annotations

from typing import Any

import pytest

from tests import factories
from tests.integration.api.contract import ContractClient
from tests.integration.api.world import checksum

pytestmark = [pytest.mark.django_db, pytest.mark.both]

PULL = "/api/v1/dispatch/"
EXTEND = "/api/v1/dispatch/extend/"
ALICE = {"uid": "uid_alice"}


@pytest.fixture
def opened(api: ContractClient) -> dict[str, Any]:
    """The open DISPATCH of alice: lease 60 s, from 09:00:00."""
    factories.once_task(factories.user(), lease_seconds=60)
    dispatch: dict[str, Any] = api.post(PULL, ALICE).json()
    return dispatch


def by(opened: dict[str, Any], seconds: int) -> dict[str, Any]:
    return {**ALICE, "number": opened["number"], "seconds": seconds}


@pytest.mark.parametrize(
    ("seconds", "deadline"),
    [
        (1, "2026-03-02T09:01:00Z"),
        (50, "2026-03-02T09:01:00Z"),
        (51, "2026-03-02T09:01:01Z"),
        (86_400, "2026-03-03T09:00:10Z"),
    ],
)
def test_deadline_is_the_later_of_old_and_asked(
    api: ContractClient, opened: dict[str, Any], frozen_clock: Any, seconds: int, deadline: str
) -> None:
    """S0.28: max(old, now + seconds); the rest of DISPATCH stays."""
    frozen_clock.advance(seconds=10)

    answer = api.post(EXTEND, by(opened, seconds))

    assert answer.status_code == 200
    assert answer.json() == {**opened, "deadline_at": deadline}


def test_ended_dispatch_is_closed(api: ContractClient, opened: dict[str, Any]) -> None:
    """S0.28, I14."""
    ended = {"uid": "uid_alice", "number": opened["number"], "outcome": "failed"}
    api.post("/api/v1/callback/", ended)
    before = checksum()

    answer = api.post(EXTEND, by(opened, 60))

    assert (answer.status_code, answer.json()["code"]) == (409, "closed")
    assert checksum() == before
