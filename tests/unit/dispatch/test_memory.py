"""How what is remembered of a user goes on with its dispatches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from apps.dispatch.rules.policy import PastDispatch
from apps.dispatch.services.memory import Ended, Looked, Memory

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
ONE, TWO = ("once", 1, 0), ("once", 2, 0)


def ended(number: int, task: int, *, state: str = "succeeded", rounds: int = 1) -> Ended:
    past = PastDispatch(
        number=number, rounds=rounds, state=state, holds_stock=True, finished_at=NOW
    )
    return Ended(number, ("once", task, 0), NOW + timedelta(minutes=task), past)


def memory(**looked: Looked) -> Memory:
    known = {("once", int(name[1:]), 0): each for name, each in looked.items()}
    return Memory(7, 3, (8, 9), 100, None, known)


def test_what_has_ended_is_known_with_its_stock() -> None:
    after = memory(t1=Looked(None, None)).after([ended(101, 1), ended(102, 2)], since=102)
    assert after.looked[ONE].last == ended(101, 1).past
    assert after.looked[ONE].handed is not None
    assert after.looked[TWO].last == ended(102, 2).past
    assert (after.since, after.groups) == (102, (8, 9))


def test_the_latest_by_number_is_the_latest_done() -> None:
    """S0.19: in whatever order they are told; what was given back was not done."""
    told = [ended(103, 3, state="released"), ended(102, 2), ended(101, 1)]
    assert memory().after(told, since=104).latest_done == NOW + timedelta(minutes=2)


def test_a_later_round_is_looked_up_again() -> None:
    """I6: whether a round before it counts, it does not tell."""
    after = memory(t1=Looked(1, ended(101, 1).past)).after([ended(105, 1, rounds=2)], since=105)
    assert ONE not in after.looked


def test_what_was_remembered_stays_as_it_was() -> None:
    """Two threads may go on from the same memory."""
    before = memory(t1=Looked(None, None))
    before.after([ended(101, 1), ended(102, 2)], since=102)
    assert before.looked == {ONE: Looked(None, None)}
