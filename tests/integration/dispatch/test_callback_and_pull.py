"""A callback that asks for the next task is one transaction, and says what two calls would."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.dispatch.errors import Closed
from apps.dispatch.models import Dispatch, Stock
from apps.dispatch.services import ending, pull
from apps.dispatch.services.claim import Lost, claim
from apps.dispatch.services.pull import Nothing
from apps.dispatch.services.state import state_of
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.caches import clear_caches
from tests.callback import take_next

pytestmark = [pytest.mark.django_db, pytest.mark.both]

MODES = {"single": 1, "multi": 2, "blocking": 3}
POLICIES = ("finish", "give_back", "retry_same")


def both(number: int, outcome: str = "succeeded") -> tuple[Dispatch, Dispatch | Nothing]:
    dispatch = Dispatch.objects.get(pk=number)
    return callback.call_back_and_pull(executor=dispatch.executor, number=number, outcome=outcome)


def one_after_the_other(number: int, outcome: str) -> tuple[Dispatch, Dispatch | Nothing]:
    executor = Dispatch.objects.select_related("executor").get(pk=number).executor
    ended = callback.call_back(executor=executor, number=number, outcome=outcome)
    return ended, take_next(executor)


def rows() -> Any:
    """What the tables say, without the numbers that are drawn."""
    fields = ("title", "round", "state", "holds_stock", "redo", "finished_at", "deadline_at")
    events = ("event", "from_state", "to_state", "attempt", "executor", "actor")
    entries = JournalEntry.objects.filter(source="dispatch")
    return (
        [*Dispatch.objects.order_by("id").values_list(*fields)],
        [*Stock.objects.order_by("task").values_list("handed", flat=True)],
        Counter(entries.values_list(*events)),
    )


@pytest.mark.usefixtures("frozen_clock")
def test_it_does_what_two_calls_do(subtests: pytest.Subtests) -> None:
    """S0.29: every policy, until nothing is left."""
    group = factories.group("gid_all", ["uid_a"])
    for mode, on_failure, outcome in product(MODES, POLICIES, pull.OUTCOMES):
        with subtests.test(mode=mode, on_failure=on_failure, outcome=outcome):
            policy = {"mode": mode, "dispatch_times": MODES[mode], "on_failure": on_failure}
            ways = []
            for way in (one_after_the_other, both):
                with transaction.atomic():
                    clear_caches()
                    factories.once_task(group, **policy)
                    factories.once_task(group, "second", priority=-1)
                    taken = take_next(factories.member("uid_a"))
                    answers = []
                    while isinstance(taken, Dispatch):
                        ended, taken = way(taken.pk, outcome)
                        answers.append((ended.state, getattr(taken, "title", None)))
                    ways.append((answers, rows()))
                    transaction.set_rollback(True)
            assert ways[0] == ways[1]


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


def test_nothing_due_is_answered_with_the_callback() -> None:
    alice = factories.user()
    factories.once_task(alice)
    taken = callback.taken(alice)
    ended, following = both(taken.pk)
    assert (ended.state, type(following)) == ("succeeded", Nothing)
    assert both(taken.pk)[0].finished_at == ended.finished_at


def test_a_cancelled_dispatch_refuses_both() -> None:
    alice = factories.user()
    for _ in range(2):
        factories.once_task(alice)
    taken = callback.taken(alice)
    ending.cancel(dispatch=taken, actor=factories.OPERATOR, reason="No longer needed")
    with pytest.raises(Closed):
        both(taken.pk)
    assert not Dispatch.objects.filter(state="open").exists()


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
