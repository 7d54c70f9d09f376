"""A callback that asks for the next task is one transaction, and says what two calls would."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.db import IntegrityError

from apps.dispatch.errors import Closed
from apps.dispatch.models import Dispatch, Stock
from apps.dispatch.services import ending, pull
from apps.dispatch.services.claim import Lost, claim
from apps.dispatch.services.pull import Nothing
from apps.dispatch.services.state import state_of
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.callback import take_next

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def both(number: int, outcome: str = "succeeded") -> tuple[Dispatch, Dispatch | Nothing]:
    dispatch = Dispatch.objects.get(pk=number)
    return callback.call_back_and_pull(executor=dispatch.executor, number=number, outcome=outcome)


def test_what_is_lost_meanwhile_leaves_the_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    """I15: the ending does not hang on the hand-out that goes with it."""
    alice = factories.user()
    for _ in range(4):
        factories.once_task(alice)
    for error in (Lost, IntegrityError):
        taken = callback.taken(alice)
        with monkeypatch.context() as patched:
            patched.setattr(pull, "claim", _raising_once(error))
            ended, following = both(taken.pk)
        assert ended.state == "succeeded"
        assert isinstance(following, Dispatch)
        assert following == take_next(alice)
        callback.release(executor=alice, number=following.pk)


def _raising_once(error: type[Exception]) -> Any:
    errors = [error]

    def lost(*args: Any) -> Any:
        if errors:
            raise errors.pop()
        return claim(*args)

    return lost


@pytest.mark.parametrize("others", [0, 1], ids=["nothing next", "another next"])
def test_what_is_refused_teaches_the_queue_nothing(
    others: int, frozen_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8, S0.28: a task given back while its end is on its way can be had again in time."""
    alice = factories.user()
    factories.once_task(alice, "first", lease_seconds=60, priority=1)
    for _ in range(others):
        factories.once_task(alice, "second")
    taken = callback.taken(alice)
    state = state_of(alice.pk)
    ending.release(dispatch=taken, actor=factories.OPERATOR)
    with monkeypatch.context() as patched, pytest.raises(Closed):
        patched.setattr(pull, "caller", lambda *args, **words: state)
        callback.call_back_and_pull(executor=alice, number=taken.pk, outcome="succeeded")
    frozen_clock.advance(seconds=61)
    again = callback.taken(alice)
    assert again.title == "first"


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_twenty_at_once_end_it_once_and_take_one(racers: Any) -> None:
    """I5, I13: one ending, one next dispatch, and all learn its number."""
    alice = factories.user()
    for _ in range(5):
        factories.once_task(alice)
    taken = callback.taken(alice)
    race = racers([lambda: both(taken.pk)] * 20)
    assert {ended.state for ended, _ in race.results} == {"succeeded"}
    [following] = Dispatch.objects.filter(state="open")
    assert {answer.pk for _, answer in race.results} == {following.pk}
    assert sum(Stock.objects.values_list("handed", flat=True)) == 2
    events = Counter(JournalEntry.objects.filter(source="dispatch").values_list("event", flat=True))
    assert events == {"handed_out": 2, "succeeded": 1}
