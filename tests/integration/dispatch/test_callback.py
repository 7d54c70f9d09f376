"""Callback, extend, release, cancel, expire: how a dispatch ends, once, alone or with the next one,
whatever has changed since."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.common import clock
from apps.common.errors import NotFound
from apps.common.json_rules import canonical
from apps.dispatch.errors import Closed
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.dispatch.services import ending, pull
from apps.dispatch.services.claim import Lost, claim
from apps.dispatch.services.executor_state import state_of
from apps.dispatch.services.invariants import CHECKS
from apps.dispatch.services.pull import Nothing
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.caches import TwoProcesses
from tests.callback import take_next, taken
from tests.frozen import FrozenClock

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def rows() -> tuple[list[Any], list[Any], int]:
    """Everything that a refused request must leave as it was."""
    return (
        list(Dispatch.objects.order_by("pk").values()),
        list(Stock.objects.order_by("pk").values()),
        JournalEntry.objects.count(),
    )


characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(characters, max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(characters, max_size=9), inner, max_size=4)
    ),
    max_leaves=12,
)


class TestRoundTrip(TestCase):
    @given(result=st.dictionaries(st.text("abcdé ", max_size=5), json_values, max_size=4))
    def test_result_comes_back_equal(self, result: dict[str, Any]) -> None:
        """I18: equal under canonical JSON, so that the exact repeat is recognised."""
        alice = factories.user()
        factories.once_task(alice, params=result)
        taken = callback.taken(alice)
        callback.call_back(executor=alice, number=taken.pk, outcome="succeeded", result=result)
        stored = Dispatch.objects.get(pk=taken.pk)
        assert canonical(stored.result) == canonical(result)
        assert canonical(stored.params) == canonical(result)
        callback.call_back(executor=alice, number=taken.pk, outcome="succeeded", result=result)


class TestExtend:
    def test_journal_says_who_extended_it_and_until_when(
        self, alice: Executor, number: int, frozen_clock: Any
    ) -> None:
        """I55"""
        frozen_clock.advance(seconds=30)
        later = callback.extend(executor=alice, number=number, seconds=600).deadline_at

        entry = JournalEntry.objects.timeline("dispatch", number).last()

        assert entry is not None
        assert (entry.event, entry.actor, entry.executor) == ("extended", "uid_alice", "uid_alice")
        assert (entry.at, entry.attempt) == (frozen_clock.instant, 1)
        assert entry.data == {"deadline_at": later.isoformat()}
        # No end, for the audit and the reports.
        assert (entry.from_state, entry.to_state) == ("", "")
        assert not [breach for check in CHECKS for breach in check.run(100).breaches]

    def test_one_that_moves_no_deadline_is_not_in_the_journal(
        self, alice: Executor, number: int
    ) -> None:
        before = rows()
        callback.extend(executor=alice, number=number, seconds=5)
        assert rows() == before

    def test_journal_gets_one_entry_a_minute_however_often_it_is_extended(
        self, alice: Executor, number: int, frozen_clock: Any
    ) -> None:
        for _ in range(120):
            frozen_clock.advance(seconds=1)
            callback.extend(executor=alice, number=number, seconds=3600)
        assert JournalEntry.objects.filter(event="extended").count() == 2


def following(executor: Executor, dispatch: Any) -> Any:
    done = {"executor": executor, "number": dispatch.pk, "outcome": "succeeded"}
    return callback.call_back_and_pull(**done)[1]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in one process", "in two"])
def test_when_the_user_was_seen_is_still_written(
    alice: Executor, frozen_clock: FrozenClock, processes: TwoProcesses, elsewhere: bool
) -> None:
    """Once a minute, however long the user goes on in this way."""
    for _ in range(9):
        factories.once_task(alice, lease_seconds=60)
    answer: Any = taken(alice)
    for n in range(6):
        frozen_clock.advance(seconds=40)
        if elsewhere and n == 1:
            processes.swap()
            answer = taken(alice)
            processes.swap()
            frozen_clock.advance(seconds=1)
        answer = following(alice, answer)
        alice.refresh_from_db()
        assert alice.last_seen_at is not None
        assert clock.now() - alice.last_seen_at < timedelta(minutes=1)


def test_what_a_person_has_removed_from_the_table_is_not_there(alice: Executor) -> None:
    factories.once_task(alice)
    first = taken(alice)
    Dispatch.objects.filter(pk=first.pk).delete()
    with pytest.raises(NotFound, match="no dispatch"):
        callback.call_back(executor=alice, number=first.pk, outcome="succeeded")
    with pytest.raises(NotFound, match="no dispatch"):
        following(alice, first)


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
def test_twenty_at_once_end_it_once_and_take_one(alice: Executor, racers: Any) -> None:
    """I5, I13: one ending, one next dispatch, and all learn its number."""
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
