"""POST /dispatch/: one task at a time, the same again until it is over. S0.1, S0.14, S0.16."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.dispatch.models import Dispatch, Stock
from tests import factories
from tests.integration.api.contract import ContractClient, mistakes

pytestmark = pytest.mark.django_db

PULL = "/api/v1/dispatch/"
ALICE = {"uid": "uid_alice"}


@pytest.mark.both
def test_due_task_is_answered_as_dispatch(api: ContractClient, frozen_clock: Any) -> None:
    """S0.1, S0.26: exactly the fields of the contract, the number a decimal string."""
    task = factories.once_task(
        factories.user(),
        title="Check the shelf",
        template=factories.template("photo-check"),
        params={"shop": "Łódź 1", "photos": 3},
        start_at=frozen_clock.instant - timedelta(minutes=5),
        lease_seconds=600,
    )

    answer = api.post(PULL, ALICE)

    assert answer.status_code == 200
    body = answer.json()
    assert body == {
        "number": str(Dispatch.objects.get().pk),
        "redo": 0,
        "source": "once",
        "task": task.pk,
        "occurrence_at": "2026-03-02T08:55:00Z",
        "title": "Check the shelf",
        "params": {"shop": "Łódź 1", "photos": 3},
        "template": {"name": "photo-check", "version": 1},
        "dispatched_at": "2026-03-02T09:00:00Z",
        "deadline_at": "2026-03-02T09:10:00Z",
    }
    assert isinstance(body["number"], str)
    assert "Retry-After" not in answer.headers


def test_task_without_template_says_null(api: ContractClient) -> None:
    """S0.2: a template is optional."""
    factories.once_task(factories.user())

    assert api.post(PULL, ALICE).json()["template"] is None


@pytest.mark.both
def test_instant_with_microseconds_keeps_six_decimals(
    api: ContractClient, frozen_clock: Any
) -> None:
    """S0.7: a time on the wire is the stored time."""
    frozen_clock.advance(microseconds=1500)
    factories.once_task(factories.user())

    assert api.post(PULL, ALICE).json()["dispatched_at"] == "2026-03-02T09:00:00.001500Z"


def test_repeated_pull_answers_the_same_dispatch_with_redo(
    api: ContractClient, frozen_clock: Any
) -> None:
    """S0.16, I4: same number, byte-equal params, no further stock."""
    factories.once_task(
        factories.user(), params={"b": [1, {"z": 2.50, "a": None}], "a": "☃ \U0001f600"}
    )
    first = api.post(PULL, ALICE)
    frozen_clock.advance(seconds=30)

    again = [api.post(PULL, ALICE) for _ in range(3)]

    assert [answer.json()["redo"] for answer in again] == [1, 2, 3]
    for answer in again:
        assert answer.json() == {**first.json(), "redo": answer.json()["redo"]}
        assert answer.content.partition(b'"params":')[2] == first.content.partition(b'"params":')[2]
    assert Stock.objects.get().handed == 1
    assert Dispatch.objects.count() == 1


def test_nothing_due_answers_204_with_seconds_to_wait(
    api: ContractClient, frozen_clock: Any
) -> None:
    """S0.25: no body, and when to ask again: 1 to 60 whole seconds."""
    factories.user()

    answer = api.post(PULL, ALICE)

    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["Retry-After"] == "60"


@pytest.mark.parametrize(("ahead", "low", "high"), [(1, 1, 2), (20, 20, 22), (3600, 60, 60)])
def test_task_due_later_sets_the_wait(
    api: ContractClient, frozen_clock: Any, ahead: int, low: int, high: int
) -> None:
    """S0.25, I7: never handed out before its start; asked again about then."""
    factories.once_task(factories.user(), start_at=frozen_clock.instant + timedelta(seconds=ahead))

    answer = api.post(PULL, ALICE)

    assert answer.status_code == 204
    assert low <= int(answer.headers["Retry-After"]) <= high


@pytest.mark.both
def test_unknown_uid_is_not_found(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S0.5: twins by case, blank and accent are other names, on every database."""
    factories.once_task(factories.user())
    for uid in (
        "uid_nobody",
        "uid_Alice",
        "uid_alice ",
        " uid_alice",
        "uid_álice",
        "alice",
        "UID_x",
    ):
        with subtests.test(uid=uid):
            answer = api.post(PULL, {"uid": uid})

            assert answer.status_code == 404
            assert answer.json()["code"] == "not_found"


@pytest.mark.parametrize("name", ["gid_sales", "gid_unknown"])
def test_group_cannot_pull(api: ContractClient, name: str) -> None:
    """S0.5: only a user can pull; the answer does not reveal whether the group exists."""
    factories.group()

    answer = api.post(PULL, {"uid": name})

    assert mistakes(answer) == ["uid"]
