"""POST /dispatch/release/: an open dispatch given back unfinished. S0.28."""

from __future__ import annotations

from typing import Any

import pytest

from apps.dispatch.models import Stock
from apps.journal.models import JournalEntry
from tests import factories
from tests.integration.api.contract import ContractClient
from tests.integration.api.world import checksum

pytestmark = [pytest.mark.django_db, pytest.mark.both]

PULL = "/api/v1/dispatch/"
RELEASE = "/api/v1/dispatch/release/"
ALICE = {"uid": "uid_alice"}


@pytest.fixture
def number(api: ContractClient) -> str:
    """The open dispatch of alice, from a task of her group that bob may have as well."""
    factories.once_task(factories.group(members=["uid_alice", "uid_bob"]), lease_seconds=60)
    number: str = api.post(PULL, ALICE).json()["number"]
    return number


def test_release_returns_the_stock_to_others(api: ContractClient, number: str) -> None:
    """S0.28: others at once, the one who gave it back after lease_seconds."""
    answer = api.post(RELEASE, {**ALICE, "number": number, "reason": "No key"})

    assert answer.status_code == 200
    assert answer.json() == {"number": number, "state": "released"}
    assert Stock.objects.get().handed == 0
    assert JournalEntry.objects.get(event="released").reason == "No key"
    assert api.post(PULL, ALICE).status_code == 204
    assert api.post(PULL, {"uid": "uid_bob"}).status_code == 200


def test_released_occurrence_comes_back_after_the_lease(
    api: ContractClient, number: str, frozen_clock: Any
) -> None:
    """S0.28: cooling down ends exactly lease_seconds later; the 204 says when."""
    api.post(RELEASE, {**ALICE, "number": number})
    frozen_clock.advance(seconds=50)
    early = api.post(PULL, ALICE)
    frozen_clock.advance(seconds=10)

    assert early.status_code == 204
    assert 10 <= int(early.headers["Retry-After"]) <= 11
    assert api.post(PULL, ALICE).json()["number"] != number


def test_repeat_answers_the_same_and_changes_nothing(api: ContractClient, number: str) -> None:
    """S0.28: a lost answer is asked for again."""
    first = api.post(RELEASE, {**ALICE, "number": number})
    before = checksum()

    again = api.post(RELEASE, {**ALICE, "number": number})

    assert (again.status_code, again.content) == (200, first.content)
    assert checksum() == before


def test_dispatch_that_ended_otherwise_is_closed(api: ContractClient, number: str) -> None:
    """S0.29, I14."""
    api.post("/api/v1/callback/", {**ALICE, "number": number, "outcome": "succeeded"})
    before = checksum()

    answer = api.post(RELEASE, {**ALICE, "number": number})

    assert (answer.status_code, answer.json()["code"]) == (409, "closed")
    assert checksum() == before


def test_unknown_and_foreign_numbers_are_not_found(api: ContractClient, number: str) -> None:
    """S0.29, I14."""
    assert api.post(RELEASE, {"uid": "uid_bob", "number": number}).status_code == 404
    assert api.post(RELEASE, {**ALICE, "number": "7"}).status_code == 404
    assert api.post(PULL, ALICE).json()["number"] == number
