"""POST /dispatch/release/: an open dispatch given back unfinished. S0.28."""

from __future__ import annotations

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
