"""Callback, extend, release, cancel, expire: how a dispatch ends, once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.common import clock
from apps.common.errors import BadText, Invalid, NotFound, ReplayConflict
from apps.common.json_rules import canonical
from apps.dispatch.errors import Closed
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.dispatch.services import ending, expiry
from apps.dispatch.services.find import existing_dispatch
from apps.dispatch.services.invariants import CHECKS
from apps.dispatch.services.pull import Nothing
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.callback import take_next

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def rows() -> tuple[list[Any], list[Any], int]:
    """Everything that a refused request must leave as it was."""
    return (
        list(Dispatch.objects.order_by("pk").values()),
        list(Stock.objects.order_by("pk").values()),
        JournalEntry.objects.count(),
    )


class TestCallback:
    def test_ends_the_dispatch(self, alice: Executor, number: int, frozen_clock: Any) -> None:
        """S0.29: outcome, result and message are kept, and the executor is free."""
        ended = callback.call_back(
            executor=alice, number=number, outcome="failed", result={"n": 1}, message="no key"
        )
        ended.refresh_from_db()
        assert (ended.state, ended.result, ended.message) == ("failed", {"n": 1}, "no key")
        assert (ended.finished_at, ended.open_for) == (frozen_clock.instant, None)
        assert isinstance(take_next(alice), Nothing)

    def test_exact_repeat_gets_the_first_answer(
        self, alice: Executor, number: int, frozen_clock: Any
    ) -> None:
        """I13: zero rows changed by the repeat, whatever the order of its keys."""
        first = callback.call_back(
            executor=alice, number=number, outcome="succeeded", result={"a": 1, "b": 2}
        )
        before = rows()
        frozen_clock.advance(seconds=5)
        again = callback.call_back(
            executor=alice, number=number, outcome="succeeded", result={"b": 2, "a": 1}
        )
        assert (again.state, again.finished_at) == (first.state, first.finished_at)
        assert rows() == before

    def test_other_repeat_is_refused(self, alice: Executor, number: int) -> None:
        """I16: the first result stands."""
        callback.call_back(executor=alice, number=number, outcome="succeeded", result={"a": 1})
        before = rows()
        for outcome, result, said in (
            ("failed", {"a": 1}, "succeeded, not as failed"),
            ("succeeded", {"a": 2}, "succeeded with another result"),
        ):
            with pytest.raises(ReplayConflict, match=f"{said}; the first answer stands"):
                callback.call_back(executor=alice, number=number, outcome=outcome, result=result)
            assert rows() == before

    def test_late_callback_counts_while_open(
        self, alice: Executor, number: int, frozen_clock: Any
    ) -> None:
        """S0.29: past the deadline, but nobody has closed it yet."""
        frozen_clock.advance(seconds=3600)
        ended = callback.call_back(executor=alice, number=number, outcome="succeeded")
        assert ended.state == "succeeded"

    def test_closed_dispatch_takes_no_result(
        self, alice: Executor, number: int, frozen_clock: Any
    ) -> None:
        """S0.29, I14: nothing changes but the journal, which keeps the late result."""
        frozen_clock.advance(seconds=60)
        expiry.expire_due(until=clock.now() + timedelta(seconds=1))
        dispatches, stocks, entries = rows()
        with pytest.raises(Closed, match="expired"):
            callback.call_back(executor=alice, number=number, outcome="succeeded", result={"a": 1})
        assert rows() == (dispatches, stocks, entries + 1)
        late = JournalEntry.objects.timeline("dispatch", number).last()
        assert late is not None
        assert (late.event, late.data) == (
            "late_result",
            {"outcome": "succeeded", "result": {"a": 1}},
        )

    def test_number_of_another_is_unknown(self, number: int) -> None:
        """I14: it answers as one that nobody has."""
        bob = factories.user("uid_bob")
        before = rows()
        for wanted in (number, number + 1):
            with pytest.raises(NotFound, match=f"uid_bob has no dispatch {wanted}"):
                callback.call_back(executor=bob, number=wanted, outcome="succeeded")
            assert rows() == before

    def test_bad_input_changes_nothing(
        self, alice: Executor, number: int, subtests: pytest.Subtests
    ) -> None:
        before = rows()
        cases: list[tuple[dict[str, Any], type[Exception]]] = [
            ({"outcome": "done"}, Invalid),
            ({"outcome": "succeeded", "message": "x" * 4001}, Invalid),
            ({"outcome": "succeeded", "message": "a\x00b"}, BadText),
            ({"outcome": "succeeded", "result": {"a": "\ud800"}}, BadText),
            ({"outcome": "succeeded", "result": {"a": 2**63}}, Invalid),
        ]
        for fields, error in cases:
            with subtests.test(fields=ascii(fields)[:60]):
                with pytest.raises(error):
                    callback.call_back(executor=alice, number=number, **fields)
                assert rows() == before


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
    def test_deadline_moves_forward_only(
        self, alice: Executor, number: int, frozen_clock: Any
    ) -> None:
        """S0.28: max(old deadline, now + seconds)."""
        first = Dispatch.objects.get(pk=number).deadline_at
        assert callback.extend(executor=alice, number=number, seconds=5).deadline_at == first
        longer = callback.extend(executor=alice, number=number, seconds=600).deadline_at
        assert longer == frozen_clock.instant + timedelta(seconds=600)

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

    def test_closed_cannot_be_extended(self, alice: Executor, number: int) -> None:
        callback.release(executor=alice, number=number)
        with pytest.raises(Closed):
            callback.extend(executor=alice, number=number, seconds=60)

    def test_out_of_range_is_refused(self, alice: Executor, number: int) -> None:
        for seconds in (0, -1, 86_401):
            with pytest.raises(Invalid, match="1 to 86400"):
                callback.extend(executor=alice, number=number, seconds=seconds)


class TestReleaseAndCancel:
    def test_repeated_release_answers_the_same(self, alice: Executor, number: int) -> None:
        assert callback.release(executor=alice, number=number).state == "released"
        before = rows()
        assert callback.release(executor=alice, number=number).state == "released"
        assert rows() == before

    def test_finished_cannot_be_released_or_cancelled(self, alice: Executor, number: int) -> None:
        ended = callback.call_back(executor=alice, number=number, outcome="succeeded")
        for act in (ending.release, ending.cancel, ending.expire_now):
            with pytest.raises(Closed, match="succeeded"):
                act(dispatch=ended, actor="admin:olga", reason="too late")

    def test_operator_is_named_in_the_journal(self, number: int) -> None:
        """I55: who and why."""
        ending.cancel(dispatch=existing_dispatch(number), actor="admin:olga", reason="wrong shop")
        entry = JournalEntry.objects.timeline("dispatch", number).last()
        assert entry is not None
        assert (entry.event, entry.actor, entry.reason) == ("cancelled", "admin:olga", "wrong shop")
