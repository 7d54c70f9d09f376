"""/callback/, /dispatch/extend/ and /dispatch/release/: how a dispatch ends. S0.28, S0.29."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.dispatch.models import Dispatch, Stock
from apps.journal.models import JournalEntry
from tests import factories
from tests.integration.api.contract import ContractClient, mistakes
from tests.integration.api.world import checksum

pytestmark = pytest.mark.django_db

PULL = "/api/v1/dispatch/"
CALLBACK = "/api/v1/callback/"
EXTEND, RELEASE = "/api/v1/dispatch/extend/", "/api/v1/dispatch/release/"
ALICE = {"uid": "uid_alice"}


@pytest.fixture
def number(api: ContractClient) -> str:
    """The open dispatch of alice: lease 60 s, expiry gives back."""
    factories.once_task(factories.user(), lease_seconds=60)
    return api.post(PULL, ALICE).json()["number"]


def said(number: str, **changes: Any) -> dict[str, Any]:
    return {**ALICE, "number": number, "outcome": "succeeded", **changes}


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_callback_ends_the_dispatch(
    api: ContractClient, number: str, frozen_clock: Any, outcome: str
) -> None:
    """S0.29, I13: the answer has exactly the fields of the contract."""
    frozen_clock.advance(seconds=5)

    answer = api.post(CALLBACK, said(number, outcome=outcome, result={"n": 1}, message="done"))

    assert answer.status_code == 200
    assert answer.json() == {
        "number": number,
        "state": outcome,
        "finished_at": "2026-03-02T09:00:05Z",
        "next": None,
    }
    assert "Retry-After" not in answer.headers
    assert api.post(PULL, ALICE).status_code == 204


def test_exact_repeat_gets_the_first_answer_and_changes_nothing(
    api: ContractClient, number: str, frozen_clock: Any
) -> None:
    """S0.29, I13: a lost answer is asked for again, minutes later and with keys in other order."""
    first = api.post(CALLBACK, said(number, result={"a": 1, "b": [2.5, None]}))
    before = checksum()
    frozen_clock.advance(minutes=10)

    again = api.post(CALLBACK, said(number, result={"b": [2.5, None], "a": 1}))

    assert again.status_code == 200
    assert again.content == first.content
    assert checksum() == before


def test_repeat_that_says_otherwise_is_refused(
    api: ContractClient, number: str, subtests: pytest.Subtests
) -> None:
    """S0.29, I16: the first answer stands."""
    api.post(CALLBACK, said(number, result={"n": 1}))
    before = checksum()
    for changes in (
        {"outcome": "failed"},
        {"result": {"n": 2}},
        {"result": None},
        {"result": {}},
        {"result": {"n": 1, "m": None}},
        {"result": {"n": "1"}},
        {"result": {"n": True}},
    ):
        with subtests.test(changes=changes):
            answer = api.post(CALLBACK, said(number, **{"result": {"n": 1}, **changes}))

            assert (answer.status_code, answer.json()["code"]) == (422, "conflict")
            assert checksum() == before


def test_repeat_with_another_message_is_a_repeat(api: ContractClient, number: str) -> None:
    """S0.29: outcome and result make the answer; the first message stands."""
    api.post(CALLBACK, said(number, message="first"))

    assert api.post(CALLBACK, said(number, message="second")).status_code == 200
    assert Dispatch.objects.get().message == "first"


@pytest.mark.parametrize("ended_by", ["expiry", "release", "cancel", "callback"])
def test_dispatch_that_ended_otherwise_is_closed(
    api: ContractClient, number: str, frozen_clock: Any, ended_by: str
) -> None:
    """S0.28, S0.29, I14, I55: 409 to every door, and only the journal keeps what was said."""
    named = {**ALICE, "number": number}
    cancel = (f"/api/v1/dispatches/{number}/cancel/", {"reason": "Not needed"})
    if ended_by == "expiry":
        frozen_clock.advance(seconds=60)
        api.post(PULL, ALICE)
    elif ended_by == "release":
        api.post(RELEASE, named)
    elif ended_by == "cancel":
        api.post(*cancel)
    else:
        api.post(CALLBACK, said(number))
    before = checksum()
    doors = {"extend": (EXTEND, {**named, "seconds": 60}), "release": (RELEASE, named)}
    for door, call in {**doors, "cancel": cancel}.items():
        if door != ended_by:
            answer = api.post(*call)
            assert (answer.status_code, answer.json()["code"]) == (409, "closed"), door
    assert checksum() == before
    if ended_by == "callback":
        return
    before = checksum(but={JournalEntry})

    answer = api.post(CALLBACK, said(number, result={"n": 7}))

    assert (answer.status_code, answer.json()["code"]) == (409, "closed")
    assert checksum(but={JournalEntry}) == before
    late = JournalEntry.objects.get(event="late_result")
    assert (late.subject_id, late.data["result"]) == (int(number), {"n": 7})


def test_number_of_another_user_answers_as_an_unknown_one(api: ContractClient, number: str) -> None:
    """S0.29, I14: byte for byte but for the id of the request."""
    factories.user("uid_bob")
    foreign = api.post(CALLBACK, {**said(number), "uid": "uid_bob"})
    Dispatch.objects.all().delete()

    unknown = api.post(CALLBACK, {**said(number), "uid": "uid_bob"})

    assert foreign.status_code == 404
    assert {**foreign.json(), "request_id": ""} == {**unknown.json(), "request_id": ""}


@pytest.mark.both
def test_result_round_trips(api: ContractClient, number: str) -> None:
    """S0.29, I18: what was sent is what is read, on every database."""
    result = {
        "text": "☃ \U0001f600 \u0001 \u2028 </script> \\ \" ' %s",
        "large": [9007199254740993, -(2**63), 2**63 - 1],
        "small": [1.5, -0.0, 1e22, 5e-324, 0.1],
        "empty": [{}, [], "", None, True, False],
        "": {"ключ": {"b": 1, "a": 2}},
    }

    api.post(CALLBACK, said(number, result=result))

    read = api.get(f"/api/v1/dispatches/{number}/").json()["result"]
    assert read == result
    assert [type(n) for n in read["large"]] == [int] * 3
    assert [type(n) for n in read["small"]] == [float] * 5


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
    api: ContractClient, number: str, frozen_clock: Any, seconds: int, deadline: str
) -> None:
    """S0.28: max(old, now + seconds); the rest of DISPATCH stays."""
    opened = api.post(PULL, ALICE).json()
    frozen_clock.advance(seconds=10)

    answer = api.post(EXTEND, {**ALICE, "number": number, "seconds": seconds})

    assert answer.status_code == 200
    assert answer.json() == {**opened, "deadline_at": deadline}


def test_release_returns_the_stock_to_others(api: ContractClient) -> None:
    """S0.28: others at once, the one who gave it back after lease_seconds; a repeat is answered the
    same."""
    factories.once_task(factories.group(members=["uid_alice", "uid_bob"]), lease_seconds=60)
    number = api.post(PULL, ALICE).json()["number"]

    answer = api.post(RELEASE, {**ALICE, "number": number, "reason": "No key"})

    assert answer.status_code == 200
    assert answer.json() == {"number": number, "state": "released"}
    before = checksum()
    again = api.post(RELEASE, {**ALICE, "number": number})
    assert (again.status_code, again.content) == (200, answer.content)
    assert checksum() == before
    assert Stock.objects.get().handed == 0
    assert JournalEntry.objects.get(event="released").reason == "No key"
    assert api.post(PULL, ALICE).status_code == 204
    assert api.post(PULL, {"uid": "uid_bob"}).status_code == 200


class TestNext:
    def test_next_task_comes_along(self, api: ContractClient, number: str) -> None:
        """S0.1: callback and pull in one; the next is a DISPATCH of its own."""
        factories.once_task(factories.member("uid_alice"), title="Second")

        answer = api.post(CALLBACK, said(number), query={"next": 1})

        following = answer.json()["next"]
        assert (following["title"], following["redo"]) == ("Second", 0)
        assert "Retry-After" not in answer.headers
        assert api.post(PULL, ALICE).json() == {**following, "redo": 1}

    def test_nothing_next_says_when_to_ask(
        self, api: ContractClient, number: str, frozen_clock: Any
    ) -> None:
        """S0.25: null comes with the seconds to wait."""
        factories.once_task(
            factories.member("uid_alice"), start_at=frozen_clock.instant + timedelta(seconds=30)
        )

        answer = api.post(CALLBACK, said(number), query={"next": 1})

        assert answer.json()["next"] is None
        assert 30 <= int(answer.headers["Retry-After"]) <= 33

    def test_next_is_1_or_absent(
        self, api: ContractClient, number: str, subtests: pytest.Subtests
    ) -> None:
        for text in ("0", "2", "true", "", "01"):
            with subtests.test(text=text):
                answer = api.post(CALLBACK, said(number), query={"next": text})

                assert mistakes(answer) == ["next"]
                assert Dispatch.objects.get().state == "open"
