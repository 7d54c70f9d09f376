"""A process killed at any statement leaves all of a hand-out or ending, or nothing of it."""

from __future__ import annotations

import pytest

from apps.dispatch.models import Dispatch, Stock
from tests import callback, factories
from tests.callback import take_next
from tests.integration.dispatch import housekeeping
from tests.kills import killed_at

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def audit() -> None:
    """I1, I2: stock, dispatch and journal agree."""
    housekeeping.audit()
    housekeeping.audit_journal()


def test_pull_killed_at_any_statement() -> None:
    """S0.27, I2, I3: decrement, hand-out, the user's current task and journal are one."""
    factories.group("gid_all", ["uid_a"])
    factories.once_task(factories.member("gid_all"))
    alice = factories.member("uid_a")
    statement = 1
    while killed_at(statement, lambda: take_next(alice)):
        audit()
        assert not Dispatch.objects.exists()
        statement += 1
    audit()
    assert statement > 8
    answer = callback.taken(alice)
    assert (answer.pk, answer.redo) == (Dispatch.objects.get().pk, 1)


def test_ending_killed_at_any_statement() -> None:
    """S0.29, I11, I13: a given-back ending returns the stock with its row, or not at all."""
    alice = factories.user()
    factories.once_task(alice, on_failure="give_back")
    taken = callback.taken(alice)
    statement = 1

    def fail() -> None:
        callback.call_back(executor=alice, number=taken.pk, outcome="failed")

    while killed_at(statement, fail):
        audit()
        assert Dispatch.objects.get().is_open
        statement += 1
    audit()
    assert statement > 4
    assert Stock.objects.get().handed == 0


def test_callback_with_the_next_task_killed_at_any_statement() -> None:
    """S0.27, I2: the ending and the hand-out that goes with it are one."""
    alice = factories.user()
    statement, kills = 1, 0
    while True:
        for _ in range(2):
            factories.once_task(alice)
        taken = callback.taken(alice)
        killed = killed_at(
            statement,
            lambda number=taken.pk: callback.call_back_and_pull(  # type: ignore[misc]
                executor=alice, number=number, outcome="succeeded"
            ),
        )
        audit()
        before = Dispatch.objects.get(pk=taken.pk)
        following = Dispatch.objects.filter(open_for=alice.pk).first()
        assert following is not None
        assert before.is_open == (following.pk == taken.pk)
        if not killed:
            break
        statement, kills = statement + 1, kills + 1
    assert kills > 5
