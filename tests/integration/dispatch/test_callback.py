"""Callback, extend, release, cancel, expire: how a dispatch ends, once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.common.json_rules import canonical
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.dispatch.services.invariants import CHECKS
from apps.journal.models import JournalEntry
from tests import callback, factories

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
